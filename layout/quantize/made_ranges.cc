// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/made_ranges.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/quantize/known_ranges.h"

namespace lowtide::layout {
namespace {

using core::Activation;

// A sum's operand may have values that are so much wider than the sum's: its steps are coarser by that.
constexpr double kMostWidth = 2;

double width(const Interval& of) { return of.high - of.low; }
Interval sum(const Interval& a, const Interval& b) { return {a.low + b.low, a.high + b.high}; }
Interval negated(const Interval& of) { return {-of.high, -of.low}; }
Interval times(const Interval& of, double factor) {
  return factor < 0 ? Interval{factor * of.high, factor * of.low} : Interval{factor * of.low, factor * of.high};
}
Interval product(const Interval& a, const Interval& b) {
  const Interval low = times(a, b.low), high = times(a, b.high);
  return {std::min(low.low, high.low), std::max(low.high, high.high)};
}
Interval both_of(const Interval& a, const Interval& b) {
  const Interval both = cut(a, b);
  return both.low <= both.high ? both : a;
}
bool is_finite(const Interval& of) { return std::isfinite(of.low) && std::isfinite(of.high); }

// What is known of a value.
struct Finding {
  Interval seen, chosen;
  bool is_exact = true;  // not wider than the values are, as sums of intervals may be
  double scale_of = 0;   // the width of the result whose accuracy it affects

  template <typename Change>
  Finding changed(Change change) const {
    Finding out = *this;
    out.seen = change(seen), out.chosen = change(chosen);
    return out;
  }
};

// An op that makes factor * x + shift of its operand x, for each element alone.
struct Affine {
  size_t data = 0;
  double factor = 1, shift = 0;
};

class MadeRanges {
 public:
  MadeRanges(Graph& graph, Calibrated& calibrated)
      : graph_(graph), calibrated_(calibrated), known_(graph.values.size()), maybe_(graph.values.size()) {}

  void run() {
    for (size_t v = 0; v < known_.size(); ++v) known_[v] = observed(static_cast<ValueId>(v));
    for (const Op& op : graph_.ops) go_down(op);
    for (auto op = graph_.ops.rbegin(); op != graph_.ops.rend(); ++op) go_up(*op);
    for (size_t v = 0; v < known_.size(); ++v) name(static_cast<ValueId>(v));
  }

 private:
  std::optional<Finding>& known(ValueId id) { return known_[static_cast<size_t>(id)]; }
  // That, or what would follow from the operands of its op.
  const std::optional<Finding>& maybe(ValueId id) { return known(id) ? known(id) : maybe_[static_cast<size_t>(id)]; }
  bool is_moving(ValueId id) const {
    return id != core::kAbsent && graph_.at(id).dtype == DType::kFloat32 && !graph_.at(id).is_constant();
  }

  // Masks and infinities among the values would be spread over other numbers.
  std::optional<Finding> observed(ValueId id) const {
    if (!is_moving(id)) return std::nullopt;
    const CalibratedTensor* tensor = calibrated_tensor(graph_, calibrated_, id);
    if (tensor == nullptr || !tensor->is_finite) return std::nullopt;
    if (tensor->unmasked.has_masks()) return std::nullopt;
    return Finding{tensor->seen, tensor->interval, true, width(tensor->interval)};
  }

  // The finite elements of a constant; nullopt: it has others, or is large.
  std::optional<Interval> elements(ValueId id) {
    if (id == core::kAbsent || !graph_.at(id).is_constant()) return std::nullopt;
    const auto numbers = graph_.numbers(id);
    if (!numbers || numbers->empty()) return std::nullopt;
    const auto [least, most] = std::minmax_element(numbers->begin(), numbers->end());
    const Interval out{*least, *most};
    const bool has_nan = std::any_of(numbers->begin(), numbers->end(), [](double n) { return std::isnan(n); });
    return has_nan || !is_finite(out) ? std::nullopt : std::optional(out);
  }

  static bool is_plain(const Op& op) { return core::fused_activation(op) == Activation::kNone; }

