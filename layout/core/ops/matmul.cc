// SPDX-License-Identifier: Apache-2.0
// The matrix products.
//
// The trap: FULLY_CONNECTED multiplies by transposed weights [N, K] and flattens the input unless keep_num_dims is set.
// BATCH_MATMUL's adj flags let an operand be stored with its last two axes exchanged, so a transpose of those is free.
// Source of the semantics: LiteRT's tflite/kernels/fully_connected.cc and batch_matmul.cc.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "layout/core/ops/checks.h"
#include "layout/core/ops/rows.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;
using stream::RecipeRef;
using Recipes = std::vector<RecipeRef>;

std::vector<TensorType> infer_fully_connected(const OpView& op) {
  need_one_float(op, 0, 1);
  if (op.rank(1) != 2) reject(op, fmt::format("weights have rank {}, not 2", op.rank(1)));
  if (op.rank(0) < 1) reject(op, "input 0 is a scalar");
  const Dim units = op.shape(1)[0], depth = op.shape(1)[1];
  if (op.has(2))
    need_equal(op, op.symbols().product(op.shape(2)), units, "elements of the bias and rows of the weights");
  Shape shape = op.shape(0);
  if (op.get<FullyConnectedOptions>().keep_num_dims) {
    need_equal(op, shape.back(), depth, "columns of input and weights");
    shape.back() = units;
  } else {
    const Dim elements = op.symbols().product(shape);
    if (!is_symbol(elements) && !is_symbol(depth) && (depth == 0 || elements % depth != 0))
      reject(op, fmt::format("{} elements are not a multiple of {} columns", elements, depth));
    shape = {op.symbols().floor_div(elements, depth), units};
  }
  return {{op.dtype(0), std::move(shape), std::nullopt}};
}

std::vector<TensorType> infer_batch_matmul(const OpView& op) {
  need_one_float(op, 0, 1);
  const auto& options = op.get<BatchMatmulOptions>();
  Shape x = op.shape(0), y = op.shape(1);
  if (x.size() < 2 || y.size() < 2)
    reject(op, fmt::format("the operands have ranks {} and {}, less than 2", x.size(), y.size()));
  if (options.adj_x) std::swap(x[x.size() - 1], x[x.size() - 2]);
  if (options.adj_y) std::swap(y[y.size() - 1], y[y.size() - 2]);
  need_equal(op, x[x.size() - 1], y[y.size() - 2], "columns of the left and rows of the right operand");
  const Dim rows = x[x.size() - 2], columns = y.back();
  const size_t rank = std::max(x.size(), y.size());
  x.insert(x.begin(), rank - x.size(), 1);
  y.insert(y.begin(), rank - y.size(), 1);
  Shape shape;
  for (size_t i = 0; i + 2 < rank; ++i) shape.push_back(broadcast(op, x[i], y[i]));
  shape.push_back(rows);
  shape.push_back(columns);
  return {{op.dtype(0), std::move(shape), std::nullopt}};
}

// The sums over the last axis of x * y, whose other axes broadcast; null where that is more work than is left.
RecipeRef sums_of_products(Graph& graph, RecipeRef x, RecipeRef y, const Shape& result) {
  const Shape products = recipe::broadcast_shape(x->dims, y->dims);
  Dim count = 1;
  for (const Dim dim : products) {
    if (dim == 0 || count > graph.multiplications_left / dim) return nullptr;
    count *= dim;
  }
  graph.multiplications_left -= count;
  const int last = static_cast<int>(products.size()) - 1;
  RecipeRef sums =
      recipe::reduce(stream::Reduction::kSum, recipe::binary(stream::Binary::kMul, std::move(x), std::move(y)), {last});
  return recipe::reshape(std::move(sums), result);
}

bool are_plain_floats(const OpView& op) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.has(i) && (op.dtype(i) != DType::kFloat32 || op.in(i).quantization)) return false;
  return true;
}

Recipes fold_fully_connected(const OpView& op) {
  if (!are_plain_floats(op) || op.get<FullyConnectedOptions>().activation != Activation::kNone) return {};
  const Shape result = infer_fully_connected(op)[0].shape;
  const Dim units = op.shape(1)[0], depth = op.shape(1)[1];
  if (depth == 0) return {};
  const Dim rows = static_cast<Dim>(op.recipe(0)->elements()) / depth;
  RecipeRef made = sums_of_products(op.graph, recipe::reshape(op.recipe(0), {rows, 1, depth}),
                                    recipe::reshape(op.recipe(1), {1, units, depth}), result);
  if (!made) return {};
  if (op.has(2)) made = recipe::binary(stream::Binary::kAdd, made, recipe::reshape(op.recipe(2), {units}));
  return {made};
}

RecipeRef transposed_matrix(RecipeRef matrix) {
  Perm perm = stream::identity_perm(static_cast<int>(matrix->dims.size()));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return recipe::permute(std::move(matrix), perm);
}

