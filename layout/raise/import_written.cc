// SPDX-License-Identifier: Apache-2.0
// Builtins that are written with other ops of the core graph, one function each.
//
// The traps: SELECT's condition of one axis chooses rows, where SELECT_V2 broadcasts it along the last axis;
// L2_NORMALIZATION divides by at least 1e-6; FAKE_QUANT moves its limits until 0 is one of its steps, and rounds halves
// up; a NaN is in BUCKETIZE's last bucket. Source of the semantics: LiteRT's tflite/kernels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "layout/raise/families.h"
#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/options.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;
using tflite::BuiltinOperator;

constexpr size_t kAnyInputs = 0;

void need_plain(const core::Value& value) {
  if (value.quantization) throw Unsupported("quantized data");
}

}  // namespace

bool GraphImport::written_with_others(SubgraphScope& scope, const tfl::Operator& op) {
  struct Row {
    BuiltinOperator code;
    size_t inputs;
    void (GraphImport::*write)(SubgraphScope&, const tfl::Operator&, const Inputs&);
  };
  static constexpr Row kRows[] = {
      {BuiltinOperator::ADD_N, kAnyInputs, &GraphImport::add_n},
      {BuiltinOperator::BUCKETIZE, 1, &GraphImport::bucketize},
      {BuiltinOperator::FAKE_QUANT, 1, &GraphImport::fake_quant},
      {BuiltinOperator::L2_NORMALIZATION, 1, &GraphImport::l2_normalization},
      {BuiltinOperator::L2_POOL_2D, 1, &GraphImport::l2_pool},
      {BuiltinOperator::MATRIX_DIAG, 1, &GraphImport::matrix_diagonal},
      {BuiltinOperator::MATRIX_SET_DIAG, 2, &GraphImport::matrix_diagonal},
      {BuiltinOperator::QUANTIZE, 1, &GraphImport::quantize},
      {BuiltinOperator::RANK, 1, &GraphImport::rank},
      {BuiltinOperator::SEGMENT_SUM, 2, &GraphImport::segment_sum},
      {BuiltinOperator::SELECT, 3, &GraphImport::select},
      {BuiltinOperator::SPARSE_TO_DENSE, 4, &GraphImport::sparse_to_dense},
      {BuiltinOperator::SQUARED_DIFFERENCE, 2, &GraphImport::squared_difference},
      {BuiltinOperator::ZEROS_LIKE, 1, &GraphImport::zeros_like},
  };
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const Row& one) { return static_cast<int32_t>(one.code) == op.code; });
  if (row == std::end(kRows)) return false;
  if (op.outputs.size() != 1) malformed_model(fmt::format("it has {} outputs in place of 1", op.outputs.size()));
  if (op.inputs.empty() || (row->inputs != kAnyInputs && op.inputs.size() != row->inputs))
    malformed_model(fmt::format("it has {} inputs in place of {}", op.inputs.size(), row->inputs));
  (this->*row->write)(scope, op, all_inputs(scope, op));
  return true;
}

ValueId GraphImport::number(double value, DType dtype) {
  return graph_.add_constant(stream::recipe::fill_value(value, dtype, {}));
}

void GraphImport::add_n(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  if (inputs.size() < 2) malformed_model("it has one input");
  for (ValueId input : inputs) need_plain(graph_.at(input));
  ValueId sum = inputs[0];
  for (size_t i = 1; i + 1 < inputs.size(); ++i) sum = add_float(Kind::kAdd, {sum, inputs[i]}, core::BinaryOptions{});
  add(scope, Kind::kAdd, {sum, inputs.back()}, core::BinaryOptions{}, op.outputs);
}

// Of i32 with a scale, which no value of the core has, a product of floats is quantized. LiteRT multiplies integers,
// and rounds some results to the other side.
void GraphImport::quantize(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  ValueId x = inputs[0];
  const DType dtype = graph_.at(x).dtype;
  if (!stream::is_float(dtype) && !graph_.at(x).quantization) {
    const tfl::Quantization* of_file = scope.from.tensors[static_cast<size_t>(op.inputs[0])].quantization.get();
    const bool is_scaled =
        dtype == DType::kInt32 && of_file && !of_file->other_form && of_file->scale.size() == 1 &&
        of_file->scale[0] > 0 && std::isfinite(of_file->scale[0]) &&
        std::all_of(of_file->zero_point.begin(), of_file->zero_point.end(), [](int64_t zero) { return zero == 0; });
    if (!is_scaled)
      throw Unsupported(fmt::format("the {} input has no scale of its own, or a zero point", dtype_name(dtype)));
    const ValueId number_of = add_float(Kind::kCast, {x}, core::IndexOptions{DType::kFloat32});
    x = add_float(Kind::kMul, {number_of, number(of_file->scale[0], DType::kFloat32)}, core::BinaryOptions{});
  }
  const DType result = scope.from.tensors[static_cast<size_t>(op.outputs[0])].dtype;
  const std::array<ValueId, 1> taken = {x};
  add(scope, Kind::kQuantize, {x}, options_of(Kind::kQuantize, op, taken, result), op.outputs);
}