  std::optional<Affine> affine(const Op& op) {
    if (op.kind == Kind::kReshape || op.kind == Kind::kTranspose) return Affine{};
    if (op.kind == Kind::kNeg) return Affine{.factor = -1};
    if (op.inputs.size() != 2 || !is_plain(op)) return std::nullopt;
    for (const size_t data : {size_t{0}, size_t{1}}) {
      const auto number = elements(op.inputs[1 - data]);
      if (!number || width(*number) != 0 || !is_moving(op.inputs[data])) continue;
      const double c = number->low;
      if (op.kind == Kind::kAdd) return Affine{data, 1, c};
      if (op.kind == Kind::kSub) return data == 0 ? Affine{data, 1, -c} : Affine{data, -1, c};
      if (op.kind == Kind::kMul && c != 0) return Affine{data, c, 0};
      if (op.kind == Kind::kDiv && data == 0 && c != 0) return Affine{data, 1 / c, 0};
    }
    return std::nullopt;
  }

  // An operand: known, or a constant.
  std::optional<Finding> operand(ValueId id) {
    if (const auto constant = elements(id)) return Finding{*constant, *constant, true, 0};
    return is_moving(id) ? maybe(id) : std::nullopt;
  }

  // Sums of computed values, and products with constants.
  std::optional<Finding> wide(const Op& op) {
    const bool is_sum = op.kind == Kind::kAdd || op.kind == Kind::kSub;
    if (op.inputs.size() != 2 || !is_plain(op) || !(is_sum || op.kind == Kind::kMul)) return std::nullopt;
    const bool both_move = is_moving(op.inputs[0]) && is_moving(op.inputs[1]);
    if (both_move && !is_sum) return std::nullopt;
    const auto a = operand(op.inputs[0]), b = operand(op.inputs[1]);
    if (!a || !b) return std::nullopt;
    auto result = [&](const Interval& x, const Interval& y) {
      if (op.kind == Kind::kMul) return product(x, y);
      return op.kind == Kind::kAdd ? sum(x, y) : sum(x, negated(y));
    };
    return Finding{result(a->seen, b->seen), result(a->chosen, b->chosen), false, 0};
  }

  void go_down(const Op& op) {
    if (op.outputs.size() != 1 || !is_moving(op.outputs[0]) || known(op.outputs[0])) return;
    std::optional<Finding>& out = maybe_[static_cast<size_t>(op.outputs[0])];
    if (const auto by = affine(op)) {
      const ValueId data = op.inputs[by->data];
      if (is_moving(data) && maybe(data))
        out = maybe(data)->changed([&](const Interval& x) {
          return sum(times(x, by->factor), {by->shift, by->shift});
        });
    } else {
      out = wide(op);
    }
  }

  // Kernels that could read a value in integers next to it.
  static bool may_read(Kind kind) {
    switch (kind) {
      case Kind::kAdd:
      case Kind::kSub:
      case Kind::kMul:
      case Kind::kDiv:
      case Kind::kMaximum:
      case Kind::kMinimum:
      case Kind::kRelu:
      case Kind::kRelu6:
      case Kind::kReluN1To1:
      case Kind::kRelu0To1:
      case Kind::kReshape:
      case Kind::kTranspose:
      case Kind::kFullyConnected:
      case Kind::kBatchMatmul:
        return true;
      default:
        return false;
    }
  }

  // What is known of the result says that the operands are of use, and, of a sum, how wide they can be.
  void go_up(const Op& op) {
    if (op.outputs.size() != 1 || !is_moving(op.outputs[0]) || !known(op.outputs[0]) || !may_read(op.kind)) return;
    const Finding result = *known(op.outputs[0]);
    for (const ValueId in : op.inputs)
      if (is_moving(in) && !maybe(in)) return;
    const auto by = affine(op);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId in = op.inputs[i];
      if (!is_moving(in) || known(in)) continue;
      Finding found = *maybe(in);
      found.scale_of = result.scale_of;
      if (by) {
        const Finding exact = result.changed([&](const Interval& y) {
          return times(sum(y, {-by->shift, -by->shift}), 1 / by->factor);
        });
        if (!found.is_exact) found = exact;
        found.scale_of = result.scale_of / std::fabs(by->factor);
      } else if (!found.is_exact && !narrow(op, i, result, found)) {
        continue;
      }
      if (is_finite(found.seen) && is_finite(found.chosen)) known(in) = found;
    }
  }

