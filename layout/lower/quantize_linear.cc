// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear. In TFLite scales are parameters of tensors, in ONNX
// operands: a constant per-tensor scale becomes QUANTIZE and DEQUANTIZE, everything else is composed.
//
// The trap: kernels treat a tensor with quantization parameters differently (PAD fills with the zero point, ADD
// rescales), while ONNX's integers are plain numbers. So the result of QUANTIZE goes through a BITCAST to its own type,
// which drops the parameters. DequantizeLinear looks through the BITCAST, and if it is the only user the BITCAST is
// removed.
//
// Ties: ONNX rounds half to even, the kernels round differently. In the core graph QUANTIZE means ONNX's rule; one that
// no quantized kernel absorbs is composed by legalise (legalise/rounding.h).
//
//     x -> QUANTIZE -> q (scale, zero point) -> BITCAST -> y        DequantizeLinear(y) = DEQUANTIZE(q)
#include "layout/lower/quantize_linear.h"

#include <fmt/format.h>

#include <cmath>

#include "layout/core/block_constant.h"
#include "layout/core/integer_constant.h"
#include "layout/lower/attributes.h"
#include "layout/lower/small_floats.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/recipe/small_floats.h"

namespace lowtide::layout {

namespace recipe = stream::recipe;

namespace {

bool has_parameters(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kUint8 || dtype == DType::kInt16 || dtype == DType::kUint16;
}
bool is_quantized_type(DType dtype) {
  return has_parameters(dtype) || dtype == DType::kInt4 || dtype == DType::kUint4 || stream::has_sign(dtype);
}

void refuse_type(Lowering& lo, DType dtype) {
  lo.unsupported(fmt::format("no TFLite kernel quantizes to or from {}", dtype_name(dtype)),
                 "use integers of 4, 8 or 16 bits, or float8");
}

// The scale and zero point of a node.
struct Grid {
  Val scale, zero;  // zero may be absent
  std::optional<std::vector<double>> known_scale, known_zero;
  int axis = 0;
  int64_t block = 0;

