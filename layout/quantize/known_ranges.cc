// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/known_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "layout/core/builtin.h"
#include "layout/quantize/conditions.h"

namespace lowtide::layout {
namespace {

using core::Integers;
using core::Role;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// The interval of the results of an op on data of two intervals. Both contain 0, and so does the result.
Interval range_of_both(Kind kind, const Interval& a, const Interval& b) {
  if (kind == Kind::kMaximum) return {std::max(a.low, b.low), std::max(a.high, b.high)};
  if (kind == Kind::kMinimum) return {std::min(a.low, b.low), std::min(a.high, b.high)};
  return unite(a, b);
}

// Each element of the data is an element of the result.
bool keeps_all(Kind kind) {
  switch (kind) {
    case Kind::kReshape:
    case Kind::kTranspose:
    case Kind::kConcatenation:
    case Kind::kPack:
    case Kind::kPad:
    case Kind::kPadv2:
    case Kind::kMirrorPad:
    case Kind::kSpaceToDepth:
    case Kind::kDepthToSpace:
    case Kind::kSqueeze:
    case Kind::kExpandDims:
    case Kind::kReverseV2:
    case Kind::kTile:
    case Kind::kBroadcastTo:
    case Kind::kCast:
      return true;
    default:
      return false;
  }
}

// Each element of the result is one of the data, a mean of some, or less.
bool stays_inside(const Op& op) {
  return chooses(op) || core::builtin(op.kind).integers == Integers::kOneScale || op.kind == Kind::kRelu ||
         op.kind == Kind::kRelu6 || op.kind == Kind::kReluN1To1;
}

class Ranges {
 public:
  Ranges(Graph& graph, const Calibrated& calibrated) : graph_(graph), found_(graph.values.size()) {
    for (size_t i = 0; i < graph.values.size(); ++i)
      from_file(static_cast<ValueId>(i), graph.values[i].name, calibrated);
    for (size_t i = 0; i < graph.inputs.size(); ++i) from_file(graph.inputs[i], graph.input_names[i], calibrated);
  }

  std::vector<std::optional<Interval>> find() {
    forward(false);
    for (auto op = graph_.ops.rbegin(); op != graph_.ops.rend(); ++op) backward(*op);
    forward(true);
    for (size_t i = 0; i < found_.size(); ++i)
      if (graph_.values[i].dtype != DType::kFloat32) found_[i].reset();
    return std::move(found_);
  }

 private:
  std::optional<Interval>& range(ValueId id) { return found_[static_cast<size_t>(id)]; }

  void from_file(ValueId id, const std::string& name, const Calibrated& calibrated) {
    const core::Value& value = graph_.at(id);
    if (name.empty() || value.is_constant() || !stream::is_float(value.dtype)) return;
    const auto it = calibrated.tensors.find(name);
    if (it == calibrated.tensors.end()) return;
    Interval interval = it->second.interval;
    if (value.producer >= 0)
      interval = cut(interval, limits_of_activation(graph_.ops[static_cast<size_t>(value.producer)]));
    range(id) = interval;
  }

  // The range of a mean's data is wide for the mean: `with_means` when nothing better is found any more.
  void forward(bool with_means) {
    for (const Op& op : graph_.ops)
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        const ValueId out = op.outputs[i];
        const bool is_data = core::builtin(op.kind).outputs[i] == Role::kData || op.kind == Kind::kCast;
        if (is_data && is_moving(out) && !range(out)) range(out) = follows(op, with_means);
      }
  }

