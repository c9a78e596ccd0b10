// SPDX-License-Identifier: Apache-2.0
// A std::optional that holds its value elsewhere: eight bytes where there is none. For members that few of very many
// objects have.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace lowtide::core {

template <typename T>
class Boxed {
 public:
  Boxed() = default;
  Boxed(std::nullopt_t) {}
  Boxed(T value) : held_(std::make_unique<T>(std::move(value))) {}
  Boxed(std::optional<T> value) : held_(value ? std::make_unique<T>(*std::move(value)) : nullptr) {}
  Boxed(const Boxed& other) : held_(other.held_ ? std::make_unique<T>(*other.held_) : nullptr) {}
  Boxed(Boxed&&) noexcept = default;
  Boxed& operator=(Boxed other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }

  explicit operator bool() const { return held_ != nullptr; }
  bool has_value() const { return held_ != nullptr; }
  operator std::optional<T>() const { return held_ ? std::optional<T>(*held_) : std::nullopt; }
  T& operator*() { return *held_; }
  const T& operator*() const { return *held_; }
  T* operator->() { return held_.get(); }
  const T* operator->() const { return held_.get(); }

  template <typename... Args>
  T& emplace(Args&&... args) {
    held_ = std::make_unique<T>(std::forward<Args>(args)...);
    return *held_;
  }
  void reset() { held_.reset(); }

  friend bool operator==(const Boxed& a, const Boxed& b) {
    return a.held_ && b.held_ ? *a == *b : !a.held_ == !b.held_;
  }
  friend bool operator==(const Boxed& a, const std::optional<T>& b) { return a.held_ && b ? *a == *b : !a.held_ == !b; }
  friend bool operator==(const Boxed& a, const T& b) { return a.held_ && *a == b; }

 private:
  std::unique_ptr<T> held_;
};

}  // namespace lowtide::core