  bool is_known() const { return known_scale && known_zero; }
};

// A scale must be a positive number that is not subnormal. Weights may have channels of scale 0, which are zeros, and
// scales below 0: quantizers to 4 bits choose the sign by the weight of the largest magnitude, which becomes -8.
void check_scales(Lowering& lo, Val x, const Grid& grid) {
  if (!grid.known_scale) return;
  for (size_t i = 0; i < grid.known_scale->size(); ++i) {
    const auto scale = static_cast<float>((*grid.known_scale)[i]);
    const bool is_zero_weight = scale == 0 && lo.b.is_constant(x);
    const bool is_small_weight = lo.b.is_constant(x) && scale > 0 && std::isfinite(scale);
    const bool is_negative_weight = lo.b.is_constant(x) && std::isnormal(scale);
    if ((scale > 0 && std::isnormal(scale)) || is_zero_weight || is_small_weight || is_negative_weight) continue;
    lo.malformed(fmt::format("input 1 ('{}') must be a positive number, and not subnormal; element {} is {}",
                             lo.node.inputs[1], i, scale));
  }
}

// Scales or zero points where they are known. Those of the rows of a constant may be more than other lists.
std::optional<std::vector<double>> entries(Lowering& lo, Val x, Val list) {
  if (!lo.b.is_constant(x) || !lo.b.is_constant(list) || lo.rank(list) != 1) return lo.numbers(list);
  const stream::RecipeRef all = lo.b.graph.at(list.id).constant;
  if (all->elements() > core::kMostScales) return std::nullopt;
  std::vector<double> out;
  constexpr auto kPiece = static_cast<Dim>(stream::kSmallElements);
  for (Dim begin = 0; begin < all->dims[0]; begin += kPiece) {
    const auto piece = recipe::slice(all, {begin}, {std::min(kPiece, all->dims[0] - begin)}, {1});
    const std::vector<double> read = stream::evaluate_doubles(piece, lo.b.graph.budget);
    out.insert(out.end(), read.begin(), read.end());
  }
  return out;
}

Grid read_grid(Lowering& lo, Val x) {
  Grid grid{.scale = lo.input(1), .zero = lo.optional_input(2)};
  const int64_t axis = lo.attr_i("axis", 1);
  grid.block = lo.attr_count("block_size", 0);
  const auto is_one = [&](Val v) { return lo.rank(v) == 0 || lo.shape(v) == Shape{1}; };
  // One scale has one zero point.
  if (grid.zero && is_one(grid.scale) && lo.rank(grid.zero) == 1 && core::is_symbol(lo.b.dim(grid.zero, 0)))
    grid.zero = lo.b.reshape(grid.zero, Shape{1});
  if (!is_one(grid.scale))
    grid.axis = lo.axis(axis, lo.rank(x));
  else if (grid.zero && !is_one(grid.zero))
    lo.malformed(fmt::format("there is one scale, but the zero points have the shape {}",
                             stream::to_string(lo.shape(grid.zero))));
  grid.known_scale = entries(lo, x, grid.scale);
  grid.known_zero = grid.zero          ? entries(lo, x, grid.zero)
                    : grid.known_scale ? std::optional(std::vector<double>(grid.known_scale->size(), 0))
                                       : std::nullopt;
  if (grid.is_known() && grid.known_zero->size() != grid.known_scale->size())
    lo.malformed(
        fmt::format("there are {} scales, but {} zero points", grid.known_scale->size(), grid.known_zero->size()));
  check_scales(lo, x, grid);
  return grid;
}

// The parameters of a TFLite tensor; nullopt when they have no per-tensor form.
std::optional<core::Quantization> whole_tensor(const Grid& grid, DType dtype) {
  if (!grid.is_known() || grid.block != 0 || grid.known_scale->size() != 1 || !has_parameters(dtype)) return {};
  const auto scale = static_cast<float>(grid.known_scale->at(0));
  const auto zero = static_cast<int64_t>(grid.known_zero->at(0));
  if (!(scale > 0) || !std::isfinite(scale)) return {};
  return core::Quantization{{scale}, {zero}, 0};
}

// Scales or zero points in a shape that broadcasts to the data's.
Val broadcast_to_data(Lowering& lo, Val v, const Grid& grid, Val x) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(v);
  if (shape.empty() || shape == Shape{1}) return b.reshape(v, Shape{});
  const auto at = static_cast<size_t>(grid.axis);
  if (grid.block == 0) {
    if (shape.size() != 1)
      lo.malformed(fmt::format("scales must have rank 0 or 1 without block_size; they have rank {}", shape.size()));
    Shape along(lo.shape(x).size(), 1);
    along[at] = shape[0];
    return b.reshape(v, along);
  }
  // Each entry is repeated for `block` elements along the axis; the last block may be shorter.
  const int64_t axis_size = lo.need_static(lo.b.dim(x, grid.axis), "the size of the axis of the blocks");
  const bool sensible = grid.block > 0 && grid.block <= INT32_MAX;
  if (shape.size() != lo.shape(x).size() || !sensible || shape[at] != (axis_size + grid.block - 1) / grid.block)
    lo.misfit(fmt::format("scales of shape {} do not fit data of shape {} and block_size {}", stream::to_string(shape),
                          stream::to_string(lo.shape(x)), grid.block));
  if (b.is_constant(v))
    return b.constant(along_blocks(b.graph.at(v.id).constant, grid.axis, grid.block, axis_size));  // stays a recipe
  const int64_t block = std::min(grid.block, axis_size);  // a longer one would be repeated beyond the data
  Shape split = shape, repeated = shape, joined = shape;
  split.insert(split.begin() + grid.axis + 1, 1);
  repeated.insert(repeated.begin() + grid.axis + 1, block);
  joined[at] = shape[at] * block;
  std::vector<int64_t> begin(shape.size(), 0);
  Shape size = joined;
  size[at] = axis_size;
  return b.slice(b.reshape(b.broadcast_to(b.reshape(v, split), repeated), joined), begin, size);
}

// A zero point of small floats must be zero; it tells the type only.
void check_small_zero(Lowering& lo, const Grid& grid) {
  if (!grid.zero) return;
  if (!grid.known_zero)
    lo.unsupported("a zero point of 8-bit or 4-bit floats that is computed at run time is not supported",
                   "make it an initializer");
  for (const double zero : *grid.known_zero)
    if (zero != 0)
      lo.unsupported(fmt::format("a zero point of {} that is not 0 is not supported", dtype_name(lo.dtype(grid.zero))),
                     "use the zero point 0");
}

// A constant with scales by blocks that all have the same size. Null for others.
stream::RecipeRef floats_of_blocks(Lowering& lo, Val x, const Grid& grid) {
  Builder& b = lo.b;
  const bool is_constant = b.is_constant(x) && b.is_constant(grid.scale) && (!grid.zero || b.is_constant(grid.zero));
  // i32 has more digits than f32: its zero point is subtracted before.
  if (!is_constant || grid.block <= 0 || stream::bits(lo.dtype(x)) > 16) return nullptr;
  const Dim extent = b.dim(x, grid.axis);
  Shape blocks = lo.shape(x);
  blocks[static_cast<size_t>(grid.axis)] = extent / grid.block;
  if (extent == 0 || extent % grid.block != 0 || lo.shape(grid.scale) != blocks ||
      (grid.zero && lo.shape(grid.zero) != blocks))
    return nullptr;
  auto floats = [&](Val v) { return recipe::cast(b.graph.at(v.id).constant, DType::kFloat32); };
  return core::block_floats(b.graph.at(x.id).constant, grid.zero ? floats(grid.zero) : nullptr, floats(grid.scale),
                            grid.axis, grid.block);
}

// The value with quantization parameters, if a BITCAST dropped them to make `v`.
Val with_parameters(Builder& b, Val v) {
  const core::OpId producer = b.graph.at(v.id).producer;
  if (producer < 0) return {};
  const core::Op& op = b.graph.ops[static_cast<size_t>(producer)];
  if (op.kind != Kind::kBitcast || !b.graph.at(op.inputs[0]).quantization) return {};
  return Val{op.inputs[0]};
}

}  // namespace

