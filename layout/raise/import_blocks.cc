// SPDX-License-Identifier: Apache-2.0
// Blocks: operators and weights that are written with other operators.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "layout/raise/blocks_of_weights.h"
#include "layout/raise/families.h"
#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;

constexpr int64_t kOpsetOfBlocks = 21;

}  // namespace

ValueId GraphImport::value_in_blocks(SubgraphScope& scope, const tfl::Tensor& tensor) {
  const tfl::Quantization& q = *tensor.quantization;
  const bool has_type = tensor.dtype == DType::kInt4 || tensor.dtype == DType::kInt8;
  if (!has_type || tensor.shape.size() != 2)
    throw Unsupported(fmt::format("tensor '{}' is quantized in blocks, and {} of rank {}, not a matrix of INT4 or INT8",
                                  tensor.name, tensor.type, tensor.shape.size()));
  if (q.block_zero_points >= 0)
    throw Unsupported(fmt::format("tensor '{}' has a zero point for each block", tensor.name));
  const core::Dim columns = tensor.shape[1];
  if (q.block_size < 1 || columns % q.block_size != 0)
    malformed_model(fmt::format("tensor '{}' has blocks of {} in rows of {}", tensor.name, q.block_size, columns));
  if (q.block_scales < 0 || static_cast<size_t>(q.block_scales) >= scope.from.tensors.size())
    malformed_model(fmt::format("the scales of tensor '{}', tensor {}, do not exist", tensor.name, q.block_scales));
  const tfl::Tensor& scales = scope.from.tensors[static_cast<size_t>(q.block_scales)];
  const Shape wanted = {tensor.shape[0], columns / q.block_size};
  const bool is_real = scales.dtype == DType::kFloat16 || scales.dtype == DType::kFloat32;
  if (!scales.data || !is_real || scales.shape != wanted)
    malformed_model(fmt::format("the scales of tensor '{}' are no constant numbers of shape {}", tensor.name,
                                stream::to_string(wanted)));
  const auto made = std::make_shared<BlockDequantize>();
  made->name = "BLOCK_DEQUANTIZE";
  made->raise = raise_blocks_of_weights;
  made->least_opset = kOpsetOfBlocks;
  made->block_size = q.block_size;
  const ValueId integers = graph_.add_constant(tensor.data, tensor.name);
  const ValueId factors = graph_.add_constant(stream::recipe::cast(scales.data, DType::kFloat32), scales.name);
  const ValueId id = graph_.add_value(DType::kFloat32, tensor.shape);
  graph_.at(id).producer = static_cast<core::OpId>(graph_.ops.size());
  graph_.add_op({.kind = Kind::kCustom,
                 .inputs = {integers, factors},
                 .outputs = {id},
                 .options = core::CustomOptions{made},
                 .origin = static_cast<uint32_t>(graph_.origins.size() - 1)});
  return id;
}

ValueId GraphImport::add_moved(Kind kind, ValueId x, ValueId parameter) { return add_moved(kind, {x, parameter}, {}); }

ValueId GraphImport::add_moved(Kind kind, std::vector<ValueId> inputs, Options options) {
  const std::optional<core::Quantization> quantization = graph_.at(inputs[0]).quantization;
  const DType dtype = graph_.at(inputs[0]).dtype;
  const ValueId made = add_float(kind, std::move(inputs), std::move(options));
  // Scales along an axis do not survive a move: then the real numbers are moved.
  if (quantization && quantization->scale.size() > 1) return made;
  graph_.at(made).dtype = dtype;
  graph_.at(made).quantization = quantization;
  return made;
}

ValueId GraphImport::ints(std::span<const int64_t> list) {
  return graph_.add_ints(list, DType::kInt32, {static_cast<core::Dim>(list.size())});
}

GraphImport::Blocks GraphImport::blocks_of(SubgraphScope& scope, const tfl::Operator& op) {
  const std::vector<ValueId> inputs = values(scope, op.inputs);
  if (inputs.size() != 3 || op.outputs.size() != 1 || std::count(inputs.begin(), inputs.end(), kAbsent) > 0)
    malformed_model(fmt::format("{} needs three inputs and one output", op.name));
  const tfl::Tensor& result = scope.from.tensors[static_cast<size_t>(op.outputs[0])];
  const std::optional<core::Quantization> from = graph_.at(inputs[0]).quantization, to = quantization_of(result);
  if (from && to && from != to)
    throw Unsupported("data and result have different scales, which LiteRT's kernel refuses");
  const auto block = graph_.ints(inputs[1]), border = graph_.ints(inputs[2]);
  const Shape shape = graph_.at(inputs[0]).shape, borders = graph_.at(inputs[2]).shape;
  if (!block) throw known_at_run_time("the size of blocks");
  if (!stream::is_static(borders)) throw known_at_run_time("the number of borders");
  const uint64_t count = stream::element_count(borders);
  if (block->empty() || block->size() + 1 > shape.size() || count != 2 * block->size())
    malformed_model(fmt::format("{} blocks and {} borders do not fit rank {}", block->size(), count, shape.size()));
  int64_t places = 1;  // in a block: the batch is multiplied by them, or divided
  for (int64_t size : *block) {
    if (size < 1) malformed_model(fmt::format("a block has the size {}", size));
    if (size > std::numeric_limits<int32_t>::max() / places)
      malformed_model("a block has more than 2^31 - 1 places, and no batch has");
    places *= size;
  }
  if (border)
    for (int64_t size : *border)
      if (size < 0 || size > std::numeric_limits<int32_t>::max())
        malformed_model(fmt::format("a border has the size {}", size));
  const bool is_open = !border || !stream::is_static(std::span(shape).subspan(1));
  return {inputs[0], inputs[2], shape, *block, border.value_or(std::vector<int64_t>()), is_open, places};
}

