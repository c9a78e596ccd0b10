// SPDX-License-Identifier: Apache-2.0
// The arithmetic of recipes on dense lanes in memory. Floats compute in their own type (f16 and bf16 in f32, rounded
// once, half to even, at each step); integers wrap in two's complement, 4-bit and 2-bit ones to their own width.
//
// The trap: what a float beyond an integer's range becomes is not defined by ONNX; see cast().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stream/dtype.h"
#include "stream/recipe/recipe.h"
#include "stream/shape.h"

namespace lowtide::stream::elementwise {

// A dense operand of a broadcast: its extents equal the result's or are 1, at the same rank.
struct Operand {
  const std::byte* data;
  std::span<const Dim> size;
};

// Whether the step computes in `dtype`; recipe.h's constructors refuse the others with Error(kUnsupported).
bool takes(Unary op, DType dtype);
bool takes(Binary op, DType dtype);
bool takes(Reduction op, DType dtype);
bool compares(Binary op);  // the result is bool
bool castable(DType dtype);

// `out` may be `in`.
//  * kSign of NaN is NaN, kRelu of NaN is NaN (as ONNX Runtime); kRound goes to even; kNot is logical for bool, bitwise
//    for integers.
void unary(Unary op, DType dtype, const std::byte* in, std::byte* out, uint64_t count);

// `out` may be the data of an operand that is not repeated. Throws Error(kMalformed) for an integer division by zero.
//  * kMin and kMax give NaN when either side is NaN. kFloorMod has the divisor's sign, kTruncMod the dividend's (fmod).
//  * integer kPow wraps; a negative exponent gives 0 except for bases 1 and -1, and base 0 is a division by zero.
//  * shifts by the width or more give 0 (-1 for a negative number shifted right), as numpy.
//  * float kFloorDiv is floor of the quotient in double, as TFLite's FLOOR_DIV.
void binary(Binary op, DType dtype, std::span<const Dim> size, Operand a, Operand b, std::byte* out);
void select(int lane, std::span<const Dim> size, Operand condition, Operand yes, Operand no, std::byte* out);

// ONNX Cast as ONNX Runtime does it on x86; `in` and `out` do not overlap.
//  * float -> integer truncates toward zero. Out of range and NaN: for targets of up to 32 signed bits, the low bits of
//    INT32_MIN (so 0 for the 8-bit and 16-bit types, also when the value fits 32 bits, where the low bits are
//    taken); i64: INT64_MIN; u32 and u64: values below half the range as the signed type of that width, above it as
//    (x - half) signed with the top bit turned.
//  * float -> 4-bit and 2-bit integers: through i32 and then the low bits (ONNX Runtime rounds first; ONNX truncates).
//  * integer -> narrower integer: the low bits. -> bool: != 0 (NaN is true). bool -> number: 0 or 1.
//  * to f16, bf16: through f32, each rounding half to even.
//  * to f8 and f4: through f32, half to even, saturating (small_floats.h); not to f8e8m0.
void cast(DType from, DType to, const std::byte* in, std::byte* out, uint64_t count);

// ONNX QuantizeLinear: round(x / scale) half to even, plus zero, saturated to `to`; the division is in f32. NaN becomes
// the smallest value (as ONNX Runtime's vector kernels). `from` is f32, f16 or bf16. One scale for all `count`.
void quantize(DType from, DType to, float scale, int64_t zero, const std::byte* in, std::byte* out, uint64_t count);
// The same with a scale for each element: a row of channels.
void quantize_each(DType from, DType to, const float* scale, int64_t zero, const std::byte* in, std::byte* out,
                   uint64_t count);
// ONNX DequantizeLinear: f32(q - zero) * scale.
void dequantize(DType from, float scale, int64_t zero, const std::byte* in, std::byte* out, uint64_t count);
bool quantizable(DType dtype);  // integers of up to 32 bits

// Packed 2-bit and 4-bit elements (low bits first) to lanes and back. `skip` elements of the first byte are left out.
void unpack(DType dtype, const std::byte* packed, uint64_t skip, std::byte* lanes, uint64_t count);
void pack(DType dtype, const std::byte* lanes, std::byte* packed, uint64_t count);

}  // namespace lowtide::stream::elementwise