stream::RecipeRef along_blocks(const stream::RecipeRef& entries, int axis, int64_t block, int64_t axis_size) {
  const auto at = static_cast<size_t>(axis);
  block = std::min(block, axis_size);  // a longer one would be repeated beyond the data
  Shape split = entries->dims, repeated = split, joined = split, size = split;
  split.insert(split.begin() + axis + 1, 1);
  repeated.insert(repeated.begin() + axis + 1, block);
  joined[at] *= block;
  size[at] = axis_size;
  const std::vector<int64_t> begin(size.size(), 0), steps(size.size(), 1);
  auto made = recipe::reshape(recipe::broadcast(recipe::reshape(entries, split), repeated), joined);
  return recipe::slice(made, begin, size, steps);
}

Val as_floats(Builder& b, Val x) {
  if (!b.is_constant(x)) return b.cast(x, DType::kFloat32);
  return b.constant(recipe::cast(b.graph.at(x.id).constant, DType::kFloat32));
}

std::optional<core::Quantization> constant_grid(Lowering& lo, Val scale, Val zero, DType dtype) {
  Grid grid{.scale = scale, .zero = zero};
  grid.known_scale = lo.numbers(scale);
  grid.known_zero = zero ? lo.numbers(zero) : std::optional(std::vector<double>(1, 0));
  if (zero && lo.dtype(zero) != dtype) return std::nullopt;
  return grid.is_known() && grid.known_zero->size() == 1 ? whole_tensor(grid, dtype) : std::nullopt;
}

