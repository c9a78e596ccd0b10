// SPDX-License-Identifier: Apache-2.0
// com.microsoft's MatMulNBits and GatherBlockQuantized: weights of 2, 4 or 8 bits with a scale and a zero point for
// each block. MatMulNBits multiplies by weights [N, blocks, bytes] with blocks along K. The weights become float
// weights of FULLY_CONNECTED or GATHER, as a recipe.
//
// The trap: zero points are packed like the weights, each row padded to a byte, unless they are floats; absent ones are
// the middle of the range. The last block may extend past K. Sources: ONNX Runtime's schemas of the operators.
#include <fmt/format.h>

#include "layout/core/block_constant.h"
#include "layout/core/integer_constant.h"
#include "layout/core/shrunk_weights.h"
#include "layout/lower/quantize_linear.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using stream::Binary;
using stream::RecipeRef;

RecipeRef need_constant(Lowering& lo, Val v, const char* what) {
  if (!lo.b.is_constant(v))
    lo.unsupported(fmt::format("'{}' must be constant; it is computed at run time", what), "make it an initializer");
  return lo.b.graph.at(v.id).constant;
}

RecipeRef shaped(Lowering& lo, RecipeRef tensor, Shape shape, const char* what) {
  if (tensor->elements() != stream::element_count(shape))
    lo.malformed(fmt::format("'{}' must have the elements of shape {}; it has {} elements", what,
                             stream::to_string(shape), tensor->elements()));
  return recipe::reshape(std::move(tensor), std::move(shape));
}

// Bytes [rows, bytes] -> u8, or u4 for 4 bits, [rows, bytes * 8 / bits], the lowest bits of a byte first.
RecipeRef unpacked_bits(const RecipeRef& bytes, int bits) {
  const Shape rows = bytes->dims;
  auto byte = [&](double value) { return recipe::fill_value(value, DType::kUint8, {}); };
  std::vector<RecipeRef> parts;
  for (int shift = 0; shift < 8; shift += bits) {
    RecipeRef part = recipe::binary(Binary::kShiftRight, bytes, byte(shift));
    part = recipe::binary(Binary::kAnd, part, byte((1 << bits) - 1));
    parts.push_back(recipe::reshape(part, {rows[0], rows[1], 1}));
  }
  const RecipeRef numbers = recipe::reshape(recipe::concat(parts, 2), {rows[0], rows[1] * 8 / bits});
  return bits == 4 ? recipe::cast(numbers, DType::kUint4) : numbers;
}

struct Blocks {
  int64_t rows, columns, size, count;  // N, K, of each block, of blocks in a row
  int bits;
};

Blocks read_blocks(Lowering& lo) {
  Blocks blocks{.rows = lo.need_attr_i("N"), .columns = lo.need_attr_i("K"), .size = lo.need_attr_i("block_size")};
  const int64_t bits = lo.attr_i("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    lo.unsupported(fmt::format("weights of {} bits are not supported: bits must be 2, 4 or 8", bits));
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int64_t value : {blocks.rows, blocks.columns, blocks.size})
    if (value < 1 || value > kMost)
      lo.malformed(fmt::format("attributes 'K', 'N' and 'block_size' must be from 1 to {}; one is {}", kMost, value));
  if (blocks.size % 8 != 0)
    lo.malformed(fmt::format("attribute 'block_size' must be a multiple of 8; it is {}", blocks.size));
  blocks.bits = static_cast<int>(bits);
  blocks.count = (blocks.columns + blocks.size - 1) / blocks.size;
  return blocks;
}

// [N, blocks] in f32.
RecipeRef zero_points(Lowering& lo, const Blocks& blocks) {
  const double middle = static_cast<double>(1 << (blocks.bits - 1));
  if (!lo.has_input(3)) return recipe::fill_value(middle, DType::kFloat32, {1, 1});
  RecipeRef zero = need_constant(lo, lo.input(3), "zero_points");
  if (stream::is_float(zero->dtype)) {
    zero = recipe::cast(zero, DType::kFloat32);
  } else if (zero->dtype == DType::kUint8) {
    const int64_t row_bytes = (blocks.count * blocks.bits + 7) / 8;
    zero = unpacked_bits(shaped(lo, zero, {blocks.rows, row_bytes}, "zero_points"), blocks.bits);
    zero = recipe::cast(recipe::slice(zero, {0, 0}, {blocks.rows, blocks.count}, {1, 1}), DType::kFloat32);
  } else {
    lo.unsupported(fmt::format("zero points of {} are not supported", dtype_name(zero->dtype)));
  }
  return shaped(lo, zero, {blocks.rows, blocks.count}, "zero_points");
}