// How many boundaries a number is not below.
void GraphImport::bucketize(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const std::vector<float> boundaries = bucket_boundaries(op);
  const auto count = static_cast<core::Dim>(boundaries.size());
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) malformed_model("option boundaries does not rise");
  const core::Value& x = graph_.at(inputs[0]);
  need_plain(x);
  if (x.dtype == DType::kFloat64) throw Unsupported("data of FLOAT64");
  const ValueId real =
      x.dtype == DType::kFloat32 ? inputs[0] : add_float(Kind::kCast, {inputs[0]}, core::IndexOptions{DType::kFloat32});
  const int64_t last = graph_.at(real).rank();
  const ValueId column = add_moved(Kind::kExpandDims, real, ints(std::vector{last}));
  const ValueId limits = graph_.add_constant(stream::recipe::floats(boundaries, {count}));
  const ValueId below = add_float(Kind::kLess, {column, limits}, {});
  const ValueId passed = add_float(Kind::kLogicalNot, {below}, {});
  const ValueId ones = add_float(Kind::kCast, {passed}, core::IndexOptions{DType::kInt32});
  add(scope, Kind::kSum, {ones, ints(std::vector{last})}, core::ReduceOptions{.keep_dims = false}, op.outputs);
}

void GraphImport::fake_quant(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const FakeQuantFields from = fake_quant_fields(op);
  constexpr int kLeastBits = 2, kMostBits = 16;
  if (from.bits < kLeastBits || from.bits > kMostBits)
    malformed_model(fmt::format("option num_bits is {}, not from {} to {}", from.bits, kLeastBits, kMostBits));
  if (!std::isfinite(from.min) || !std::isfinite(from.max) || from.min > 0 || from.max < 0 || from.min >= from.max)
    malformed_model(fmt::format("options min and max are {} and {}", from.min, from.max));
  need_plain(graph_.at(inputs[0]));
  const float least = from.is_narrow ? 1.0F : 0.0F, most = static_cast<float>((1 << from.bits) - 1);
  const float scale = (from.max - from.min) / (most - least);
  const float zero = std::round(std::clamp(least - from.min / scale, least, most));
  const float low = (least - zero) * scale, high = (most - zero) * scale;
  const auto real = [&](float value) { return number(value, DType::kFloat32); };
  const auto binary = [&](Kind kind, ValueId a, float b) {
    return add_float(kind, {a, real(b)}, core::BinaryOptions{});
  };
  const ValueId from_low = add_float(Kind::kMaximum, {inputs[0], real(low)}, {});
  const ValueId clamped = add_float(Kind::kMinimum, {from_low, real(high)}, {});
  constexpr float kHalf = 0.5F;
  const ValueId steps = binary(Kind::kMul, binary(Kind::kSub, clamped, low), 1.0F / scale);
  const ValueId rounded = add_float(Kind::kFloor, {binary(Kind::kAdd, steps, kHalf)}, {});
  add(scope, Kind::kAdd, {binary(Kind::kMul, rounded, scale), real(low)}, core::BinaryOptions{}, op.outputs);
}

void GraphImport::l2_normalization(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  if (l2_activation(op) != core::Activation::kNone) throw Unsupported("an activation, which LiteRT's kernel has not");
  const int64_t rank = graph_.at(inputs[0]).rank();
  if (rank == 0) malformed_model("data without axes");
  constexpr double kLeast = 1e-6;
  const ValueId squares = add_float(Kind::kMul, {inputs[0], inputs[0]}, core::BinaryOptions{});
  const ValueId sum =
      add_float(Kind::kSum, {squares, ints(std::vector{rank - 1})}, core::ReduceOptions{.keep_dims = true});
  const ValueId norm = add_float(Kind::kSqrt, {sum}, {});
  const ValueId divisor = add_float(Kind::kMaximum, {norm, number(kLeast, DType::kFloat32)}, {});
  add(scope, Kind::kDiv, {inputs[0], divisor}, core::BinaryOptions{}, op.outputs);
}

void GraphImport::l2_pool(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  need_plain(graph_.at(inputs[0]));
  core::PoolOptions window = pool_fields(op);
  const core::Activation activation = window.activation;
  window.activation = core::Activation::kNone;
  const ValueId squares = add_float(Kind::kMul, {inputs[0], inputs[0]}, core::BinaryOptions{});
  const ValueId mean = add_float(Kind::kAveragePool2d, {squares}, window);
  if (activation == core::Activation::kNone) return add(scope, Kind::kSqrt, {mean}, {}, op.outputs);
  const ValueId root = add_float(Kind::kSqrt, {mean}, {});
  const Kind after = activation == core::Activation::kRelu        ? Kind::kRelu
                     : activation == core::Activation::kReluN1To1 ? Kind::kReluN1To1
                                                                  : Kind::kRelu6;
  add(scope, after, {root}, {}, op.outputs);
}

