// SPDX-License-Identifier: Apache-2.0
// The grid of a quantized tensor: integers q of a type that represent scale * (q - zero).
//
// Types of 8 bits come in pairs: u8 with zero point z and i8 with z - 128 are the same numbers, one shifted by 128. The
// kernels' types are chosen by what an op's weights need, so tensors change between the two by a QUANTIZE that only
// shifts; it is exact in every mode of LiteRT.
#pragma once

#include <optional>

#include "layout/core/rewriter.h"

namespace lowtide::layout {

using core::DType;
using core::Graph;
using core::Kind;
using core::Op;
using core::OpId;
using core::Rewriter;
using core::Rule;
using core::Val;
using core::ValueId;

struct TensorGrid {
  DType dtype = DType::kUndefined;  // i8, u8, i16 or u16
  float scale = 1;
  int64_t zero = 0;
  bool operator==(const TensorGrid&) const = default;
};

// The grid of a value; nullopt for values that are not quantized, and for those with a scale for each channel.
std::optional<TensorGrid> grid_of(const core::Value& value);
// Whether kernels take it: not u16, and not i16 with a zero point.
bool has_kernels(const TensorGrid& grid);
core::Quantization quantization_of(const TensorGrid& grid);

// The same numbers in another type: itself, or the other type of 8 bits; else nullopt.
std::optional<TensorGrid> shifted(const TensorGrid& grid, DType to);
bool is_shift(const TensorGrid& from, const TensorGrid& to);

// What is quantized to a float value: the input of the DEQUANTIZE that makes it, traced through shifts. kAbsent where
// the value is made by another op.
ValueId dequantized(const Rewriter& rewriter, ValueId floats);
// A quantized value before all shifts.
ValueId before_shifts(const Rewriter& rewriter, ValueId quantized);

// A new value on a grid, made by an op of its own.
ValueId push_on_grid(Rewriter& rewriter, Op op, const TensorGrid& grid, const core::Shape& shape);
// QUANTIZE of floats or integers; a QUANTIZE of the value to this grid that exists is used again.
ValueId quantized_to(Rewriter& rewriter, ValueId value, const TensorGrid& grid);
// A constant on a grid: rounded half to even, and saturated.
ValueId constant_on_grid(Rewriter& rewriter, ValueId floats, const TensorGrid& grid);
// The quantized value in another type of the same numbers; requires shifted() to have a value.
ValueId as_type(Rewriter& rewriter, ValueId quantized, DType to);

// Whether LiteRT's kernel is right for this op on integers of this type, its rank and broadcasting included.
// `one_scale`: operands and result share one grid.
bool integer_kernel_takes(const Graph& graph, const Op& op, DType dtype, bool one_scale);

}  // namespace lowtide::layout
