// SPDX-License-Identifier: Apache-2.0
// Complex numbers: RFFT2D, and what takes their parts or reshapes them. A tensor of complex numbers is one of floats
// with a last axis of 2. Source of the semantics: LiteRT's tflite/kernels/rfft2d.cc, complex_support.cc.
//
// The trap: RFFT2D cuts its data, or fills it with zeros at the end, to the size that it transforms.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "layout/raise/families.h"
#include "layout/raise/fourier.h"
#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"

namespace lowtide::layout {

using stream::Unsupported;
using tflite::BuiltinOperator;

bool GraphImport::complex_numbers(SubgraphScope& scope, const tfl::Operator& op) {
  const auto has = [&](std::span<const int32_t> tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [&](int32_t tensor) {
      return tensor >= 0 && is_complex(scope.from.tensors[static_cast<size_t>(tensor)]);
    });
  };
  if (!has(op.inputs) && !has(op.outputs)) return false;
  const auto need_form = [&] {
    if (op.inputs.empty() || op.inputs[0] < 0 || op.outputs.size() != 1)
      malformed_model("it needs its first input, and one output");
  };
  for (int32_t tensor : op.outputs)
    if (std::find(scope.from.outputs.begin(), scope.from.outputs.end(), tensor) != scope.from.outputs.end() &&
        is_complex(scope.from.tensors[static_cast<size_t>(tensor)]))
      throw Unsupported("its result, complex numbers, is an output, and ONNX Runtime has none");
  switch (static_cast<BuiltinOperator>(op.code)) {
    case BuiltinOperator::RFFT2D:
      need_form();
      fourier_transform(scope, op);
      return true;
    case BuiltinOperator::RESHAPE:
    case BuiltinOperator::SQUEEZE:
    case BuiltinOperator::EXPAND_DIMS:
      need_form();
      reshaped_complex(scope, op);
      return true;
    case BuiltinOperator::REAL:
    case BuiltinOperator::IMAG:
    case BuiltinOperator::COMPLEX_ABS:
      need_form();
      part_of_complex(scope, op);
      return true;
    default:
      throw Unsupported(fmt::format("{} of complex numbers is not supported", op.name));
  }
}

void GraphImport::fourier_transform(SubgraphScope& scope, const tfl::Operator& op) {
  const std::vector<ValueId> inputs = all_inputs(scope, op);
  if (inputs.size() != 2) malformed_model(fmt::format("it has {} inputs in place of 2", inputs.size()));
  const Shape from = graph_.at(inputs[0]).shape;
  const std::vector<tfl::Tensor>& tensors = scope.from.tensors;
  if (is_complex(tensors[static_cast<size_t>(op.inputs[0])]) ||
      !is_complex(tensors[static_cast<size_t>(op.outputs[0])]))
    malformed_model("its data is complex, or its result is not");
  const std::optional<std::vector<int64_t>> size = graph_.ints(inputs[1]);
  if (!size) throw known_at_run_time("the size that is transformed");
  if (graph_.at(inputs[0]).dtype != DType::kFloat32 || from.size() < 2 || size->size() != 2 || (*size)[0] < 1 ||
      (*size)[1] < 1)
    malformed_model("its data are no images of FLOAT32, or its size is no height and width");
  if (!stream::is_static(std::span(from).last(2))) throw known_at_run_time("the size of its data");
  const core::Dim rows = from[from.size() - 2], columns = from.back();
  const int64_t height = (*size)[0], width = (*size)[1];
  Shape outer(from.begin(), from.end() - 2);
  const bool is_open = !stream::is_static(outer);
  const int64_t images = is_open ? -1 : static_cast<int64_t>(stream::element_count(outer));
  ValueId x = add_moved(Kind::kReshape, inputs[0], ints(std::vector{images, rows, columns}));
  if (height < rows || width < columns)
    x = add_moved(Kind::kSlice,
                  {x, ints(std::vector<int64_t>{0, 0, 0}),
                   ints(std::vector<int64_t>{-1, std::min(rows, height), std::min(columns, width)})},
                  {});
  if (height > rows || width > columns) {
    const int64_t pads[] = {0, 0, 0, std::max<int64_t>(0, height - rows), 0, std::max<int64_t>(0, width - columns)};
    x = add_moved(Kind::kPad, x, graph_.add_ints(pads, DType::kInt32, {3, 2}));
  }
  const auto described = std::make_shared<FourierTransform>();
  described->name = op.name;
  described->raise = raise_fourier_transform;
  described->height = height;
  described->width = width;
  const int64_t half = width / 2 + 1;
  const TensorType type{DType::kFloat32, {graph_.at(x).shape[0], height, half, 2}, std::nullopt};
  const ValueId made = add_custom(described, {x}, std::span(&type, 1))[0];
  // The outer axes are those of the data. One open size is found by the reshape.
  std::vector<int64_t> sizes_of_result;
  for (core::Dim dim : outer) sizes_of_result.push_back(core::is_symbol(dim) ? -1 : dim);
  sizes_of_result.insert(sizes_of_result.end(), {height, half, 2});
  ValueId shape = ints(sizes_of_result);
  if (std::count(sizes_of_result.begin(), sizes_of_result.end(), -1) > 1) {
    std::vector<int64_t> places(outer.size());
    std::iota(places.begin(), places.end(), 0);
    const ValueId sizes = add_float(Kind::kGather, {extents_of(inputs[0]), ints(places)}, core::GatherOptions{});
    const ValueId image = ints(std::vector<int64_t>{height, half, 2});
    shape = add_float(Kind::kConcatenation, {sizes, image}, core::ConcatOptions{.axis = 0, .activation = {}});
  }
  const ValueId result = add_moved(Kind::kReshape, made, shape);
  const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[0])];
  Shape numbers = graph_.at(result).shape;
  numbers.pop_back();
  compare_shape(numbers, tensor);
  scope.values[static_cast<size_t>(op.outputs[0])] = result;
}

