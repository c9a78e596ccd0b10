// SPDX-License-Identifier: Apache-2.0
#include "layout/core/block_constant.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;
namespace step = stream::step;
using stream::DType;
using stream::RecipeRef;
using stream::Shape;

// One entry for each block, in a shape that broadcasts over the elements of a block.
RecipeRef over_elements(const RecipeRef& entries, size_t axis) {
  Shape dims = entries->dims;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  return recipe::reshape(entries, std::move(dims));
}

bool is_eight_bits_or_less(DType dtype) {
  return dtype == DType::kInt4 || dtype == DType::kUint4 || dtype == DType::kInt8 || dtype == DType::kUint8;
}

bool is_product(const RecipeRef& r, stream::Binary op) {
  const auto* binary = std::get_if<step::Binary>(&r->step);
  return binary && binary->op == op && r->dtype == DType::kFloat32 && r->dims == r->from[0]->dims &&
         r->from[1]->dims.size() == r->dims.size();
}

// The axis of `joined` that is two axes of `split`; nullopt where the shapes differ otherwise.
std::optional<size_t> axis_of_blocks(const Shape& split, const Shape& joined) {
  if (split.size() != joined.size() + 1) return std::nullopt;
  size_t axis = 0;
  while (axis < joined.size() && split[axis] == joined[axis]) ++axis;
  // Blocks of one element, or one block: any axis that fits is right.
  if (axis == joined.size()) --axis;
  for (size_t i = 0; i < joined.size(); ++i) {
    const stream::Dim made = i < axis ? split[i] : i == axis ? split[i] * split[i + 1] : split[i + 1];
    if (made != joined[i]) return std::nullopt;
  }
  return axis;
}

// The permutation with the axis of blocks as two axes that stay beside each other.
stream::Perm on_split_axes(const stream::Perm& perm, size_t axis) {
  stream::Perm out;
  for (const auto from : perm) {
    const auto at = static_cast<size_t>(from);
    out.push_back(at <= axis ? from : from + 1);
    if (at == axis) out.push_back(from + 1);
  }
  return out;
}

}  // namespace

RecipeRef block_floats(const RecipeRef& integers, const RecipeRef& zero, const RecipeRef& scale, int axis,
                       int64_t block) {
  const auto at = static_cast<size_t>(axis);
  Shape split = integers->dims;
  split.insert(split.begin() + axis + 1, block);
  split[at] /= block;
  RecipeRef made = recipe::cast(recipe::reshape(integers, std::move(split)), DType::kFloat32);
  if (zero) made = recipe::binary(stream::Binary::kSub, made, over_elements(zero, at));
  return recipe::reshape(recipe::binary(stream::Binary::kMul, made, over_elements(scale, at)), integers->dims);
}

std::optional<BlockConstant> block_constant(const RecipeRef& floats) {
  if (const auto* permute = std::get_if<step::Permute>(&floats->step)) {
    auto inner = block_constant(floats->from[0]);
    if (!inner) return std::nullopt;
    const auto axis = axis_of_blocks(inner->integers->dims, floats->from[0]->dims);
    if (!axis) return std::nullopt;
    const stream::Perm perm = on_split_axes(permute->perm, *axis);
    inner->integers = recipe::permute(inner->integers, perm);
    inner->scale = recipe::permute(inner->scale, perm);
    if (inner->zero) inner->zero = recipe::permute(inner->zero, perm);
    return inner;
  }
  if (!std::holds_alternative<step::Reshape>(floats->step)) return std::nullopt;
  const RecipeRef& product = floats->from[0];
  if (!is_product(product, stream::Binary::kMul) || !axis_of_blocks(product->dims, floats->dims)) return std::nullopt;
  BlockConstant out{.integers = product->from[0], .zero = nullptr, .scale = product->from[1]};
  if (is_product(out.integers, stream::Binary::kSub)) {
    out.zero = out.integers->from[1];
    out.integers = out.integers->from[0];
  }
  if (!std::holds_alternative<step::Cast>(out.integers->step)) return std::nullopt;
  out.integers = out.integers->from[0];
  if (!is_eight_bits_or_less(out.integers->dtype)) return std::nullopt;
  return out;
}

bool has_whole_zeros(const BlockConstant& constant) {
  if (common_zero(constant)) return true;
  const auto* cast = constant.zero ? std::get_if<step::Cast>(&constant.zero->step) : nullptr;
  return cast && is_eight_bits_or_less(constant.zero->from[0]->dtype);
}

std::optional<int64_t> common_zero(const BlockConstant& constant) {
  if (!constant.zero) return 0;
  const auto* fill = std::get_if<step::Fill>(&constant.zero->step);
  if (!fill) return std::nullopt;
  float value;
  std::memcpy(&value, fill->lane.data(), sizeof(value));
  if (!(std::fabs(value) <= 255) || value != std::nearbyint(value)) return std::nullopt;
  return static_cast<int64_t>(value);
}

}  // namespace lowtide::core