RecipeRef float_weights(Lowering& lo, const Blocks& blocks) {
  RecipeRef packed = need_constant(lo, lo.input(1), "B");
  if (packed->dtype != DType::kUint8)
    lo.unsupported(fmt::format("packed weights of {} are not supported", dtype_name(packed->dtype)));
  const int64_t width = blocks.count * blocks.size;
  packed = shaped(lo, packed, {blocks.rows, width * blocks.bits / 8}, "B");
  RecipeRef scale = recipe::cast(need_constant(lo, lo.input(2), "scales"), DType::kFloat32);
  RecipeRef numbers = unpacked_bits(packed, blocks.bits), zero = zero_points(lo, blocks);
  if (blocks.bits == 2 && !lo.has_input(3)) {  // around 0 they are i4, which has no zero points
    numbers = core::shifted_integers(numbers, -2, DType::kInt4);
    zero = nullptr;
  }
  const RecipeRef made =
      core::block_floats(numbers, zero, shaped(lo, scale, {blocks.rows, blocks.count}, "scales"), 1, blocks.size);
  return recipe::slice(made, {0, 0}, {blocks.rows, blocks.columns}, {1, 1});
}

// A table (or the zero points) of GatherBlockQuantized. Unsigned numbers with zero points lose their middle, and so do
// the zero points: they are signed then. In bytes several numbers are packed along the last axis, which is then that of
// the blocks, and absent zero points are the middle.
RecipeRef numbers(Lowering& lo, size_t input, const char* what, int bits, Dim columns) {
  RecipeRef given = need_constant(lo, lo.input(input), what);
  const int64_t middle = int64_t{1} << (bits - 1);
  if (given->dtype == DType::kUint4 && lo.has_input(3)) return core::shifted_integers(given, -middle, DType::kInt4);
  if (given->dtype == DType::kInt4 || given->dtype == DType::kUint4) return given;
  if (given->dtype != DType::kUint8)
    lo.unsupported(fmt::format("'{}' of type {} is not supported", what, dtype_name(given->dtype)));
  Shape shape = given->dims;
  if (shape.empty()) lo.malformed(fmt::format("'{}' must not be a scalar", what));
  const int64_t bytes = shape.back(), rows = bytes == 0 ? 0 : given->elements() / bytes;
  shape.back() = columns;
  RecipeRef all = unpacked_bits(recipe::reshape(given, {rows, bytes}), bits);
  if (columns > all->dims[1])
    lo.malformed(fmt::format("'{}' must have {} columns; it has {}", what, columns, all->dims[1]));
  all = core::shifted_integers(recipe::slice(all, {0, 0}, {rows, columns}, {1, 1}), -middle,
                               bits == 8 ? DType::kInt8 : DType::kInt4);
  return recipe::reshape(all, shape);
}

// As floats, with a row of zeros behind the table for indices out of range.
Val gather_or_zeros(Builder& b, const RecipeRef& table, Val index, int axis) {
  Shape row = table->dims;
  row[static_cast<size_t>(axis)] = 1;
  const RecipeRef all = recipe::concat({table, recipe::fill_value(0, table->dtype, row)}, axis);
  return b.gather(b.constant(recipe::cast(all, DType::kFloat32)), index, axis);
}

// A table of blocks along an axis, with one entry of `zero` (may be null) and `scale` for each block.
struct BlockTable {
  RecipeRef numbers, zero, scale;
  int along;
  int64_t block;
};

// The floats of what is picked along another axis.
Val rows_of_blocks(Builder& b, const BlockTable& table, Val index, int axis) {
  auto pick = [&](const RecipeRef& from, Dim extent) {
    Shape split = table.scale->dims;
    split.insert(split.begin() + table.along + 1, extent);
    return gather_or_zeros(b, recipe::reshape(from, split), index, axis + (table.along < axis ? 1 : 0));
  };
  Val made = pick(table.numbers, table.block);
  if (table.zero) made = b.sub(made, pick(table.zero, 1));
  made = b.mul(made, pick(table.scale, 1));
  Shape joined = table.numbers->dims;
  const Shape picked = b.shape(index);
  joined.erase(joined.begin() + axis);
  joined.insert(joined.begin() + axis, picked.begin(), picked.end());
  return b.reshape(made, joined);
}