Val real_of(Lowering& lo, Val x, const core::Quantization& grid) {
  Builder& b = lo.b;
  if (b.is_constant(x))
    return b.constant(recipe::dequantize(b.graph.at(x.id).constant, grid.scale, grid.zero_point, -1));
  return b.op(Kind::kDequantize, {with_grid(b, x, grid)}, core::IndexOptions{DType::kFloat32});
}

Val with_grid(Builder& b, Val x, const core::Quantization& grid) {
  Val q = with_parameters(b, x);
  if (!q || grid != *b.graph.at(q.id).quantization) {
    q = b.op(Kind::kBitcast, {x}, core::IndexOptions{b.dtype(x)});
    b.graph.at(q.id).quantization = grid;
  }
  return q;
}

Val on_grid(Lowering& lo, Val real, const core::Quantization& grid, DType dtype) {
  Builder& b = lo.b;
  if (b.is_constant(real))
    return b.constant(recipe::quantize(b.graph.at(real.id).constant, dtype, grid.scale, grid.zero_point, -1));
  const Val q = b.op(Kind::kQuantize, {real}, core::IndexOptions{dtype});
  b.graph.at(q.id).quantization = grid;
  b.graph.at(q.id).name = lo.node.outputs[0];
  return b.op(Kind::kBitcast, {q}, core::IndexOptions{dtype});
}

Val as_levels(Builder& b, Val levels, Val zero, DType to) {
  Val y = b.round(levels);
  if (zero) y = b.add(y, as_floats(b, zero));
  // In one step for a constant, which sends NaN to the least level, as ONNX Runtime and the built-in MAXIMUM do; with
  // XNNPACK NaN becomes the largest.
  if (b.is_constant(y)) return b.constant(recipe::quantize(b.graph.at(y.id).constant, to, {1.0F}, {}, -1));
  const double count = std::ldexp(1.0, stream::bits(to)), least = stream::is_signed_int(to) ? -count / 2 : 0;
  y = b.minimum(b.maximum(y, b.scalar_like(least, y)), b.scalar_like(least + count - 1, y));
  return b.cast(y, to);
}

Val one_parameter(Lowering& lo, Val parameter) {
  const Shape& shape = lo.shape(parameter);
  if (!shape.empty() && shape != Shape{1})
    lo.unsupported("a list of scales or zero points where one is expected", "quantize the whole tensor by one scale");
  return lo.b.reshape(parameter, Shape{});
}

Levels dynamically_quantized(Builder& b, Val x) {
  constexpr double kLevels = 255;
  std::vector<int> all;
  for (int i = 0; i < b.rank(x); ++i) all.push_back(i);
  Val zero_like_x = b.scalar_like(0, x);
  Val low = b.minimum(b.reduce_min(x, all, false), zero_like_x),
      high = b.maximum(b.reduce_max(x, all, false), zero_like_x);
  Val range = b.sub(high, low);
  const Val step = b.div(range, kLevels);
  Val scale = b.select(b.equal(range, zero_like_x), b.scalar_like(1, x), step);
  Val zero = as_levels(b, b.div(b.neg(low), scale), {}, DType::kUint8);
  return {as_levels(b, b.div(x, scale), zero, DType::kUint8), scale, zero};
}

