// SPDX-License-Identifier: Apache-2.0
// The factor of a channel is sqrt(largest activation / largest weight that reads it). The weights before it do not
// count: they have a scale for each channel that they make.
//
// The trap: a factor that differs from its neighbours' by much would make other weights of the same row vanish, so it
// is kept within kMostSpread of the others' middle.
#include "layout/quantize/equalize.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "layout/core/builtin.h"
#include "stream/recipe/magnitude.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using stream::Dim;
using stream::RecipeRef;
using stream::Shape;

constexpr double kMostSpread = 64;

struct Pair {
  OpId first, second;
  std::string tensor;  // between them
};

bool is_scalable_constant(const Graph& graph, const Op& op, size_t input) {
  return core::has_input(op, input) && graph.at(op.inputs[input]).is_constant() &&
         graph.at(op.inputs[input]).dtype == DType::kFloat32;
}

// Whether the op's weights can be scaled by the channels that it makes, or that it reads.
bool has_scalable_weights(const Graph& graph, const Op& op) {
  if (op.kind != Kind::kConv2d && op.kind != Kind::kDepthwiseConv2d && op.kind != Kind::kFullyConnected) return false;
  const core::Weights& where = *core::weights_of(op.kind);
  const bool has_bias = core::has_input(op, *where.bias);
  return is_scalable_constant(graph, op, *where.weights) && (!has_bias || is_scalable_constant(graph, op, *where.bias));
}

// The weights' channels that are read are along their last axis, one for each channel of the data.
bool reads_each_channel(const Graph& graph, const Op& op, size_t channels) {
  const core::Weights& where = *core::weights_of(op.kind);
  return graph.at(op.inputs[*where.weights]).shape.back() == static_cast<Dim>(channels);
}

bool keeps_proportions(const Op& op) {
  const core::Activation activation = core::fused_activation(op);
  return activation == core::Activation::kNone || activation == core::Activation::kRelu;
}

class Equalizing {
 public:
  Equalizing(Graph& graph, Calibrated& calibrated) : graph_(graph), calibrated_(calibrated), users_(graph.users()) {}

  void run(stream::Progress* progress) {
    std::vector<Pair> pairs;
    std::vector<stream::Magnitude> read;
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      if (auto pair = pair_of(static_cast<OpId>(i))) {
        read.push_back({.input = weights_of(pair->second),
                        .axis = static_cast<int>(weights_of(pair->second)->dims.size()) - 1,
                        .found = {}});
        pairs.push_back(std::move(*pair));
      }
    if (pairs.empty()) return;
    stream::measure(read, graph_.budget, calibrated_.threads, progress);
    for (size_t i = 0; i < pairs.size(); ++i) scale(pairs[i], read[i].found);
    graph_.tidy();
  }

 private:
  Op& op(OpId id) { return graph_.ops[static_cast<size_t>(id)]; }
  RecipeRef weights_of(OpId id) { return graph_.at(op(id).inputs[*core::weights_of(op(id).kind)->weights]).constant; }

  bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }

  std::optional<Pair> pair_of(OpId id) {
    const Op& first = op(id);
    if (!has_scalable_weights(graph_, first) || !keeps_proportions(first)) return std::nullopt;
    const ValueId between = first.outputs[0];
    const auto known = calibrated_.tensors.find(graph_.at(between).name);
    if (known == calibrated_.tensors.end() || known->second.channel_lows.empty()) return std::nullopt;
    ValueId read = between;
    for (;;) {
      const std::vector<OpId>& users = users_[static_cast<size_t>(read)];
      if (users.size() != 1 || is_output(read)) return std::nullopt;
      const Op& user = op(users[0]);
      if (user.kind == Kind::kPad) {  // with zeros, which are no less zeros when scaled
        read = user.outputs[0];
        continue;
      }
      const size_t channels = known->second.channel_lows.size();
      const bool fits = has_scalable_weights(graph_, user) && reads_each_channel(graph_, user, channels) &&
                        user.inputs[*core::weights_of(user.kind)->data] == read &&
                        graph_.at(between).shape.back() == static_cast<Dim>(channels);
      return fits ? std::optional<Pair>({id, users[0], known->first}) : std::nullopt;
    }
  }

  void scale(const Pair& pair, const std::vector<float>& weights) {
    CalibratedTensor& tensor = calibrated_.tensors.at(pair.tensor);
    const std::vector<float> factors = factors_of(tensor, weights);
    if (factors.empty() || !stay_finite(tensor, weights, factors)) return;
    std::vector<float> inverse;
    for (const float factor : factors) inverse.push_back(1 / factor);
    const core::Weights& where = *core::weights_of(op(pair.first).kind);
    multiply(pair.first, *where.weights, inverse, *where.output_axis);
    if (core::has_input(op(pair.first), *where.bias)) multiply(pair.first, *where.bias, inverse, 0);
    multiply(pair.second, *core::weights_of(op(pair.second).kind)->weights, factors, -1);
    change_ranges(tensor, factors);
    tensor.is_scaled = true;
  }

  static std::vector<float> factors_of(const CalibratedTensor& tensor, const std::vector<float>& weights) {
    std::vector<double> own, sorted;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double most = std::max(std::fabs(tensor.channel_lows[i]), std::fabs(tensor.channel_highs[i]));
      own.push_back(std::sqrt(most / weights[i]));
      const bool is_usable = std::isfinite(own[i]) && own[i] > 0;
      if (is_usable) sorted.push_back(own[i]);
      if (!is_usable) own[i] = 0;  // a channel that is always 0, or that nothing reads
    }
    if (sorted.empty()) return {};
    std::sort(sorted.begin(), sorted.end());
    const double middle = sorted[sorted.size() / 2];
    std::vector<float> out;
    for (const double factor : own)
      out.push_back(factor == 0 ? 1.0F : static_cast<float>(std::clamp(factor / middle, 1 / kMostSpread, kMostSpread)));
    return out;
  }

  // Whether the numbers of the channels, and the weights that read them, are floats when they are scaled.
  static bool stay_finite(const CalibratedTensor& tensor, const std::vector<float>& weights,
                          const std::vector<float>& factors) {
    for (size_t i = 0; i < factors.size(); ++i) {
      for (const std::vector<float>* of :
           {&tensor.channel_means, &tensor.channel_shifts, &tensor.channel_lows, &tensor.channel_highs})
        if (!of->empty() && !std::isfinite((*of)[i] / factors[i])) return false;
      if (!std::isfinite(weights[i] * factors[i])) return false;
    }
    return true;
  }

  void multiply(OpId id, size_t input, const std::vector<float>& factors, int axis) {
    const core::Value& value = graph_.at(op(id).inputs[input]);
    Shape along(value.shape.size(), 1);
    along[axis < 0 ? along.size() - 1 : static_cast<size_t>(axis)] = static_cast<Dim>(factors.size());
    const RecipeRef made =
        recipe::binary(stream::Binary::kMul, value.constant, recipe::floats(factors, std::move(along)));
    std::string name = value.name;
    const ValueId scaled = graph_.add_constant(made, std::move(name));
    op(id).inputs[input] = scaled;
  }

  // The part of a side that the chosen interval keeps of what was seen is kept of the scaled values too.
  static void change_ranges(CalibratedTensor& tensor, const std::vector<float>& factors) {
    auto kept = [](double chosen, double seen) { return seen == 0 ? 1.0 : std::clamp(chosen / seen, 0.0, 1.0); };
    const double low = kept(tensor.interval.low, tensor.seen.low), high = kept(tensor.interval.high, tensor.seen.high);
    Interval seen;
    for (size_t i = 0; i < factors.size(); ++i) {
      if (!tensor.channel_means.empty()) tensor.channel_means[i] /= factors[i];
      if (!tensor.channel_shifts.empty()) tensor.channel_shifts[i] /= factors[i];
      tensor.channel_lows[i] /= factors[i];
      tensor.channel_highs[i] /= factors[i];
      seen = unite(seen, {tensor.channel_lows[i], tensor.channel_highs[i]});
    }
    tensor.seen = seen;
    tensor.interval = unite({}, {low * seen.low, high * seen.high});
  }

  Graph& graph_;
  Calibrated& calibrated_;
  std::vector<std::vector<OpId>> users_;
};

}  // namespace

void equalize(Graph& graph, Calibrated& calibrated, stream::Progress* progress) {
  graph.tidy();
  Equalizing(graph, calibrated).run(progress);
}

void name_scaled(Graph& graph, const Calibrated& calibrated) {
  for (core::Value& value : graph.values) {
    const auto known = value.name.empty() ? calibrated.tensors.end() : calibrated.tensors.find(value.name);
    if (known != calibrated.tensors.end() && known->second.is_scaled) value.name += "/scaled";
  }
}

}  // namespace lowtide::layout
