// com.microsoft's MatMulNBits: a matrix product by weights of 2, 4 or 8 bits, [N, blocks, bytes], with a scale and a
// zero point for each block along K. The weights become the float weights of FULLY_CONNECTED, [N, K], as a recipe.
// The trap: zero points are packed as the weights are, each row for itself and filled up to a byte, unless they are
// floats; where they are absent, they are the middle of the range. The last block may reach beyond K. Source: ONNX
// Runtime's schema of the operator.
#include <fmt/format.h>

#include "layout/lowering.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using stream::Binary;
using stream::RecipeRef;

RecipeRef need_constant(Lowering& lo, Val v, const char* what) {
  if (!lo.b.is_constant(v)) lo.unsupported(fmt::format("'{}' is computed at run time", what), "make it an initializer");
  return lo.b.graph.at(v.id).constant;
}

RecipeRef shaped(Lowering& lo, RecipeRef tensor, Shape shape, const char* what) {
  if (tensor->elements() != stream::element_count(shape))
    lo.malformed(fmt::format("'{}' has {} elements, not {}", what, tensor->elements(), stream::to_string(shape)));
  return recipe::reshape(std::move(tensor), std::move(shape));
}

// Bytes [rows, bytes] -> f32 [rows, bytes * 8 / bits], the lowest bits of a byte first.
RecipeRef unpacked(const RecipeRef& bytes, int bits) {
  const Shape rows = bytes->dims;
  auto byte = [&](double value) { return recipe::fill_value(value, DType::kUint8, {}); };
  std::vector<RecipeRef> parts;
  for (int shift = 0; shift < 8; shift += bits) {
    RecipeRef part = recipe::binary(Binary::kShiftRight, bytes, byte(shift));
    part = recipe::binary(Binary::kAnd, part, byte((1 << bits) - 1));
    parts.push_back(recipe::reshape(part, {rows[0], rows[1], 1}));
  }
  return recipe::cast(recipe::reshape(recipe::concat(parts, 2), {rows[0], rows[1] * 8 / bits}), DType::kFloat32);
}

struct Blocks {
  int64_t rows, columns, size, count;  // N, K, of each block, of blocks in a row
  int bits;
};

Blocks read_blocks(Lowering& lo) {
  Blocks blocks{.rows = lo.need_attr_i("N"), .columns = lo.need_attr_i("K"), .size = lo.need_attr_i("block_size")};
  const int64_t bits = lo.attr_i("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) lo.unsupported(fmt::format("weights of {} bits", bits));
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int64_t value : {blocks.rows, blocks.columns, blocks.size})
    if (value < 1 || value > kMost) lo.malformed(fmt::format("K, N or block_size is {}", value));
  if (blocks.size % 8 != 0) lo.malformed(fmt::format("a block of {} weights is no whole number of bytes", blocks.size));
  blocks.bits = static_cast<int>(bits);
  blocks.count = (blocks.columns + blocks.size - 1) / blocks.size;
  return blocks;
}

// [N, blocks, 1] in f32.
RecipeRef zero_points(Lowering& lo, const Blocks& blocks) {
  const double middle = static_cast<double>(1 << (blocks.bits - 1));
  if (!lo.has_input(3)) return recipe::fill_value(middle, DType::kFloat32, {1, 1, 1});
  RecipeRef zero = need_constant(lo, lo.input(3), "zero_points");
  if (stream::is_float(zero->dtype)) {
    zero = recipe::cast(zero, DType::kFloat32);
  } else if (zero->dtype == DType::kUint8) {
    const int64_t row_bytes = (blocks.count * blocks.bits + 7) / 8;
    zero = unpacked(shaped(lo, zero, {blocks.rows, row_bytes}, "zero_points"), blocks.bits);
    zero = recipe::slice(zero, {0, 0}, {blocks.rows, blocks.count}, {1, 1});
  } else {
    lo.unsupported(fmt::format("zero points of {}", dtype_name(zero->dtype)));
  }
  return shaped(lo, zero, {blocks.rows, blocks.count, 1}, "zero_points");
}

RecipeRef weights(Lowering& lo, const Blocks& blocks) {
  RecipeRef packed = need_constant(lo, lo.input(1), "B");
  if (packed->dtype != DType::kUint8) lo.unsupported(fmt::format("packed weights of {}", dtype_name(packed->dtype)));
  const int64_t width = blocks.count * blocks.size;
  packed = shaped(lo, packed, {blocks.rows, width * blocks.bits / 8}, "B");
  RecipeRef scale = recipe::cast(need_constant(lo, lo.input(2), "scales"), DType::kFloat32);
  RecipeRef made = recipe::reshape(unpacked(packed, blocks.bits), {blocks.rows, blocks.count, blocks.size});
  made = recipe::binary(Binary::kSub, made, zero_points(lo, blocks));
  made = recipe::binary(Binary::kMul, made, shaped(lo, scale, {blocks.rows, blocks.count, 1}, "scales"));
  return recipe::slice(recipe::reshape(made, {blocks.rows, width}), {0, 0}, {blocks.rows, blocks.columns}, {1, 1});
}

}  // namespace

void lower_matmul_nbits(Lowering& lo) {
  Builder& b = lo.b;
  const Val x = lo.input(0);
  const Blocks blocks = read_blocks(lo);
  lo.ignore_attr("accuracy_level");  // allows to compute with less than f32
  if (lo.attr_i("weight_prepacked", 0) != 0) lo.unsupported("weights in the order of a GPU", "export them unpacked");
  if (lo.has_input(4)) lo.unsupported("an order of groups (g_idx)", "export the weights in their own order");
  Val bias = lo.optional_input(5);
  if (bias) bias = b.cast(bias, DType::kFloat32);
  const Val y = b.fully_connected(b.cast(x, DType::kFloat32), b.constant(weights(lo, blocks)), bias, true);
  lo.output(0, b.cast(y, lo.dtype(x)));
}

}  // namespace lowtide::layout
