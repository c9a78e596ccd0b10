// SPDX-License-Identifier: Apache-2.0
// Constant, ConstantOfShape, EyeLike. A fill of any size stays a recipe.
#include <algorithm>
#include <limits>
#include <string>

#include "layout/lower/elementwise.h"
#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/sparse.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using Type = onnx::Attribute::Type;

const onnx::Tensor& numeric(Lowering& lo, const onnx::Attribute& attribute) {
  if (attribute.type != Type::kTensor || attribute.tensors.size() != 1)
    lo.malformed("attribute '" + attribute.name + "' must be a tensor");
  const onnx::Tensor& tensor = attribute.tensors[0];
  if (!tensor.data) lo.unsupported("a constant of strings is not supported");
  return tensor;
}

// The value of a Constant, given by one of its attributes.
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
  if (name == "value_string" || name == "value_strings") lo.unsupported("a constant of strings is not supported");
  lo.malformed("attribute '" + name + "' is unknown or has the wrong type");
}

}  // namespace

void lower_constant(Lowering& lo) {
  if (lo.node.attributes.size() != 1)
    lo.malformed("a Constant must have exactly one attribute; it has " + std::to_string(lo.node.attributes.size()));
  const onnx::Attribute& attribute = lo.node.attributes[0];
  lo.attr(attribute.name);
  lo.output(0, lo.b.constant(constant_of(lo, attribute)));
}

void lower_constant_of_shape(Lowering& lo) {
  stream::RecipeRef value = recipe::fill_value(0, DType::kFloat32, {});
  if (const onnx::Attribute* attribute = lo.attr("value")) {
    value = numeric(lo, *attribute).data;
    if (value->elements() != 1)
      lo.malformed("attribute 'value' must have one element; it has " + std::to_string(value->elements()));
    value = recipe::reshape(value, {});
  }
  Val dims = lo.input(0);
  if (lo.rank(dims) != 1)
    lo.malformed("input 0 (the shape) must have rank 1; it has rank " + std::to_string(lo.rank(dims)));
  if (auto known = lo.ints(dims)) {
    for (int64_t dim : *known)
      if (dim < 0) lo.malformed("input 0 (the shape) must not be negative; it contains " + std::to_string(dim));
    lo.output(0, filled_with(lo, *known, lo.b.constant(value)));
  } else {
    lo.output(0, lo.b.fill(as_i32_clamped(lo, dims), lo.b.constant(value)));
  }
}

void lower_eye_like(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) != 2) lo.malformed("the input must have rank 2; it has rank " + std::to_string(lo.rank(x)));
  // Element (row, column) is one where column - row == k. Beyond the extents there are no ones: k is cut to them, and
  // to what a sum with a row holds.
  const onnx::Attribute* given = lo.attr("k");
  if (given && given->type != Type::kInt) lo.malformed("attribute 'k' must be an integer");
  const auto most = [](Dim extent) {
    constexpr int64_t kHalf = int64_t{1} << 30;
    return core::is_symbol(extent) ? kHalf : std::min<int64_t>(extent, std::numeric_limits<int32_t>::max());
  };
  const int64_t k = given ? std::clamp(given->i, -most(lo.b.dim(x, 0)), most(lo.b.dim(x, 1))) : 0;
  const DType dtype = lo.attr_dtype("dtype", lo.dtype(x));
  const int across[] = {0}, down[] = {1};
  Val columns = lo.b.unsqueeze(iota(lo, lo.b.dim(x, 1), DType::kInt32), across);
  Val rows = lo.b.unsqueeze(iota(lo, lo.b.dim(x, 0), DType::kInt32), down);
  const Val ones = lo.b.equal(columns, lo.b.add(rows, static_cast<double>(k)));
  lo.output(0, cast_through_i64(lo.b, ones, dtype));
}

}  // namespace lowtide::layout