ValueId GraphImport::extents_of(ValueId x) { return add_float(Kind::kShape, {x}, core::IndexOptions{DType::kInt32}); }

ValueId GraphImport::computed_borders(const Blocks& from) {
  const core::Value& list = graph_.at(from.border_list);
  const auto count = static_cast<int64_t>(from.block.size());
  ValueId table = from.border_list;
  if (list.dtype != DType::kInt32) table = add_float(Kind::kCast, {table}, core::IndexOptions{DType::kInt32});
  return add_float(Kind::kReshape, {table, ints(std::vector<int64_t>{2 * count})}, {});
}

namespace {

// An axis of each list: the batch, those with blocks, the others.
std::vector<int64_t> for_each_axis(size_t rank, int64_t batch, std::span<const int64_t> blocks) {
  std::vector<int64_t> out(rank, 1);
  out[0] = batch;
  std::copy(blocks.begin(), blocks.end(), out.begin() + 1);
  return out;
}

}  // namespace

// As below, with lists that the model computes: of the extents, divided and multiplied by the blocks.
void GraphImport::open_space_to_batch(SubgraphScope& scope, const tfl::Operator& op, const Blocks& from) {
  const size_t rank = from.shape.size(), count = from.block.size();
  const auto none = [&](size_t axes) { return ints(std::vector<int64_t>(2 * axes, 0)); };
  std::vector<ValueId> borders = {none(1), computed_borders(from)};
  if (rank > count + 1) borders.push_back(none(rank - count - 1));
  const ValueId list = add_float(Kind::kConcatenation, borders, core::ConcatOptions{.axis = 0});
  const ValueId table =
      add_float(Kind::kReshape, {list, ints(std::vector<int64_t>{static_cast<int64_t>(rank), 2})}, {});
  const ValueId padded = add_moved(Kind::kPad, from.data, table);
  // Also where it is not known how much the others are padded.
  for (size_t i = 0; i < rank; ++i)
    if (i == 0 || i > count) graph_.at(padded).shape[i] = from.shape[i];
  const ValueId blocks = ints(for_each_axis(rank, 1, from.block)), all = ints(for_each_axis(rank, from.places, {}));
  const ValueId divided = add_float(Kind::kDiv, {extents_of(padded), blocks}, core::BinaryOptions{});
  // [batch, blocks, place in the block, blocks, place, others]
  const ValueId parts = add_float(Kind::kConcatenation, {divided, ints(from.block)}, core::ConcatOptions{.axis = 0});
  std::vector<int64_t> places = {0}, order;
  for (size_t i = 0; i < count; ++i) {
    places.insert(places.end(), {static_cast<int64_t>(i + 1), static_cast<int64_t>(rank + i)});
    order.push_back(static_cast<int64_t>(2 * i + 2));
  }
  order.push_back(0);
  for (size_t i = 0; i < count; ++i) order.push_back(static_cast<int64_t>(2 * i + 1));
  for (size_t i = count + 1; i < rank; ++i) {
    places.push_back(static_cast<int64_t>(i));
    order.push_back(static_cast<int64_t>(count + i));
  }
  const ValueId apart =
      add_moved(Kind::kReshape, padded, add_float(Kind::kGather, {parts, ints(places)}, core::GatherOptions{}));
  const ValueId moved = add_moved(Kind::kTranspose, apart, ints(order));
  add(scope, Kind::kReshape, {moved, add_float(Kind::kMul, {divided, all}, core::BinaryOptions{})}, {}, op.outputs);
}

void GraphImport::space_to_batch(SubgraphScope& scope, const tfl::Operator& op) {
  const Blocks from = blocks_of(scope, op);
  if (from.is_open) return open_space_to_batch(scope, op, from);
  std::vector<int64_t> pads(2 * from.shape.size(), 0);
  std::copy(from.border.begin(), from.border.end(), pads.begin() + 2);
  const ValueId paddings = graph_.add_ints(pads, DType::kInt32, {static_cast<core::Dim>(from.shape.size()), 2});
  const ValueId padded = add_moved(Kind::kPad, from.data, paddings);
  const Shape shape = graph_.at(padded).shape;
  const size_t count = from.block.size();
  const bool has_batch = stream::is_static(shape[0]);
  std::vector<int64_t> divided = {has_batch ? shape[0] : -1}, order, result = {has_batch ? shape[0] * from.places : -1};
  for (size_t i = 0; i < count; ++i) {
    if (shape[i + 1] % from.block[i] != 0)
      malformed_model(fmt::format("{} padded elements are no multiple of the block {}", shape[i + 1], from.block[i]));
    divided.insert(divided.end(), {shape[i + 1] / from.block[i], from.block[i]});
    order.push_back(static_cast<int64_t>(2 * i + 2));
    result.push_back(shape[i + 1] / from.block[i]);
  }
  order.push_back(0);
  for (size_t i = 0; i < count; ++i) order.push_back(static_cast<int64_t>(2 * i + 1));
  for (size_t i = count + 1; i < shape.size(); ++i) {
    divided.push_back(shape[i]);
    result.push_back(shape[i]);
    order.push_back(static_cast<int64_t>(count + i));
  }
  const ValueId blocks = add_moved(Kind::kReshape, padded, ints(divided));
  const ValueId moved = add_moved(Kind::kTranspose, blocks, ints(order));
  add(scope, Kind::kReshape, {moved, ints(result)}, {}, op.outputs);
}