// Indices from 0 on; `rows` for those out of range.
Val index_or_end(Lowering& lo, Val given, Dim rows) {
  Builder& b = lo.b;
  const Val index = non_negative_indices(lo, given, rows);
  const Val zero = b.scalar_like(0, index), end = b.scalar_like(static_cast<double>(rows), index);
  const Val below_end = b.less(index, end);
  return b.select(b.logical_and(b.greater_equal(index, zero), below_end), index, end);
}

}  // namespace

// Integers, zero points and scales of the rows are picked, and floats are made of these rows only. Where an index picks
// from the axis of the blocks, or these do not divide it, the table is stored as floats. So are small tables.
void lower_gather_block_quantized(Lowering& lo) {
  Builder& b = lo.b;
  const bool packed = lo.dtype(lo.input(0)) == DType::kUint8;
  const int rank = lo.rank(lo.input(0));
  const int axis = lo.axis(lo.attr_i("gather_axis", 0), rank), along = lo.axis(lo.attr_i("quantize_axis", 1), rank);
  const int64_t block = lo.attr_i("block_size", 128), bits = lo.attr_i("bits", 4);
  if (bits != 4 && (!packed || (bits != 2 && bits != 8)))
    lo.malformed(fmt::format("attribute 'bits' must be 4, or for uint8 data 2, 4 or 8; it is {}", bits));
  if (block < 1 || block > INT32_MAX)
    lo.malformed(fmt::format("attribute 'block_size' must be positive; it is {}", block));
  if (packed && (axis != 0 || along != rank - 1 || axis == along))
    lo.malformed("for uint8 data gather_axis must be the first axis and quantize_axis the last");

  const auto at = static_cast<size_t>(along);
  Shape shape = need_constant(lo, lo.input(0), "data")->dims;
  if (packed) shape.back() *= 8 / bits;
  RecipeRef scale = recipe::cast(need_constant(lo, lo.input(2), "scales"), DType::kFloat32);
  Shape blocks = shape;
  blocks[at] = (shape[at] + block - 1) / block;
  scale = shaped(lo, scale, blocks, "scales");
  RecipeRef table = numbers(lo, 0, "data", static_cast<int>(bits), shape.back()), zero;
  if (lo.has_input(3)) {
    if (lo.dtype(lo.input(3)) != lo.dtype(lo.input(0))) lo.malformed("'zero_points' must have the type of 'data'");
    zero = numbers(lo, 3, "zero_points", static_cast<int>(bits), blocks.back());
    zero = shaped(lo, recipe::cast(zero, DType::kFloat32), blocks, "zero_points");
  }
  const Val index = index_or_end(lo, lo.input(1), shape[static_cast<size_t>(axis)]);
  const bool stays_integers =
      axis != along && shape[at] % block == 0 && stream::element_count(shape) >= core::kWeightElements;
  Val made;
  if (!stays_integers) {
    table = recipe::cast(table, DType::kFloat32);
    if (zero) table = recipe::binary(Binary::kSub, table, along_blocks(zero, along, block, shape[at]));
    table = recipe::binary(Binary::kMul, table, along_blocks(scale, along, block, shape[at]));
    made = gather_or_zeros(b, table, index, axis);
  } else {
    made = rows_of_blocks(b, {table, zero, scale, along, block}, index, axis);
  }
  lo.output(0, b.cast(made, lo.dtype(lo.input(2))));
}

void lower_matmul_nbits(Lowering& lo) {
  Builder& b = lo.b;
  const Val x = lo.input(0);
  const Blocks blocks = read_blocks(lo);
  lo.ignore_attr("accuracy_level");  // permits less precision than f32
  if (lo.attr_i("weight_prepacked", 0) != 0)
    lo.unsupported("weights prepacked for a GPU (weight_prepacked) are not supported",
                   "export them without prepacking");
  if (lo.has_input(4)) lo.unsupported("reordered groups (g_idx) are not supported", "export the weights without g_idx");
  Val bias = lo.optional_input(5);
  if (bias) bias = b.cast(bias, DType::kFloat32);
  const Val y = b.fully_connected(b.cast(x, DType::kFloat32), b.constant(float_weights(lo, blocks)), bias, true);
  lo.output(0, b.cast(y, lo.dtype(x)));
}

}  // namespace lowtide::layout
