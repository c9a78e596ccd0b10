// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/import_tflite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "layout/core/builtin.h"
#include "layout/raise/options.h"
#include "layout/raise/table.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"
#include "stream/printable.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::kAbsent;
using core::Kind;
using core::Options;
using core::Shape;
using core::TensorType;
using core::ValueId;
using stream::Code;
using stream::Error;
using stream::Unsupported;
using tflite::BuiltinOperator;

constexpr ValueId kNotMade = -2;
constexpr int kMostNested = 16;  // composites inside composites

[[noreturn]] void malformed_model(std::string text) { throw Error(Code::kMalformed, std::move(text)); }

std::optional<Kind> kind_of(int32_t code) {
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

// While it exists, quantized values of the list are f32.
class AsRealNumbers {
 public:
  AsRealNumbers(core::Graph& graph, std::span<const ValueId> ids) : graph_(graph) {
    for (ValueId id : ids) {
      if (id == kAbsent || !graph.at(id).quantization || graph.at(id).dtype == DType::kFloat32) continue;
      changed_.emplace_back(id, graph.at(id).dtype);
      graph.at(id).dtype = DType::kFloat32;
    }
  }
  ~AsRealNumbers() {
    for (const auto& [id, dtype] : changed_) graph_.at(id).dtype = dtype;
  }
  AsRealNumbers(const AsRealNumbers&) = delete;
  AsRealNumbers& operator=(const AsRealNumbers&) = delete;

 private:
  core::Graph& graph_;
  std::vector<std::pair<ValueId, DType>> changed_;
};

// A subgraph that is being imported: which value each of its tensors is.
struct SubgraphScope {
  const tfl::Subgraph& from;
  std::vector<ValueId> values;
  std::string label;  // in front of operators' numbers: empty, or "7." inside the composite 7
  int depth = 0;
};

class Import {
 public:
  Import(const tfl::Model& model, core::Model& out, std::vector<Unsupported>& refused)
      : model_(model),
        graph_(*out.graphs.emplace_back(std::make_unique<core::Graph>(out.symbols, out.budget))),
        refused_(refused) {}

  void run(uint32_t main, const tfl::Signature* signature) {
    const tfl::Subgraph& from = model_.subgraphs[main];
    graph_.name = from.name.empty() ? "main" : from.name;
    SubgraphScope scope{from, std::vector<ValueId>(from.tensors.size(), kNotMade), {}, 0};
    for (size_t i = 0; i < from.inputs.size(); ++i) add_input(scope, from.inputs[i], signature, i);
    operators(scope);
    for (size_t i = 0; i < from.outputs.size(); ++i) {
      graph_.outputs.push_back(value(scope, from.outputs[i]));
      const auto tensor = static_cast<uint32_t>(from.outputs[i]);
      graph_.output_names.push_back(
          port_name(from.tensors[tensor].name, tensor, signature ? &signature->outputs : nullptr, "output", i));
    }
  }

 private:
  using Ports = std::vector<std::pair<std::string, uint32_t>>;

  // A tensor's own name, or that of the signature where it has none.
  static std::string port_name(const std::string& own, uint32_t tensor, const Ports* ports, const char* what,
                               size_t i) {
    if (!own.empty()) return own;
    if (ports)
      for (const auto& [name, index] : *ports)
        if (index == tensor && !name.empty()) return name;
    return fmt::format("{}_{}", what, i);
  }

  void add_input(SubgraphScope& scope, int32_t index, const tfl::Signature* signature, size_t i) {
    const auto tensor = static_cast<size_t>(index);
    const tfl::Tensor& from = scope.from.tensors[tensor];
    const std::string name =
        port_name(from.name, static_cast<uint32_t>(index), signature ? &signature->inputs : nullptr, "input", i);
    if (scope.values[tensor] != kNotMade) malformed_model(fmt::format("the input '{}' is listed twice", name));
    need_numbers(from);
    Shape shape = from.shape;
    for (size_t axis = 0; axis < from.shape_signature.size(); ++axis)
      if (from.shape_signature[axis] < 0)
        shape[axis] = graph_.symbols.named(fmt::format("{}_dim{}", stream::printable(name), axis));
    const ValueId id = graph_.add_value(from.dtype, std::move(shape), name);
    graph_.at(id).quantization = quantization_of(from);
    scope.values[tensor] = id;
    graph_.inputs.push_back(id);
    graph_.input_names.push_back(name);
  }

  static void need_numbers(const tfl::Tensor& tensor) {
    if (tensor.is_variable)
      throw Unsupported(fmt::format("tensor '{}' is a variable, which keeps its value between runs", tensor.name));
    if (tensor.is_sparse) throw Unsupported(fmt::format("tensor '{}' is stored as a sparse one", tensor.name));
    if (tensor.dtype == DType::kUndefined || tensor.dtype == DType::kString)
      throw Unsupported(fmt::format("tensor '{}' has the type {}", tensor.name, tensor.type));
  }

  ValueId value(SubgraphScope& scope, int32_t index) {
    if (index < 0) return kAbsent;
    ValueId& made = scope.values[static_cast<size_t>(index)];
    if (made != kNotMade) return made;
    const tfl::Tensor& from = scope.from.tensors[static_cast<size_t>(index)];
    need_numbers(from);
    stream::RecipeRef data = from.data;
    const bool is_empty = std::find(from.shape.begin(), from.shape.end(), 0) != from.shape.end();
    if (!data && from.has_data) throw Unsupported(fmt::format("the data of constant '{}' cannot be read", from.name));
    if (!data && !is_empty)
      malformed_model(fmt::format("tensor '{}' is read, but no operator writes it and it has no data", from.name));
    if (!data) data = stream::recipe::inline_lanes({}, from.dtype, from.shape);
    const std::optional<core::Quantization> quantization = quantization_of(from);
    made = graph_.add_constant(std::move(data), from.name);
    graph_.at(made).quantization = quantization;
    return made;
  }

  static std::string names(const SubgraphScope& scope, std::span<const int32_t> tensors) {
    std::vector<std::string> out;
    for (int32_t tensor : tensors)
      out.push_back(tensor < 0 ? "absent" : "'" + scope.from.tensors[static_cast<size_t>(tensor)].name + "'");
    return fmt::format("{}", fmt::join(out, ", "));
  }

  void operators(SubgraphScope& scope) {
    for (size_t i = 0; i < scope.from.operators.size(); ++i) {
      const tfl::Operator& op = scope.from.operators[i];
      const std::string output = op.outputs.empty() ? "" : scope.from.tensors[static_cast<size_t>(op.outputs[0])].name;
      const std::string label = fmt::format("{}{}: {}", scope.label, i, output);
      graph_.add_origin(label, 0);
      const stream::Where where{
          .node = label, .op = op.name, .slot = fmt::format("inputs {}", names(scope, op.inputs))};
      try {
        operation(scope, op, i);
      } catch (Unsupported& error) {
        error.add_place(where);
        refused_.push_back(error);
        use_types_of_file(scope, op);
      } catch (Error& error) {
        // Behind a refused operator types are those of the file, which may be wrong.
        if (!refused_.empty()) {
          use_types_of_file(scope, op);
          continue;
        }
        error.add_place(where);
        throw;
      }
    }
  }

  // Of an operator that is refused: so that those behind it are judged too.
  void use_types_of_file(SubgraphScope& scope, const tfl::Operator& op) {
    for (int32_t output : op.outputs) {
      const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(output)];
      if (scope.values[static_cast<size_t>(output)] >= 0) continue;
      const ValueId id = graph_.add_value(tensor.dtype, tensor.shape, tensor.name);
      if (tensor.quantization && !tensor.quantization->other_form) graph_.at(id).quantization = quantization_of(tensor);
      scope.values[static_cast<size_t>(output)] = id;
    }
  }

  void operation(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
    for (const int32_t output : op.outputs)
      if (const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(output)]; tensor.has_data)
        malformed_model(fmt::format("it writes to the constant '{}'", tensor.name));
    const auto code = static_cast<BuiltinOperator>(op.code);
    if (code == BuiltinOperator::CUSTOM) throw Unsupported("it is a custom operator", "ONNX has no form of it");
    if (code == BuiltinOperator::STABLEHLO_COMPOSITE) return composite(scope, op, index);
    for (int32_t input : op.inputs)
      if (input >= 0) value(scope, input);
    if (code == BuiltinOperator::SPACE_TO_BATCH_ND) return space_to_batch(scope, op);
    if (code == BuiltinOperator::BATCH_TO_SPACE_ND) return batch_to_space(scope, op);
    if (code == BuiltinOperator::SQUARED_DIFFERENCE) return squared_difference(scope, op);
    const std::optional<Kind> kind = kind_of(op.code);
    const RaiseRow* row = kind ? raise_row(*kind) : nullptr;
    if (!row) throw Unsupported(fmt::format("{} is not supported in this direction", op.name));
    std::vector<ValueId> inputs = values(scope, op.inputs);
    // As LiteRT does: a list of i32, else the option.
    if (*kind == Kind::kReshape && !(inputs.size() == 2 && is_list(inputs[1]))) {
      inputs.resize(1, kAbsent);
      inputs.push_back(shape_option(op));
    }
    while (!inputs.empty() && inputs.back() == kAbsent) inputs.pop_back();
    for (size_t i = 0; i < row->least_inputs; ++i)
      if (i >= inputs.size() || inputs[i] == kAbsent) malformed_model(fmt::format("{} needs its input {}", op.name, i));
    if (inputs.size() > row->most_inputs)
      malformed_model(fmt::format("it has {} inputs, more than {}", inputs.size(), row->most_inputs));
    if (row->most_inputs == RaiseRow::kAnyNumber)
      for (ValueId input : inputs)
        if (input == kAbsent) malformed_model("one of its inputs is absent");
    if (op.outputs.empty()) malformed_model("it has no output");
    // Counted from the front, as the rows expect them.
    Options options = options_of(*kind, op, inputs, scope.from.tensors[static_cast<size_t>(op.outputs[0])].dtype);
    add(scope, *kind, std::move(inputs), std::move(options), op.outputs);
  }

  std::vector<ValueId> values(SubgraphScope& scope, std::span<const int32_t> tensors) {
    std::vector<ValueId> out;
    for (int32_t tensor : tensors) out.push_back(value(scope, tensor));
    return out;
  }

  bool is_list(ValueId id) const {
    return id != kAbsent && graph_.at(id).rank() == 1 && graph_.at(id).dtype == DType::kInt32;
  }

  // The shape of RESHAPE in files of old converters.
  ValueId shape_option(const tfl::Operator& op) {
    for (const tfl::Option& option : op.options)
      if (option.name == "new_shape")
        if (const auto* list = std::get_if<std::vector<int64_t>>(&option.value))
          return graph_.add_ints(*list, DType::kInt32, {static_cast<core::Dim>(list->size())});
    malformed_model("RESHAPE has neither an input nor an option with its shape");
  }

  int front(int axis, size_t rank, const char* what) const {
    const int ranks = static_cast<int>(rank);
    if (axis < -ranks || axis >= ranks)
      malformed_model(fmt::format("{} {} is outside a tensor of rank {}", what, axis, rank));
    return axis < 0 ? axis + ranks : axis;
  }

  Options options_of(Kind kind, const tfl::Operator& op, std::span<const ValueId> inputs, DType result) {
    Options out = read_builtin_options(kind, op);
    auto rank = [&](size_t input) { return graph_.at(inputs[input]).shape.size(); };
    if (auto* concat = std::get_if<core::ConcatOptions>(&out)) concat->axis = front(concat->axis, rank(0), "axis");
    if (auto* pack = std::get_if<core::PackOptions>(&out))
      pack->axis = front(pack->axis, rank(0) + (kind == Kind::kPack ? 1 : 0), "axis");
    if (auto* gather = std::get_if<core::GatherOptions>(&out)) {
      gather->axis = front(gather->axis, rank(0), "axis");
      const int batch = gather->batch_dims;
      gather->batch_dims = batch < 0 ? batch + static_cast<int>(rank(1)) : batch;
      if (gather->batch_dims < 0 || gather->batch_dims > gather->axis ||
          gather->batch_dims > static_cast<int>(std::min(rank(0), rank(1))))
        malformed_model(fmt::format("batch_dims {} does not fit axis {} and ranks {} and {}", batch, gather->axis,
                                    rank(0), rank(1)));
    }
    if (kind == Kind::kOneHot)
      if (auto* one_hot = std::get_if<core::OneHotOptions>(&out); one_hot->axis != -1)
        one_hot->axis = front(one_hot->axis, rank(0) + 1, "axis");
    if (auto* reverse = std::get_if<core::ReverseSequenceOptions>(&out)) {
      reverse->sequence_axis = front(reverse->sequence_axis, rank(0), "seq_dim");
      reverse->batch_axis = front(reverse->batch_axis, rank(0), "batch_dim");
    }
    const bool has_index =
        kind == Kind::kCast || kind == Kind::kShape || kind == Kind::kArgMax || kind == Kind::kArgMin;
    if (has_index) out = core::IndexOptions{result};
    return out;
  }

  std::vector<TensorType> infer(Kind kind, std::span<const ValueId> inputs, const Options& options, size_t outputs) {
    const AsRealNumbers real(graph_, inputs);
    return core::builtin(kind).infer({graph_, kind, inputs, options, static_cast<int>(outputs)});
  }

  // The type of the file in place of what was inferred of real numbers.
  void check_type(const TensorType& type, const tfl::Tensor& tensor, bool is_quantized) const {
    const DType expected = is_quantized ? DType::kFloat32 : tensor.dtype;
    if (type.dtype != expected)
      throw Unsupported(fmt::format("output '{}' is {}{}, but the operator's result is {}", tensor.name, tensor.type,
                                    is_quantized ? " with a scale" : "", dtype_name(type.dtype)));
  }
  void check_shape(const Shape& shape, const tfl::Tensor& tensor) const {
    bool fits = shape.size() == tensor.shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) {
      const bool is_open = !tensor.shape_signature.empty() && tensor.shape_signature[i] < 0;
      fits = is_open || core::is_symbol(shape[i]) || shape[i] == tensor.shape[i];
    }
    if (!fits)
      malformed_model(fmt::format("output '{}' has shape {}, but the operator gives {}", tensor.name,
                                  stream::to_string(tensor.shape), stream::to_string(shape)));
  }

  void add(SubgraphScope& scope, Kind kind, std::vector<ValueId> inputs, Options options,
           std::span<const int32_t> outputs) {
    const bool converts = kind == Kind::kQuantize || kind == Kind::kDequantize;
    std::vector<TensorType> types;
    if (converts)
      types = {{DType::kFloat32, graph_.at(inputs[0]).shape, std::nullopt}};
    else
      types = infer(kind, inputs, options, outputs.size());
    if (types.size() != outputs.size())
      malformed_model(fmt::format("it has {} outputs in place of {}", outputs.size(), types.size()));
    core::Op op{.kind = kind,
                .inputs = std::move(inputs),
                .outputs = {},
                .options = std::move(options),
                .origin = static_cast<uint32_t>(graph_.origins.size() - 1)};
    for (size_t i = 0; i < types.size(); ++i) {
      const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(outputs[i])];
      need_numbers(tensor);
      const std::optional<core::Quantization> quantization = quantization_of(tensor);
      check_type(types[i], tensor, quantization.has_value() && kind != Kind::kCast);
      check_shape(types[i].shape, tensor);
      const std::optional<std::vector<core::Dim>>& known = types[i].contents;
      if (known && types.size() == 1 && stream::is_static(types[i].shape) && !quantization &&
          std::none_of(known->begin(), known->end(), core::is_symbol)) {
        // Arithmetic on shapes whose result is known.
        scope.values[static_cast<size_t>(outputs[0])] = graph_.add_ints(*known, tensor.dtype, types[i].shape);
        return;
      }
      const ValueId id = graph_.add_value(tensor.dtype, std::move(types[i].shape), tensor.name);
      graph_.at(id).contents = std::move(types[i].contents);
      graph_.at(id).quantization = quantization;
      graph_.at(id).producer = static_cast<core::OpId>(graph_.ops.size());
      op.outputs.push_back(id);
      scope.values[static_cast<size_t>(outputs[i])] = id;
    }
    graph_.ops.push_back(std::move(op));
  }

  // An op between two operators of the file, on floats.
  ValueId add_float(Kind kind, std::vector<ValueId> inputs, Options options) {
    std::vector<TensorType> types = infer(kind, inputs, options, 1);
    const ValueId id = graph_.add_value(types[0].dtype, std::move(types[0].shape));
    graph_.at(id).producer = static_cast<core::OpId>(graph_.ops.size());
    graph_.ops.push_back({.kind = kind,
                          .inputs = std::move(inputs),
                          .outputs = {id},
                          .options = std::move(options),
                          .origin = static_cast<uint32_t>(graph_.origins.size() - 1)});
    return id;
  }

  void squared_difference(SubgraphScope& scope, const tfl::Operator& op) {
    const std::vector<ValueId> inputs = values(scope, op.inputs);
    if (inputs.size() != 2 || op.outputs.size() != 1 || inputs[0] == kAbsent || inputs[1] == kAbsent)
      malformed_model("SQUARED_DIFFERENCE needs two inputs and one output");
    const ValueId difference = add_float(Kind::kSub, inputs, core::BinaryOptions{});
    add(scope, Kind::kMul, {difference, difference}, core::BinaryOptions{}, op.outputs);
  }

  // An op between two operators of the file that moves elements of a static shape.
  ValueId add_moved(Kind kind, ValueId x, ValueId parameter) {
    const std::optional<core::Quantization> quantization = graph_.at(x).quantization;
    const DType dtype = graph_.at(x).dtype;
    const ValueId made = add_float(kind, {x, parameter}, {});
    graph_.at(made).dtype = dtype;
    graph_.at(made).quantization = quantization;
    return made;
  }
  ValueId ints(std::span<const int64_t> list) {
    return graph_.add_ints(list, DType::kInt32, {static_cast<core::Dim>(list.size())});
  }

  // Data, block shape, and paddings or crops, all but the data constant.
  struct Blocks {
    ValueId data;
    Shape shape;
    std::vector<int64_t> block, border;
  };
  Blocks blocks_of(SubgraphScope& scope, const tfl::Operator& op) {
    const std::vector<ValueId> inputs = values(scope, op.inputs);
    if (inputs.size() != 3 || op.outputs.size() != 1 || std::count(inputs.begin(), inputs.end(), kAbsent) > 0)
      malformed_model(fmt::format("{} needs three inputs and one output", op.name));
    const auto block = graph_.ints(inputs[1]), border = graph_.ints(inputs[2]);
    const Shape shape = graph_.at(inputs[0]).shape;
    if (!block || !border) throw Unsupported("blocks and borders that are known at run time only");
    if (shape.empty() || !stream::is_static(std::span(shape).subspan(1)))
      throw Unsupported("data of which more than the batch is known at run time only");
    if (block->empty() || block->size() + 1 > shape.size() || border->size() != 2 * block->size())
      malformed_model(
          fmt::format("{} blocks and {} borders do not fit rank {}", block->size(), border->size(), shape.size()));
    for (int64_t size : *block)
      if (size < 1) malformed_model(fmt::format("a block has the size {}", size));
    for (int64_t size : *border)
      if (size < 0) malformed_model(fmt::format("a border has the size {}", size));
    return {inputs[0], shape, *block, *border};
  }

  // Pads, then divides each axis into blocks, whose places come in front of the batch.
  void space_to_batch(SubgraphScope& scope, const tfl::Operator& op) {
    const Blocks from = blocks_of(scope, op);
    std::vector<int64_t> pads(2 * from.shape.size(), 0);
    std::copy(from.border.begin(), from.border.end(), pads.begin() + 2);
    const ValueId paddings = graph_.add_ints(pads, DType::kInt32, {static_cast<core::Dim>(from.shape.size()), 2});
    const ValueId padded = add_moved(Kind::kPad, from.data, paddings);
    const Shape shape = graph_.at(padded).shape;
    const size_t count = from.block.size();
    const bool has_batch = stream::is_static(shape[0]);
    std::vector<int64_t> divided = {has_batch ? shape[0] : -1}, order, result = divided;
    for (size_t i = 0; i < count; ++i) {
      if (shape[i + 1] % from.block[i] != 0)
        malformed_model(fmt::format("{} padded elements are no multiple of the block {}", shape[i + 1], from.block[i]));
      divided.insert(divided.end(), {shape[i + 1] / from.block[i], from.block[i]});
      order.push_back(static_cast<int64_t>(2 * i + 2));
      if (has_batch) result[0] *= from.block[i];
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

  // The reverse, then crops.
  void batch_to_space(SubgraphScope& scope, const tfl::Operator& op) {
    const Blocks from = blocks_of(scope, op);
    const size_t count = from.block.size();
    const int64_t places = std::accumulate(from.block.begin(), from.block.end(), int64_t{1}, [](int64_t a, int64_t b) {
      return static_cast<int64_t>(stream::checked_mul(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    });
    const bool has_batch = stream::is_static(from.shape[0]);
    if (has_batch && from.shape[0] % places != 0)
      malformed_model(fmt::format("the batch {} is no multiple of the {} places in a block", from.shape[0], places));
    std::vector<int64_t> divided = from.block, order = {static_cast<int64_t>(count)},
                         joined = {has_batch ? from.shape[0] / places : -1};
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

  // Its decomposition in its place.
  void composite(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
    if (op.options_table != "StableHLOCompositeOptions") malformed_model("it has no decomposition");
    const int called = int_option(op, "decomposition_subgraph_index", -1);
    if (called < 0 || static_cast<size_t>(called) >= model_.subgraphs.size())
      malformed_model(fmt::format("its decomposition, subgraph {}, does not exist", called));
    if (scope.depth >= kMostNested)
      throw Unsupported(fmt::format("composites are nested more than {} deep", kMostNested));
    const tfl::Subgraph& from = model_.subgraphs[static_cast<size_t>(called)];
    if (from.inputs.size() != op.inputs.size() || from.outputs.size() != op.outputs.size())
      malformed_model(fmt::format("its decomposition has {} inputs and {} outputs in place of {} and {}",
                                  from.inputs.size(), from.outputs.size(), op.inputs.size(), op.outputs.size()));
    SubgraphScope inner{from, std::vector<ValueId>(from.tensors.size(), kNotMade),
                        fmt::format("{}{}.", scope.label, index), scope.depth + 1};
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId given = value(scope, op.inputs[i]);
      if (given == kAbsent) malformed_model("one of its inputs is absent");
      const tfl::Tensor& wanted = from.tensors[static_cast<size_t>(from.inputs[i])];
      if (graph_.at(given).dtype != wanted.dtype || graph_.at(given).shape != wanted.shape)
        throw Unsupported(fmt::format("input {} differs in type or shape from the decomposition's", i));
      inner.values[static_cast<size_t>(from.inputs[i])] = given;
    }
    operators(inner);
    for (size_t i = 0; i < op.outputs.size(); ++i)
      scope.values[static_cast<size_t>(op.outputs[i])] = value(inner, from.outputs[i]);
  }

  const tfl::Model& model_;
  core::Graph& graph_;
  std::vector<Unsupported>& refused_;
};

}  // namespace

void import_tflite(const tfl::Model& model, core::Model& out, std::vector<Unsupported>& refused) {
  const tfl::Signature* signature = model.signatures.empty() ? nullptr : &model.signatures[0];
  const uint32_t main = signature ? signature->subgraph : 0;
  for (const tfl::Signature& other : model.signatures)
    if (other.subgraph != main)
      throw Unsupported(fmt::format("the model has several signatures ('{}', '{}', ...); an ONNX model has one graph",
                                    signature->key, other.key));
  Import(model, out, refused).run(main, signature);
}

}  // namespace lowtide::layout