void lower_quantize_linear(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.b.cast(lo.input(0), DType::kFloat32);
  Grid grid = read_grid(lo, x);
  const DType asked = attr_dtype_or_0(lo, "output_dtype", DType::kUndefined);
  const DType precision = attr_dtype_or_0(lo, "precision", DType::kFloat32);
  const DType to = grid.zero ? lo.dtype(grid.zero) : asked != DType::kUndefined ? asked : DType::kUint8;
  if (!is_quantized_type(to)) refuse_type(lo, to);
  if (!stream::has_sign(to)) lo.ignore_attr("saturate");
  if (!stream::is_float(precision) || precision == DType::kFloat64)
    lo.unsupported(fmt::format("'precision' {} is not supported", dtype_name(precision)),
                   "remove the attribute 'precision'");
  if (const auto parameters = whole_tensor(grid, to); parameters && precision == DType::kFloat32 && !b.is_constant(x))
    return lo.output(0, on_grid(lo, x, *parameters, to));
  if (stream::has_sign(to)) {
    check_small_zero(lo, grid);
    Val levels = b.div(x, broadcast_to_data(lo, as_floats(b, grid.scale), grid, x));
    // ONNX adds the zero point to 4-bit floats only, which makes 0 of minus zero. (An ADD of 0 would be dropped.)
    if (grid.zero && to == DType::kFloat4E2M1)
      levels = b.select(b.equal(levels, b.scalar_like(0, levels)), b.scalar_like(0, levels), levels);
    return lo.output(0, to_small_float(lo, b.cast(b.cast(levels, precision), DType::kFloat32), to));
  }
  Val scale = broadcast_to_data(lo, as_floats(b, grid.scale), grid, x);
  Val zero = grid.zero ? broadcast_to_data(lo, as_floats(b, grid.zero), grid, x) : Val{};
  // f32 has more than twice the digits of the shorter types, so rounding the f32 quotient again is exact.
  lo.output(0, as_levels(b, b.cast(b.cast(b.div(x, scale), precision), DType::kFloat32), zero, to));
}

void lower_dequantize_linear(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const DType from = lo.dtype(x);
  if (!is_quantized_type(from) && from != DType::kInt32) refuse_type(lo, from);
  Grid grid = read_grid(lo, x);
  const DType to = attr_dtype_or_0(lo, "output_dtype", lo.dtype(grid.scale));
  if (!stream::is_float(to)) refuse_type(lo, to);
  if (stream::has_sign(from)) {
    check_small_zero(lo, grid);
    const Val scale = broadcast_to_data(lo, as_floats(b, grid.scale), grid, x);
    return lo.output(0, b.cast(b.mul(as_floats(b, x), scale), to));
  }
  if (const auto parameters = whole_tensor(grid, from); parameters && !b.is_constant(x))
    return lo.output(0, b.cast(real_of(lo, x, *parameters), to));
  // The scales of a constant become part of its recipe, where legalise finds them for quantized kernels.
  if (b.is_constant(x) && grid.is_known() && grid.block == 0) {
    std::vector<float> scale(grid.known_scale->begin(), grid.known_scale->end());
    std::vector<int64_t> zero(grid.known_zero->begin(), grid.known_zero->end());
    const int axis = scale.size() == 1 ? -1 : grid.axis;
    if (axis >= 0 && lo.b.dim(x, axis) != static_cast<Dim>(scale.size()))
      lo.malformed(fmt::format("there are {} scales for an axis of {} elements", scale.size(), lo.b.dim(x, axis)));
    return lo.output(0, b.cast(b.constant(recipe::dequantize(b.graph.at(x.id).constant, scale, zero, axis)), to));
  }
  if (const auto floats = floats_of_blocks(lo, x, grid)) return lo.output(0, b.cast(b.constant(floats), to));
  Val scale = broadcast_to_data(lo, as_floats(b, grid.scale), grid, x);
  Val level = x;
  // For i32 the zero point is subtracted before the conversion to f32 loses digits.
  if (grid.zero && from == DType::kInt32) level = b.sub(level, broadcast_to_data(lo, grid.zero, grid, x));
  level = as_floats(b, level);
  if (grid.zero && from != DType::kInt32) level = b.sub(level, broadcast_to_data(lo, as_floats(b, grid.zero), grid, x));
  lo.output(0, b.cast(b.mul(level, scale), to));
}

void lower_dynamic_quantize_linear(Lowering& lo) {
  const Levels made = dynamically_quantized(lo.b, lo.input(0));
  lo.output(0, made.q);
  lo.output(1, made.scale);
  lo.output(2, made.zero);
}

}  // namespace lowtide::layout
