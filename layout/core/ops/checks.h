// SPDX-License-Identifier: Apache-2.0
// Checks of inputs that rows share. All throw Error(kMalformed) with the op's name in front.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "layout/core/builtin.h"

namespace lowtide::core {

[[noreturn]] void reject(const OpView& op, std::string_view text);
void need_inputs(const OpView& op, size_t count);
// Two extents that must be equal, as far as they are known.
void need_equal(const OpView& op, Dim a, Dim b, const char* what);
// Two inputs that are of one dtype where both are floats; quantized kernels and those with smaller weights mix dtypes.
void need_one_float(const OpView& op, size_t a, size_t b);
// The extent of an axis that is `a` in one operand and `b` in another, by numpy's rule: equal, or one of them 1.
Dim broadcast(const OpView& op, Dim a, Dim b);

// Elements of a tensor that are computed from others. Extents that overflow are an error, but elements wrap in the
// kernel: nullopt there.
template <typename F>
std::optional<std::vector<Dim>> unless_overflow(F&& compute) {
  try {
    return compute();
  } catch (const DimOverflow&) {
    return std::nullopt;
  }
}

}  // namespace lowtide::core