void GraphImport::open_batch_to_space(SubgraphScope& scope, const tfl::Operator& op, const Blocks& from) {
  const size_t rank = from.shape.size(), count = from.block.size();
  const ValueId blocks = ints(for_each_axis(rank, 1, from.block)), all = ints(for_each_axis(rank, from.places, {}));
  const ValueId divided = add_float(Kind::kDiv, {extents_of(from.data), all}, core::BinaryOptions{});
  const ValueId parts = add_float(Kind::kConcatenation, {ints(from.block), divided}, core::ConcatOptions{.axis = 0});
  std::vector<int64_t> order = {static_cast<int64_t>(count)};
  for (size_t i = 0; i < count; ++i)
    order.insert(order.end(), {static_cast<int64_t>(count + 1 + i), static_cast<int64_t>(i)});
  for (size_t i = count + 1; i < rank; ++i) order.push_back(static_cast<int64_t>(count + i));
  const ValueId moved = add_moved(Kind::kTranspose, add_moved(Kind::kReshape, from.data, parts), ints(order));
  const ValueId joined = add_float(Kind::kMul, {divided, blocks}, core::BinaryOptions{});
  const ValueId space = add_moved(Kind::kReshape, moved, joined);
  // The crops in front (0) and behind (1), of all axes.
  const ValueId list = computed_borders(from);
  const auto crops = [&](size_t side) {
    std::vector<int64_t> places;
    for (size_t i = 0; i < count; ++i) places.push_back(static_cast<int64_t>(2 * i + side));
    const ValueId listed = add_float(Kind::kGather, {list, ints(places)}, core::GatherOptions{});
    std::vector<ValueId> of_axes = {ints(std::vector<int64_t>{0}), listed};
    if (rank > count + 1) of_axes.push_back(ints(std::vector<int64_t>(rank - count - 1, 0)));
    return add_float(Kind::kConcatenation, of_axes, core::ConcatOptions{.axis = 0});
  };
  const ValueId begin = crops(0), cut = add_float(Kind::kAdd, {begin, crops(1)}, core::BinaryOptions{});
  const ValueId size = add_float(Kind::kSub, {joined, cut}, core::BinaryOptions{});
  add(scope, Kind::kSlice, {space, begin, size}, {}, op.outputs);
}

void GraphImport::batch_to_space(SubgraphScope& scope, const tfl::Operator& op) {
  const Blocks from = blocks_of(scope, op);
  if (from.is_open) return open_batch_to_space(scope, op, from);
  const size_t count = from.block.size();
  const bool has_batch = stream::is_static(from.shape[0]);
  if (has_batch && from.shape[0] % from.places != 0)
    malformed_model(fmt::format("the batch {} is no multiple of the {} places in a block", from.shape[0], from.places));
  std::vector<int64_t> divided = from.block, order = {static_cast<int64_t>(count)},
                       joined = {has_batch ? from.shape[0] / from.places : -1};
  divided.push_back(joined[0]);
  std::vector<int64_t> begin = {0}, size = joined;
  for (size_t i = 0; i < count; ++i) {
    divided.push_back(from.shape[i + 1]);
    order.insert(order.end(), {static_cast<int64_t>(count + 1 + i), static_cast<int64_t>(i)});
    joined.push_back(from.shape[i + 1] * from.block[i]);
    begin.push_back(from.border[2 * i]);
    size.push_back(joined.back() - from.border[2 * i] - from.border[2 * i + 1]);
    if (size.back() < 0) malformed_model("crops are larger than the data");
  }
  for (size_t i = count + 1; i < from.shape.size(); ++i) {
    divided.push_back(from.shape[i]);
    order.push_back(static_cast<int64_t>(count + i));
    joined.push_back(from.shape[i]);
    begin.push_back(0);
    size.push_back(from.shape[i]);
  }
  const ValueId blocks = add_moved(Kind::kReshape, from.data, ints(divided));
  const ValueId moved = add_moved(Kind::kTranspose, blocks, ints(order));
  const ValueId space = add_moved(Kind::kReshape, moved, ints(joined));
  add(scope, Kind::kSlice, {space, ints(begin), ints(size)}, {}, op.outputs);
}

}  // namespace lowtide::layout
