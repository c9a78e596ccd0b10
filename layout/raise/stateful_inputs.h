// SPDX-License-Identifier: Apache-2.0
// What the imports of operators with states share: their inputs with the shapes that they must have, and their options.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <vector>

#include "layout/core/graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/stateful.h"
#include "stream/error.h"
#include "stream/tflite/model.h"

namespace lowtide::layout {

// The inputs of LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM: data, weights 1..8, peepholes 9..11, biases 12..15, projection
// 16, 17, states 18, 19, factors of the normalization 20..23. Behind them in the core graph, for a half of
// BIDIRECTIONAL_SEQUENCE_LSTM: further data, its weights for the four gates.
inline constexpr size_t kLstmInputs = 24;

// The inputs of an operator with the shapes that they must have.
class StatefulInputs {
 public:
  StatefulInputs(const core::Graph& graph, const std::vector<core::ValueId>& inputs) : graph_(graph), inputs_(inputs) {}
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != core::kAbsent; }
  const core::Value& at(size_t i) const {
    if (!has(i)) malformed_model(fmt::format("it needs its input {}", i));
    return graph_.at(inputs_[i]);
  }
  void expect(size_t i, const core::Shape& shape) const {
    expect_shape(i, shape);
    expect_real(i, at(i).dtype == core::DType::kFloat32 || at(i).quantization);
  }
  // Of integers the scale is known (raised_bias).
  void expect_bias(size_t i, const core::Shape& shape) const {
    expect_shape(i, shape);
    const core::DType dtype = at(i).dtype;
    expect_real(i, dtype == core::DType::kFloat32 || dtype == core::DType::kInt32 || at(i).quantization);
  }
  void expect_if_there(size_t i, const core::Shape& shape) const {
    if (has(i)) expect(i, shape);
  }
  core::Dim extent(size_t i, size_t rank, size_t axis) const {
    if (at(i).shape.size() != rank)
      malformed_model(fmt::format("input {} has rank {} in place of {}", i, at(i).shape.size(), rank));
    return at(i).shape[axis];
  }

 private:
  void expect_shape(size_t i, const core::Shape& shape) const {
    const core::Shape& given = at(i).shape;
    if (given == shape) return;
    const std::string text =
        fmt::format("input {} has the shape {} in place of {}", i, stream::to_string(given), stream::to_string(shape));
    if (given.size() != shape.size()) malformed_model(text);
    for (size_t axis = 0; axis < shape.size(); ++axis) need_equal(given[axis], shape[axis], text);
  }
  void expect_real(size_t i, bool is_real) const {
    if (!is_real)
      throw stream::Unsupported(
          fmt::format("input {} has the type {} without a scale", i, stream::dtype_name(at(i).dtype)));
  }

  const core::Graph& graph_;
  const std::vector<core::ValueId>& inputs_;
};

// Throws what need_equal() throws where shapes do not fit, Unsupported for types that have no form. `rank` is that of
// the data.
void check_float_lstm(const StatefulInputs& in, size_t rank);
void check_rnn(const StatefulInputs& in, size_t rank);
void check_svdf(const StatefulInputs& in, int rank);

// The operator with the options that all of them have.
std::shared_ptr<StatefulOperator> stateful_operator(const tfl::Operator& op);
// 0 and false where the option is absent.
float real_option(const tfl::Operator& op, std::string_view name);
bool flag_option(const tfl::Operator& op, std::string_view name);

}  // namespace lowtide::layout