  std::optional<Interval> follows(const Op& op, bool with_means) {
    if (const auto fixed = fixed_grid(op.kind)) return interval_of(*fixed);
    if (op.kind == Kind::kCast) return is_moving(op.inputs[0]) ? range(op.inputs[0]) : std::nullopt;
    if (op.kind == Kind::kTanh) return Interval{-1, 1};
    if (op.kind == Kind::kNeg) {
      const auto data = is_moving(op.inputs[0]) ? range(op.inputs[0]) : std::nullopt;
      return data ? std::optional(Interval{-data->high, -data->low}) : std::nullopt;
    }
    if (!stays_inside(op) && !(with_means && op.kind == Kind::kMean)) return std::nullopt;
    std::optional<Interval> all;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!is_data_input(op, i)) continue;
      const bool is_constant = graph_.at(op.inputs[i]).is_constant();
      const auto own = is_constant ? constant_range(graph_, op.inputs[i], nullptr) : range(op.inputs[i]);
      // Infinities around an image: whoever reads them wants its least element.
      if (is_constant && !own && op.kind == Kind::kPadv2) continue;
      if (!own) return std::nullopt;
      all = all ? range_of_both(op.kind, *all, *own) : *own;
    }
    if (all) all = cut(*all, limits_of_activation(op));
    return all;
  }

  void backward(const Op& op) {
    if (!keeps_all(op.kind) || op.outputs.size() != 1 || !range(op.outputs[0])) return;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool is_data = is_data_input(op, i) || op.kind == Kind::kCast;
      if (is_data && is_moving(op.inputs[i]) && !range(op.inputs[i])) range(op.inputs[i]) = range(op.outputs[0]);
    }
  }

  // Floats of other sizes too: what a CAST makes of them has their range.
  bool is_moving(ValueId id) const {
    return id != core::kAbsent && !graph_.at(id).is_constant() && stream::is_float(graph_.at(id).dtype);
  }

  Graph& graph_;
  std::vector<std::optional<Interval>> found_;
};

bool is_moving_float(const Graph& graph, ValueId id) {
  return id != core::kAbsent && !graph.at(id).is_constant() && graph.at(id).dtype == DType::kFloat32;
}

}  // namespace

Interval limits_of_activation(const Op& op) {
  if (op.kind == Kind::kRelu0To1) return {0, 1};
  core::Activation activation = core::Activation::kNone;
  if (core::builtin(op.kind).activation != core::kNoActivation) activation = core::fused_activation(op);
  if (op.kind == Kind::kRelu) activation = core::Activation::kRelu;
  if (op.kind == Kind::kRelu6) activation = core::Activation::kRelu6;
  if (op.kind == Kind::kReluN1To1) activation = core::Activation::kReluN1To1;
  switch (activation) {
    case core::Activation::kRelu:
      return {0, kUnbounded};
    case core::Activation::kRelu6:
      return {0, 6};
    case core::Activation::kReluN1To1:
      return {-1, 1};
    case core::Activation::kNone:
      break;
  }
  return {-kUnbounded, kUnbounded};
}

std::vector<std::optional<Interval>> known_ranges(core::Graph& graph, const Calibrated& calibrated) {
  return Ranges(graph, calibrated).find();
}

Interval cut(const Interval& a, const Interval& b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

std::string onnx_name(const core::Graph& graph, ValueId id) {
  if (graph.at(id).producer < 0)
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      if (graph.inputs[i] == id) return graph.input_names[i];
  return graph.at(id).name;
}

const CalibratedTensor* calibrated_tensor(const core::Graph& graph, const Calibrated& calibrated, ValueId id) {
  const auto it = calibrated.tensors.find(onnx_name(graph, id));
  return it == calibrated.tensors.end() ? nullptr : &it->second;
}

std::optional<Interval> constant_range(core::Graph& graph, ValueId constant, bool* all_finite) {
  const auto numbers = graph.numbers(constant);
  if (!numbers) return std::nullopt;
  Interval out;
  bool any = false, all = true;
  for (const double number : *numbers) {
    if (std::isfinite(number)) {
      out = unite(out, {number, number});
      any = true;
    } else {
      all = false;
    }
  }
  if (all_finite != nullptr) *all_finite = all;
  return any ? std::optional(out) : std::nullopt;
}

bool chooses(const Op& op) { return core::builtin(op.kind).integers == Integers::kChosen; }

bool is_data_input(const Op& op, size_t i) {
  if (!core::has_input(op, i)) return false;
  if (const core::Weights* where = core::weights_of(op.kind)) return i == *where->data;
  return core::builtin(op.kind).inputs[i] == Role::kData;
}

std::vector<ValueId> data_inputs(const core::Graph& graph, const Op& op) {
  std::vector<ValueId> out;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (is_data_input(op, i) && is_moving_float(graph, op.inputs[i])) out.push_back(op.inputs[i]);
  return out;
}

std::vector<ValueId> data_outputs(const core::Graph& graph, const Op& op) {
  std::vector<ValueId> out;
  for (size_t i = 0; i < op.outputs.size(); ++i)
    if (core::builtin(op.kind).outputs[i] == Role::kData && is_moving_float(graph, op.outputs[i]))
      out.push_back(op.outputs[i]);
  return out;
}

}  // namespace lowtide::layout
