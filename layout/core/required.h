// SPDX-License-Identifier: Apache-2.0
// A field that must be written: it has no default, so that a designated initializer that leaves it out does not
// compile.
#pragma once

#include <utility>

namespace lowtide::core {

template <typename T>
class Required {
 public:
  constexpr Required(T value) : value_(std::move(value)) {}
  constexpr operator const T&() const { return value_; }
  constexpr const T& operator*() const { return value_; }

 private:
  T value_;
};

}  // namespace lowtide::core