  // By the sum and its other operand. Whether that is narrow enough.
  bool narrow(const Op& op, size_t i, const Finding& result, Finding& found) {
    if ((op.kind != Kind::kAdd && op.kind != Kind::kSub) || op.inputs.size() != 2 || !is_plain(op)) return false;
    const auto other = operand(op.inputs[1 - i]);
    if (!other) return false;
    auto by_result = [&](const Interval& y, const Interval& x) {
      if (op.kind == Kind::kAdd) return sum(y, negated(x));
      return i == 0 ? sum(y, x) : sum(x, negated(y));
    };
    found.seen = both_of(by_result(result.seen, other->seen), found.seen);
    found.chosen = both_of(by_result(result.chosen, other->chosen), found.chosen);
    return width(unite(found.chosen, {})) <= kMostWidth * result.scale_of;
  }

  // RESHAPE and TRANSPOSE have the range of what they move.
  void name(ValueId id) {
    const OpId producer = graph_.at(id).producer;
    if (producer < 0 || !known(id) || !graph_.at(id).name.empty()) return;
    const Op& op = graph_.op(producer);
    if (op.kind == Kind::kReshape || op.kind == Kind::kTranspose) return;
    const std::string& node = graph_.origins[op.origin];
    std::string made = graph_.kept_ranges->new_name(node.empty() ? "made" : node);
    CalibratedTensor tensor;
    tensor.seen = known(id)->seen;
    tensor.interval = unite(known(id)->chosen, {});
    calibrated_.tensors.emplace(made, std::move(tensor));
    graph_.at(id).name = std::move(made);
  }

  Graph& graph_;
  Calibrated& calibrated_;
  std::vector<std::optional<Finding>> known_, maybe_;  // by value
};

CalibratedTensor multiplied(CalibratedTensor tensor, double factor) {
  tensor.seen = times(tensor.seen, factor);
  tensor.interval = times(tensor.interval, factor);
  tensor.mean_square *= factor * factor;
  for (std::vector<float>* of :
       {&tensor.channel_means, &tensor.channel_lows, &tensor.channel_highs, &tensor.channel_shifts})
    for (float& number : *of) number = static_cast<float>(number * factor);
  Unmasked& numbers = tensor.unmasked;
  for (std::optional<double>* end : {&numbers.least, &numbers.most})
    if (*end) **end *= factor;
  if (factor < 0) {
    std::swap(tensor.channel_lows, tensor.channel_highs);
    std::swap(numbers.least, numbers.most);
    std::swap(numbers.is_empty, numbers.is_empty_above);
  }
  return tensor;
}

}  // namespace

void keep_ranges(Graph& graph, Calibrated& calibrated) {
  auto names = std::make_shared<std::unordered_set<std::string>>(calibrated.unseen);
  names->insert(calibrated.missing.begin(), calibrated.missing.end());
  for (const auto& [name, tensor] : calibrated.tensors) names->insert(name);
  names->insert(graph.input_names.begin(), graph.input_names.end());
  graph.kept_ranges.emplace();
  graph.kept_ranges->onnx_names = std::move(names);
  MadeRanges(graph, calibrated).run();
}

void add_ranges_of_multiples(const Graph& graph, Calibrated& calibrated) {
  if (!graph.kept_ranges) return;
  for (const auto& [name, multiple] : graph.kept_ranges->multiples) {
    const auto of = calibrated.tensors.find(multiple.of);
    if (of == calibrated.tensors.end()) continue;
    calibrated.tensors.insert_or_assign(name, multiplied(of->second, multiple.factor));
  }
}

void forget_made_names(Graph& graph) {
  if (!graph.kept_ranges) return;
  constexpr std::string_view kLimited = "/limited";
  for (core::Value& value : graph.values) {
    std::string_view name = value.name;
    if (name.ends_with(kLimited)) name.remove_suffix(kLimited.size());
    if (graph.kept_ranges->made.contains(std::string(name))) value.name.clear();
  }
  graph.kept_ranges.reset();
}

}  // namespace lowtide::layout
