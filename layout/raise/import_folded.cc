// SPDX-License-Identifier: Apache-2.0
// Arithmetic on shapes that are constants: onnx2tf computes them by way of floats (CAST, DIV, CAST), and compares and
// selects them. Only a result that is known is a shape that is known.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/raise/import_graph.h"
#include "layout/raise/saturation.h"
#include "stream/error.h"
#include "stream/recipe/recipe.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

// Lists as long as shapes. What is longer is data, and stays what the file computes.
constexpr uint64_t kMostFolded = 64;

// What shapes are computed with, and what gives the same here and in LiteRT but for what has_other_result names.
bool is_of_shapes(Kind kind) {
  switch (kind) {
    case Kind::kAdd:
    case Kind::kSub:
    case Kind::kMul:
    case Kind::kDiv:
    case Kind::kFloorDiv:
    case Kind::kFloorMod:
    case Kind::kNeg:
    case Kind::kAbs:
    case Kind::kSum:
    case Kind::kReduceProd:
    case Kind::kFloor:
    case Kind::kCeil:
    case Kind::kCast:
    case Kind::kMaximum:
    case Kind::kMinimum:
    case Kind::kEqual:
    case Kind::kNotEqual:
    case Kind::kLess:
    case Kind::kLessEqual:
    case Kind::kGreater:
    case Kind::kGreaterEqual:
    case Kind::kLogicalAnd:
    case Kind::kLogicalOr:
    case Kind::kLogicalNot:
    case Kind::kSelectV2:
    case Kind::kConcatenation:
    case Kind::kPack:
    case Kind::kGather:
    case Kind::kSlice:
    case Kind::kStridedSlice:
    case Kind::kReshape:
    case Kind::kTranspose:
    case Kind::kReverseV2:
    case Kind::kTile:
    case Kind::kFill:
      return true;
    default:
      return false;
  }
}

bool is_short_constant(const core::Graph& graph, ValueId id) {
  const core::Value& value = graph.at(id);
  return value.constant && !value.quantization && value.constant->elements() <= kMostFolded;
}

// Numbers for which a kernel gives another result than the recipe: LiteRT's MAXIMUM and MINIMUM keep a NaN of
// the second operand only.
bool has_other_result(core::Graph& graph, Kind kind, std::span<const ValueId> inputs) {
  const DType from = graph.at(inputs[0]).dtype;
  const auto has = [&](size_t i, auto is_one) {
    const std::vector<double> list = stream::evaluate_doubles(graph.at(inputs[i]).constant, graph.budget);
    return std::any_of(list.begin(), list.end(), is_one);
  };
  const auto is_nan = [](double x) { return std::isnan(x); };
  switch (kind) {
    case Kind::kMaximum:
    case Kind::kMinimum:
      return stream::is_float(from) && (has(0, is_nan) || has(1, is_nan));
    case Kind::kDiv:
    case Kind::kFloorDiv:
    case Kind::kFloorMod:
      if (stream::is_signed_int(from) &&
          has(0, [&](double x) { return x <= -std::ldexp(1.0, stream::bits(from) - 1); }) &&
          has(1, [](double x) { return x == -1; }))
        throw stream::Unsupported(
            fmt::format("a division of the least {} by -1, at which ONNX Runtime crashes", stream::dtype_name(from)));
      return false;
    default:
      return false;
  }
}

// Floats as integers, as at run time (raise_cast of arithmetic.cc).
RecipeRef saturated(const std::vector<double>& numbers, DType dtype, const Shape& shape) {
  if (!Saturation::has_form(dtype)) return nullptr;
  const Saturation limits(dtype);
  std::vector<int64_t> out;
  out.reserve(numbers.size());
  for (double x : numbers)
    out.push_back(!(x < limits.above) ? limits.most : static_cast<int64_t>(std::max(limits.low, x)));
  return stream::recipe::ints(out, dtype, shape);
}

}  // namespace

RecipeRef GraphImport::folded(Kind kind, std::span<const ValueId> inputs, const Options& options,
                              std::span<const TensorType> types) {
  const core::Builtin& row = core::builtin(kind);
  const core::ActivationField* activation = row.activation;
  if (!is_of_shapes(kind) || !*row.fold || types.size() != 1 || !stream::is_static(types[0].shape)) return nullptr;
  if (static_cast<uint64_t>(stream::element_count(types[0].shape)) > kMostFolded) return nullptr;
  if (activation && activation->get(options) != core::Activation::kNone) return nullptr;
  if (!std::all_of(inputs.begin(), inputs.end(),
                   [&](ValueId id) { return id == kAbsent || is_short_constant(graph_, id); }))
    return nullptr;
  if (has_other_result(graph_, kind, inputs)) return nullptr;
  if (kind == Kind::kCast && stream::is_float(graph_.at(inputs[0]).dtype) && stream::is_integer(types[0].dtype))
    return saturated(stream::evaluate_doubles(graph_.at(inputs[0]).constant, graph_.budget), types[0].dtype,
                     types[0].shape);
  const std::vector<RecipeRef> made = (*row.fold)({graph_, kind, inputs, options});
  if (made.size() != 1 || made[0]->dtype != types[0].dtype || made[0]->dims != types[0].shape) return nullptr;
  return stream::recipe::inline_lanes(stream::evaluate(made[0], graph_.budget), made[0]->dtype, made[0]->dims);
}

}  // namespace lowtide::layout