void GraphImport::reshaped_complex(SubgraphScope& scope, const tfl::Operator& op) {
  const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[0])];
  const tfl::Tensor& data = scope.from.tensors[static_cast<size_t>(op.inputs[0])];
  if (!is_complex(tensor) || !is_complex(data)) malformed_model("its data or its result is not complex");
  std::vector<ValueId> inputs = values(scope, op.inputs);
  const ValueId x = inputs[0];
  const Kind kind = *kind_of_builtin(op.code);
  // The operator's own rule, on numbers without parts.
  Shape numbers = graph_.at(x).shape;
  numbers.pop_back();
  inputs[0] = graph_.add_value(DType::kFloat32, numbers);
  if (kind == Kind::kReshape) take_shape_option(op, inputs);
  Shape shape = infer(kind, inputs, options_of(kind, op, inputs, tensor.dtype), 1)[0].shape;
  compare_shape(shape, tensor);
  if (std::count_if(shape.begin(), shape.end(), core::is_symbol) > 1) {
    scope.values[static_cast<size_t>(op.outputs[0])] = openly_reshaped(kind, op, x, inputs, shape);
    return;
  }
  for (core::Dim& dim : shape)
    if (core::is_symbol(dim)) dim = -1;
  shape.push_back(2);
  scope.values[static_cast<size_t>(op.outputs[0])] = add_moved(Kind::kReshape, x, ints(shape));
}

// Several of the dimensions are open: the operator itself, on an array with a last axis of 2. `shape`: of the numbers.
ValueId GraphImport::openly_reshaped(Kind kind, const tfl::Operator& op, ValueId x, const Inputs& inputs,
                                     const Shape& shape) {
  const size_t rank = graph_.at(x).shape.size() - 1;
  if (kind == Kind::kReshape) {
    const int64_t parts[] = {2};
    const ValueId two = graph_.add_ints(parts, graph_.at(inputs[1]).dtype, {1});
    const ValueId list =
        add_float(Kind::kConcatenation, {inputs[1], two}, core::ConcatOptions{.axis = 0, .activation = {}});
    return add_moved(Kind::kReshape, x, list);
  }
  if (kind == Kind::kExpandDims) {
    const auto axis = graph_.ints(inputs[1]);
    if (!axis || axis->size() != 1) throw known_at_run_time("an axis");
    return add_moved(Kind::kExpandDims, x,
                     ints(std::vector<int64_t>{front(static_cast<int>((*axis)[0]), rank + 1, "axis")}));
  }
  core::SqueezeOptions options = std::get<core::SqueezeOptions>(options_of(kind, op, inputs, DType::kFloat32));
  if (options.dims.empty())
    for (size_t axis = 0; axis < rank; ++axis)
      if (graph_.at(x).shape[axis] == 1) options.dims.push_back(static_cast<int32_t>(axis));
  for (int32_t& axis : options.dims) axis = front(axis, rank, "axis");
  if (options.dims.size() + shape.size() != rank) throw known_at_run_time("the axes of one element");
  return add_moved(Kind::kSqueeze, {x}, std::move(options));
}

void GraphImport::part_of_complex(SubgraphScope& scope, const tfl::Operator& op) {
  const ValueId x = value(scope, op.inputs[0]);
  const int last = graph_.at(x).rank() - 1;
  if (!is_complex(scope.from.tensors[static_cast<size_t>(op.inputs[0])])) malformed_model("its data are not complex");
  if (static_cast<BuiltinOperator>(op.code) == BuiltinOperator::COMPLEX_ABS) {
    const ValueId squares = add_float(Kind::kMul, {x, x}, core::BinaryOptions{});
    const ValueId sum =
        add_float(Kind::kSum, {squares, ints(std::vector{int64_t{last}})}, core::ReduceOptions{.keep_dims = false});
    return add(scope, Kind::kSqrt, {sum}, {}, op.outputs);
  }
  const int64_t part[] = {static_cast<BuiltinOperator>(op.code) == BuiltinOperator::IMAG ? 1 : 0};
  add(scope, Kind::kGather, {x, graph_.add_ints(part, DType::kInt32, {})},
      core::GatherOptions{.axis = last, .batch_dims = 0}, op.outputs);
}

}  // namespace lowtide::layout
