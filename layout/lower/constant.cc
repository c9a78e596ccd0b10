// SPDX-License-Identifier: Apache-2.0
// Constant, ConstantOfShape, Range, EyeLike: tensors from attributes and sizes.
//
// How the specifications differ: RANGE refuses an empty range (ONNX gives no elements). A fill of any size stays a
// recipe.
#include <cmath>
#include <string>

#include "layout/lower/extents.h"
#include "layout/lower/sparse.h"
#include "stream/recipe/pour.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using Type = onnx::Attribute::Type;

const onnx::Tensor& numeric(Lowering& lo, const onnx::Attribute& attribute) {
  if (attribute.type != Type::kTensor || attribute.tensors.size() != 1)
    lo.malformed("'" + attribute.name + "' is not one tensor");
  const onnx::Tensor& tensor = attribute.tensors[0];
  if (!tensor.data) lo.unsupported("a constant of strings has no kernels to use it");
  return tensor;
}

// One attribute of a Constant as a recipe; null when it is not a value.
stream::RecipeRef constant_of(Lowering& lo, const onnx::Attribute& attribute) {
  const std::string& name = attribute.name;
  if (name == "value") return numeric(lo, attribute).data;
  if (name == "value_float" && attribute.type == Type::kFloat) return recipe::floats({&attribute.f, 1}, {});
  if (name == "value_int" && attribute.type == Type::kInt) return recipe::ints({&attribute.i, 1}, DType::kInt64, {});
  if (name == "value_floats" && attribute.type == Type::kFloats)
    return recipe::floats(attribute.floats, {static_cast<Dim>(attribute.floats.size())});
  if (name == "value_ints" && attribute.type == Type::kInts)
    return recipe::ints(attribute.ints, DType::kInt64, {static_cast<Dim>(attribute.ints.size())});
  if (name == "sparse_value" && attribute.type == Type::kSparseTensor && attribute.sparse.size() == 1)
    return dense(attribute.sparse[0], lo.b.graph.budget);
  if (name == "value_string" || name == "value_strings")
    lo.unsupported("a constant of strings has no kernels to use it");
  lo.malformed("attribute '" + name + "' is no value of a Constant");
}

// ONNX Runtime's way: in float, one step after the other; the quotient is taken in double.
Val float_range(Lowering& lo, float start, float limit, float delta) {
  if (delta == 0) lo.malformed("a step of 0");
  if (std::isnan(start) || std::isnan(limit) || std::isnan(delta)) lo.malformed("a range of what is no number");
  const double count = std::max(0.0, std::ceil((1.0 * (limit - start)) / delta));
  if (!(count <= static_cast<double>(stream::kSmallElements))) lo.unsupported("a range of that many floats");
  std::vector<float> elements;
  float value = start;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i, value += delta) elements.push_back(value);
  return lo.b.constant(recipe::floats(elements, {static_cast<Dim>(elements.size())}));
}

}  // namespace

void lower_constant(Lowering& lo) {
  if (lo.node.attributes.size() != 1) lo.malformed("a Constant has exactly one value");
  const onnx::Attribute& attribute = lo.node.attributes[0];
  lo.attr(attribute.name);
  lo.output(0, lo.b.constant(constant_of(lo, attribute)));
}

void lower_constant_of_shape(Lowering& lo) {
  stream::RecipeRef value = recipe::fill_value(0, DType::kFloat32, {});
  if (const onnx::Attribute* attribute = lo.attr("value")) {
    value = numeric(lo, *attribute).data;
    if (value->elements() != 1) lo.malformed("'value' is not one element");
    value = recipe::reshape(value, {});
  }
  Val dims = lo.input(0);
  if (lo.rank(dims) != 1) lo.malformed("the wanted shape is not a list");
  if (auto known = lo.ints(dims)) {
    for (int64_t dim : *known)
      if (dim < 0) lo.malformed("a dimension of " + std::to_string(dim));
    lo.output(0, filled_with(lo, *known, lo.b.constant(value)));
  } else {
    lo.output(0, lo.b.fill(as_i32_clamped(lo, dims), lo.b.constant(value)));
  }
}

void lower_range(Lowering& lo) {
  Val start = as_scalar(lo, lo.input(0)), limit = as_scalar(lo, lo.input(1)), delta = as_scalar(lo, lo.input(2));
  const DType dtype = lo.dtype(start);
  if (lo.dtype(limit) != dtype || lo.dtype(delta) != dtype) lo.malformed("start, limit and delta differ in type");
  auto from = lo.numbers(start), to = lo.numbers(limit), step = lo.numbers(delta);
  if (dtype == DType::kFloat32 && from && to && step) {
    lo.output(0, float_range(lo, static_cast<float>((*from)[0]), static_cast<float>((*to)[0]),
                             static_cast<float>((*step)[0])));
    return;
  }
  if (stream::is_integer(dtype) && lo.ints(delta) && (*lo.ints(delta))[0] == 0) lo.malformed("a step of 0");
  // A dimension is never below 0, and known numbers are folded: everything else may be an empty range.
  const auto first = lo.ints(start);
  const bool counts_up = first && (*first)[0] == 0 && lo.dims(limit) && step && (*step)[0] > 0;
  const bool known = first && lo.ints(limit) && lo.ints(delta);
  if (known) {
    const __int128 span = static_cast<__int128>((*lo.ints(limit))[0]) - (*first)[0];
    if (span / (*lo.ints(delta))[0] > INT32_MAX) lo.malformed("a range of more elements than a tensor has");
  }
  if (!known && !counts_up) {
    Val up = lo.b.maximum(limit, start), down = lo.b.minimum(limit, start);
    if (step)
      limit = (*step)[0] > 0 ? up : down;
    else
      limit = lo.b.select(lo.b.greater(delta, lo.b.scalar_like(0, delta)), up, down);
  }
  lo.output(0, lo.b.range(start, limit, delta));
}

void lower_eye_like(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) != 2) lo.malformed("a matrix is needed, not rank " + std::to_string(lo.rank(x)));
  const int64_t k = lo.attr_i("k", 0);
  const DType dtype = lo.attr_dtype("dtype", lo.dtype(x));
  // Element (row, column) is one where column - row == k.
  const int across[] = {0}, down[] = {1};
  Val columns = lo.b.unsqueeze(counting(lo, lo.b.dim(x, 1), DType::kInt32), across);
  Val rows = lo.b.unsqueeze(counting(lo, lo.b.dim(x, 0), DType::kInt32), down);
  lo.output(0, lo.b.cast(lo.b.equal(columns, lo.b.add(rows, static_cast<double>(k))), dtype));
}

}  // namespace lowtide::layout