// MATRIX_DIAG of [..., n] is [..., n, n]; MATRIX_SET_DIAG puts [..., n] into [..., rows, columns], of which n is the
// smaller number.
void GraphImport::matrix_diagonal(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const bool is_set = inputs.size() == 2;
  const ValueId diagonal = inputs.back();
  for (ValueId input : inputs) need_plain(graph_.at(input));
  const Shape listed = graph_.at(diagonal).shape;
  if (listed.empty()) malformed_model("a diagonal without axes");
  Shape matrix = is_set ? graph_.at(inputs[0]).shape : listed;
  if (!is_set) matrix.push_back(listed.back());
  if (matrix.size() != listed.size() + 1)
    malformed_model(fmt::format("a diagonal of {} axes for a matrix of {}", listed.size(), matrix.size()));
  const core::Dim rows = matrix[matrix.size() - 2], columns = matrix.back();
  const bool is_open = core::is_symbol(rows) || core::is_symbol(columns);
  if (is_open) return open_matrix_diagonal(scope, op, inputs);
  if (!may_be_equal(listed.back(), std::min(rows, columns)))
    malformed_model(fmt::format("a diagonal of {} elements of a matrix of {} x {}", listed.back(), rows, columns));
  const auto places = [&](core::Dim count, Shape shape) {
    count_made_bytes(sizeof(int32_t) * static_cast<uint64_t>(count));
    return graph_.add_constant(
        stream::recipe::reshape(stream::recipe::iota(0, 1, DType::kInt32, count), std::move(shape)));
  };
  const ValueId is_on = add_float(Kind::kEqual, {places(rows, {rows, 1}), places(columns, {columns})}, {});
  // Along the longer axis the elements are repeated.
  const auto axis = static_cast<int64_t>(matrix.size() - (columns <= rows ? 2 : 1));
  const ValueId wide = add_moved(Kind::kExpandDims, diagonal, ints(std::vector{axis}));
  const ValueId rest = is_set ? inputs[0] : number(0, graph_.at(diagonal).dtype);
  add(scope, Kind::kSelectV2, {is_on, wide, rest}, {}, op.outputs);
}

// As above, with places that are counted at run time. A place behind the last row has no element of its own.
void GraphImport::open_matrix_diagonal(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const bool is_set = inputs.size() == 2;
  const ValueId diagonal = inputs.back();
  const auto last = static_cast<int64_t>(graph_.at(diagonal).shape.size()) - 1;
  const auto extent = [&](ValueId x, int64_t axis) {
    const ValueId place = graph_.add_ints(std::span(&axis, 1), DType::kInt32, {});
    return add_float(Kind::kGather, {extents_of(x), place}, core::GatherOptions{});
  };
  const auto places = [&](ValueId count) {
    return add_float(Kind::kRange, {number(0, DType::kInt32), count, number(1, DType::kInt32)}, {});
  };
  const ValueId rows = places(extent(inputs[0], last)), columns = is_set ? places(extent(inputs[0], last + 1)) : rows;
  const ValueId is_on =
      add_float(Kind::kEqual, {add_moved(Kind::kExpandDims, rows, ints(std::vector<int64_t>{1})), columns}, {});
  ValueId listed = diagonal;
  const Shape& matrix = graph_.at(inputs[0]).shape;
  if (is_set && matrix[matrix.size() - 2] != matrix.back()) {
    const ValueId end =
        add_float(Kind::kSub, {extent(diagonal, last), number(1, DType::kInt32)}, core::BinaryOptions{});
    const ValueId elements = add_float(Kind::kMinimum, {columns, end}, {});
    listed = add_moved(Kind::kGather, {diagonal, elements},
                       core::GatherOptions{.axis = static_cast<int>(last), .batch_dims = 0});
  }
  const ValueId wide = add_moved(Kind::kExpandDims, listed, ints(std::vector{last}));
  const ValueId rest = is_set ? inputs[0] : number(0, graph_.at(diagonal).dtype);
  add(scope, Kind::kSelectV2, {is_on, wide, rest}, {}, op.outputs);
}

void GraphImport::rank(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const int64_t axes[] = {graph_.at(inputs[0]).rank()};
  scope.values[static_cast<size_t>(op.outputs[0])] = graph_.add_ints(axes, DType::kInt32, {});
}

