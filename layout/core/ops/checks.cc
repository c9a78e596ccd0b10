// SPDX-License-Identifier: Apache-2.0
#include "layout/core/ops/checks.h"

#include <fmt/format.h>

#include "layout/core/dim_requirements.h"
#include "stream/error.h"

namespace lowtide::core {

void reject(const OpView& op, std::string_view text) {
  throw stream::Error(stream::Code::kMalformed, fmt::format("{}: {}", kind_name(op.kind), text));
}

void need_inputs(const OpView& op, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!op.has(i)) reject(op, fmt::format("input {} is missing", i));
}

void need_equal(const OpView& op, Dim a, Dim b, const char* what) {
  if (stream::is_static(a) && stream::is_static(b) && a != b)
    reject(op, fmt::format("{}: {} and {} differ", what, a, b));
  if (op.requirements) op.requirements->equal(a, b);
}

void need_one_float(const OpView& op, size_t a, size_t b) {
  if (stream::is_float(op.dtype(a)) && stream::is_float(op.dtype(b)) && op.dtype(a) != op.dtype(b))
    reject(op, fmt::format("inputs are {} and {}", stream::dtype_name(op.dtype(a)), stream::dtype_name(op.dtype(b))));
}

Dim broadcast(const OpView& op, Dim a, Dim b) {
  if (op.requirements) op.requirements->broadcast(a, b);
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  // A symbol against a static extent: it can only be that extent (or 1, which gives the same).
  if (is_symbol(a) && !is_symbol(b)) return b;
  if (is_symbol(b) && !is_symbol(a)) return a;
  // Two different symbols: equal at run time, or one of them 1.
  if (is_symbol(a) && is_symbol(b)) return op.symbols().max(a, b);
  reject(op, fmt::format("extents {} and {} do not broadcast", a, b));
}

}  // namespace lowtide::core