Recipes fold_batch_matmul(const OpView& op) {
  if (!are_plain_floats(op)) return {};
  const auto& options = op.get<BatchMatmulOptions>();
  RecipeRef x = options.adj_x ? transposed_matrix(op.recipe(0)) : op.recipe(0);
  RecipeRef y = options.adj_y ? op.recipe(1) : transposed_matrix(op.recipe(1));
  Shape rows = x->dims, columns = y->dims;  // [..., M, 1, K] and [..., 1, N, K]
  rows.insert(rows.end() - 1, 1);
  columns.insert(columns.end() - 2, 1);
  RecipeRef made = sums_of_products(op.graph, recipe::reshape(std::move(x), rows),
                                    recipe::reshape(std::move(y), columns), infer_batch_matmul(op)[0].shape);
  if (!made) return {};
  return {made};
}

bool keeps_last(const Perm& perm) { return !perm.empty() && perm.back() == static_cast<int>(perm.size()) - 1; }

// With keep_num_dims the product works on rows: the axes before the last may change places.
std::optional<Movement> commute_fully_connected(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                                const Perm& perm) {
  if (!op.get<FullyConnectedOptions>().keep_num_dims || !keeps_last(perm)) return std::nullopt;
  if ((!slot.output && slot.index != 0) || perm.size() != op.shape(0).size()) return std::nullopt;
  Movement movement{.inputs = std::vector<Perm>(op.inputs.size()), .outputs = std::vector<Perm>(outputs.size())};
  movement.inputs[0] = movement.outputs[0] = perm;
  return movement;
}

bool swaps_matrix(const Perm& perm) {
  const int rank = static_cast<int>(perm.size());
  return rank >= 2 && perm[perm.size() - 1] == rank - 2 && perm[perm.size() - 2] == rank - 1;
}
bool keeps_matrix(const Perm& perm) {
  const int rank = static_cast<int>(perm.size());
  return rank >= 2 && perm[perm.size() - 1] == rank - 1 && perm[perm.size() - 2] == rank - 2;
}

// Batch axes move alike in all operands (a plain matrix has none and stays). An operand alone may besides have its
// matrix transposed: its adj flag says so then.
std::optional<Movement> commute_batch_matmul(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                             const Perm& perm) {
  const size_t rank = op.graph.at(outputs[0]).shape.size();
  const bool swap = swaps_matrix(perm);
  if (!keeps_matrix(perm) && !(swap && !slot.output)) return std::nullopt;
  Perm batch = perm;
  if (swap) std::swap(batch[batch.size() - 1], batch[batch.size() - 2]);
  if (stream::is_identity(batch)) batch.clear();
  const size_t slot_rank = slot.output ? rank : op.shape(slot.index).size();
  if (perm.size() != slot_rank || (!batch.empty() && slot_rank != rank)) return std::nullopt;
  Movement movement{.inputs = std::vector<Perm>(op.inputs.size()), .outputs = {batch}};
  for (size_t i = 0; i < 2; ++i)
    if (op.shape(i).size() > 2) movement.inputs[i] = batch;
  if (!slot.output) movement.inputs[slot.index] = perm;
  return movement;
}

void rewrite_batch_matmul(Graph&, Op& op, const Movement& movement) {
  auto& options = std::get<BatchMatmulOptions>(op.options);
  if (swaps_matrix(movement.inputs[0])) options.adj_x = !options.adj_x;
  if (swaps_matrix(movement.inputs[1])) options.adj_y = !options.adj_y;
}

bool merge_fully_connected(AxisMerger& m) {
  return std::get<FullyConnectedOptions>(m.op.options).keep_num_dims && merge_all_but_last(m);
}
bool merge_batches(AxisMerger& m) { return m.broadcasting(2, 2); }

// Weights [outputs, inputs].
constexpr Weights kFullyConnectedWeights = {.data = 0,
                                            .weights = 1,
                                            .bias = 2,
                                            .output_axis = 0,
                                            .input_axis = 1,
                                            .requires_bias = false,
                                            .small = SmallWeights::kEightAndFour};

constexpr Builtin fully_connected(Kind kind) {
  Builtin row = computing(
      kind,
      {infer_fully_connected, fold_fully_connected, commute_fully_connected, kNothingToRewrite, merge_fully_connected},
      {kData, kData, kData}, {kData});
  row.limited_rank = LimitedRank::kFirstInput;
  row.weights = &kFullyConnectedWeights;
  row.activation = &kActivationIn<FullyConnectedOptions>;
  row.integers = Integers::kRescaled;
  return row;
}

constexpr std::array kMatmulRows = {
    reading_exactly(fully_connected(Kind::kFullyConnected), 1),
    reading_exactly(with(computing(Kind::kBatchMatmul,
                                   {infer_batch_matmul, fold_batch_matmul, commute_batch_matmul, rewrite_batch_matmul,
                                    merge_batches},
                                   {kData, kData}, {kData}),
                         Integers::kRescaled),
                    1),
};

}  // namespace

std::span<const Builtin> matmul_builtins() { return kMatmulRows; }

}  // namespace lowtide::core