// The highest segment says how many there are.
void GraphImport::segment_sum(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const core::Value& segments = graph_.at(inputs[1]);
  if (segments.rank() != 1) malformed_model("its segments are no list");
  if (segments.shape[0] == 0) throw Unsupported("no segments");
  ValueId count = kAbsent;
  if (const auto known = graph_.ints(inputs[1])) {
    if (!std::is_sorted(known->begin(), known->end()) || known->front() < 0)
      malformed_model("segments that do not rise from 0");
    if (known->back() >= std::numeric_limits<int32_t>::max())
      malformed_model(fmt::format("segment {}: their number does not fit 32 bits", known->back()));
    count = ints(std::vector{known->back() + 1});
  } else {
    const ValueId highest =
        add_float(Kind::kReduceMax, {inputs[1], ints(std::vector<int64_t>{0})}, core::ReduceOptions{.keep_dims = true});
    count = add_float(Kind::kAdd, {highest, ints(std::vector{int64_t{1}})}, core::BinaryOptions{});
  }
  add(scope, Kind::kUnsortedSegmentSum, {inputs[0], inputs[1], count}, {}, op.outputs);
}

void GraphImport::select(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  ValueId condition = inputs[0];
  const Shape asked = graph_.at(condition).shape;
  const size_t rank = graph_.at(inputs[1]).shape.size();
  if (rank != graph_.at(inputs[2]).shape.size()) malformed_model("its values differ in shape");
  if (asked.size() == 1 && rank > 1) {
    std::vector<int64_t> rows(rank, 1);
    rows[0] = core::is_symbol(asked[0]) ? -1 : asked[0];
    condition = add_moved(Kind::kReshape, condition, ints(rows));
  } else if (!asked.empty() && asked.size() != rank) {
    malformed_model(fmt::format("a condition of {} axes for values of {}", asked.size(), rank));
  }
  add(scope, Kind::kSelectV2, {condition, inputs[1], inputs[2]}, {}, op.outputs);
}

void GraphImport::sparse_to_dense(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const core::Value &indices = graph_.at(inputs[0]), &values = graph_.at(inputs[2]), &rest = graph_.at(inputs[3]);
  need_plain(values);
  need_plain(rest);
  const std::optional<std::vector<int64_t>> shape = graph_.ints(inputs[1]);
  if (!shape) throw known_at_run_time("the shape of the result");
  if (std::any_of(shape->begin(), shape->end(), [](int64_t size) { return size < 0; }))
    malformed_model("the shape of the result has a negative size");
  stream::element_count(*shape);  // throws where it does not fit 64 bits
  const bool is_number = indices.rank() == 0 && shape->size() == 1;
  const bool is_list = indices.rank() == 1 && shape->size() == 1;
  const bool has_rows = indices.rank() == 2 && indices.shape[1] == static_cast<core::Dim>(shape->size());
  if (indices.rank() == 2 && core::is_symbol(indices.shape[1]))
    throw known_at_run_time("the number of axes of indices");
  const core::Dim count = indices.rank() == 0 ? 1 : indices.shape[0];
  if (!is_number && !is_list && !has_rows)
    malformed_model(fmt::format("indices {} for a result of {} axes", stream::to_string(indices.shape), shape->size()));
  if (values.rank() > 1 || (values.rank() == 1 && !may_be_equal(values.shape[0], count)) || values.dtype != rest.dtype)
    malformed_model(fmt::format("values {} for {} indices", stream::to_string(values.shape), count));
  if (!stream::is_static(rest.shape) || stream::element_count(rest.shape) != 1)
    malformed_model("the value of all other elements is no number");
  const auto made = std::make_shared<RaisedOperator>();
  made->name = op.name;
  made->raise = raise_sparse_to_dense;
  const TensorType type{values.dtype, *shape, std::nullopt};
  const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[0])];
  need_numbers(tensor);
  check_type(type, tensor, quantization_of(tensor).has_value());
  compare_shape(type.shape, tensor);
  const ValueId result = add_custom(made, inputs, std::span(&type, 1))[0];
  graph_.at(result).name = tensor.name;
  scope.values[static_cast<size_t>(op.outputs[0])] = result;
}

void GraphImport::squared_difference(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const ValueId difference = add_float(Kind::kSub, inputs, core::BinaryOptions{});
  add(scope, Kind::kMul, {difference, difference}, core::BinaryOptions{}, op.outputs);
}

void GraphImport::zeros_like(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs) {
  const core::Value& like = graph_.at(inputs[0]);
  need_plain(like);
  const DType dtype = like.dtype;
  const ValueId shape = add_float(Kind::kShape, {inputs[0]}, core::IndexOptions{DType::kInt32});
  add(scope, Kind::kFill, {shape, number(0, dtype)}, {}, op.outputs);
}

}  // namespace lowtide::layout
