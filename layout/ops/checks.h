// What the trait rows of image ops and matrix products check of their inputs.
#pragma once

#include <fmt/format.h>

#include "layout/traits.h"
#include "stream/error.h"

namespace lowtide::core {

// Throws Error(kMalformed) with the op's name in front.
template <typename... Args>
[[noreturn]] void malformed(const OpView& op, fmt::format_string<Args...> text, Args&&... args) {
  throw stream::Error(stream::Code::kMalformed,
                      fmt::format("{}: {}", kind_name(op.kind), fmt::format(text, std::forward<Args>(args)...)));
}

inline void need_equal(const OpView& op, Dim a, Dim b, const char* what) {
  if (stream::is_static(a) && stream::is_static(b) && a != b) malformed(op, "{}: {} and {} differ", what, a, b);
}

// A floating-point op wants one dtype throughout; quantized kernels and those with narrow weights mix them.
inline void need_one_float(const OpView& op, size_t a, size_t b) {
  if (stream::is_float(op.dtype(a)) && stream::is_float(op.dtype(b)) && op.dtype(a) != op.dtype(b))
    malformed(op, "inputs are {} and {}", stream::dtype_name(op.dtype(a)), stream::dtype_name(op.dtype(b)));
}

}  // namespace lowtide::core
