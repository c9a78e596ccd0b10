// SPDX-License-Identifier: Apache-2.0
// What rows check of their inputs. All throw Error(kMalformed) with the op's name in front.
#pragma once

#include <string_view>

#include "layout/core/builtin.h"

namespace lowtide::core {

[[noreturn]] void reject(const OpView& op, std::string_view text);
void need_inputs(const OpView& op, size_t count);
// Two extents that must be equal, as far as they are known.
void need_equal(const OpView& op, Dim a, Dim b, const char* what);
// A floating-point op wants one dtype throughout; quantized kernels and those with narrow weights mix them.
void need_one_float(const OpView& op, size_t a, size_t b);
// The extent of an axis of which two operands have `a` and `b`, by numpy's rule: equal, or one of them 1.
Dim broadcast(const OpView& op, Dim a, Dim b);

}  // namespace lowtide::core
