// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/import_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stream/error.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Kind;
using stream::Code;
using stream::Error;
using stream::Unsupported;

// Integers that stand for real numbers. Wider ones are biases, whose scale follows from the other operands, or indices.
bool may_be_quantized(DType dtype) {
  switch (dtype) {
    case DType::kInt2:
    case DType::kInt4:
    case DType::kUint4:
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt16:
      return true;
    default:
      return false;
  }
}

}  // namespace

void malformed_model(std::string text) { throw Error(Code::kMalformed, std::move(text)); }

bool may_be_equal(core::Dim a, core::Dim b) { return a == b || core::is_symbol(a) || core::is_symbol(b); }

bool may_be_equal(const core::Shape& a, const core::Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](core::Dim left, core::Dim right) { return may_be_equal(left, right); });
}

void need_equal(core::Dim a, core::Dim b, const std::string& text) {
  if (a == b) return;
  if (!may_be_equal(a, b)) malformed_model(text);
  if (core::is_symbol(a) && core::is_symbol(b))
    throw Unsupported(fmt::format("open dimensions that must be equal, where it is not known that they are ({})", text),
                      "fix the inputs' open dimensions with --shape INPUT=...");
  throw core::is_symbol(a) ? OpenDimensionIs{a, b} : OpenDimensionIs{b, a};
}

std::optional<Kind> kind_of_builtin(int32_t code) {
  switch (code) {
#define LOWTIDE_KIND(schema_name, enumerator, number) \
  case number:                                        \
    return Kind::enumerator;
#include "layout/core/kinds.inc"
#undef LOWTIDE_KIND
    default:
      return std::nullopt;
  }
}

std::optional<core::Quantization> quantization_of(const tfl::Tensor& tensor) {
  if (!tensor.quantization || !may_be_quantized(tensor.dtype)) return std::nullopt;
  const tfl::Quantization& from = *tensor.quantization;
  if (from.other_form)
    throw Unsupported(
        fmt::format("tensor '{}' is quantized in blocks or in another form that is not supported", tensor.name));
  core::Quantization out{
      .scale = from.scale, .zero_point = from.zero_point, .axis = from.scale.size() > 1 ? from.axis : 0};
  for (float scale : out.scale)
    if (!std::isfinite(scale) || scale < 0)
      malformed_model(fmt::format("tensor '{}' has the scale {}", tensor.name, scale));
  const int bits = stream::bits(tensor.dtype);
  const bool is_signed = stream::is_signed_int(tensor.dtype);
  const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  for (int64_t zero : out.zero_point)
    if (zero < low || zero > high)
      malformed_model(fmt::format("tensor '{}' has the zero point {}, which its type {} does not have", tensor.name,
                                  zero, tensor.type));
  return out;
}

bool is_complex(const tfl::Tensor& tensor) {
  return tensor.dtype == DType::kComplex64 || tensor.dtype == DType::kComplex128;
}

void need_numbers(const tfl::Tensor& tensor) {
  if (tensor.is_variable)
    throw Unsupported(fmt::format("tensor '{}' is a variable, which keeps its value between runs", tensor.name));
  need_array(tensor);
}

void need_array(const tfl::Tensor& tensor) {
  if (tensor.is_sparse) throw Unsupported(fmt::format("tensor '{}' is stored as a sparse one", tensor.name));
  if (tensor.dtype == DType::kUndefined || tensor.dtype == DType::kString || is_complex(tensor))
    throw Unsupported(fmt::format("tensor '{}' has the type {}", tensor.name, tensor.type));
}

}  // namespace lowtide::layout
