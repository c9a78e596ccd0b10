// SPDX-License-Identifier: Apache-2.0
#include "layout/weights/shrink_weights.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "layout/core/block_constant.h"
#include "layout/core/builder.h"
#include "layout/core/integer_constant.h"
#include "layout/core/reshape_list.h"
#include "layout/weights/kernels.h"
#include "layout/weights/names.h"
#include "layout/weights/stored_halves.h"
#include "stream/error.h"
#include "stream/recipe/magnitude.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Graph;
using core::Kind;
using core::Op;
using core::OpId;
using core::Val;
using core::ValueId;
using stream::RecipeRef;
namespace recipe = stream::recipe;

constexpr float kLargestHalf = 65504;
// There are no unsigned 4 bits in TFLite: this is taken from the integers and from their zero points.
constexpr int64_t kUnsignedMiddle = 8;
// Weights up to here lose digits: eight times the smallest f16 of 11 bits. Those below it have fewer bits.
constexpr float kSmallHalf = 0x1p-11F;

struct Use {
  Graph* graph;
  OpId op;
  size_t input;
};

// A constant of the model and all that use it, in all of its graphs.
struct Weight {
  RecipeRef recipe;
  std::string name;  // of the first value that has one
  std::vector<Use> uses;
  std::vector<Graph*> result_of;  // graphs of which it is an output
  bool wanted = false;            // the options choose it for fewer bits
  DType dtype = DType::kFloat32;  // to be stored in
  int axis = -1;
  RecipeRef stored;          // null: it is stored as f32
  bool is_exact = false;     // `stored` has the model's own f16 elements
  bool is_integers = false;  // `stored` has the model's own integers, which a DEQUANTIZE makes exactly these floats
  RecipeRef block_zero,
      block_scale;  // with scales by blocks: what is subtracted behind it (may be null), and multiplied
  std::optional<core::Quantization> quantization;
};

bool is_weight(const core::Value& value) {
  return value.is_constant() && value.dtype == DType::kFloat32 && !value.quantization && value.rank() >= 2 &&
         value.constant->elements() >= core::kWeightElements;
}

// Constants that graphs share have one recipe.
std::vector<Weight> find_weights(core::Model& model) {
  std::vector<Weight> out;
  std::unordered_map<const stream::Recipe*, size_t> known;
  for (const auto& graph : model.graphs) {
    const std::vector<std::vector<OpId>> users = graph->users();
    std::vector<bool> is_result(graph->values.size(), false);
    for (ValueId id : graph->outputs)
      if (id != core::kAbsent) is_result[static_cast<size_t>(id)] = true;
    for (size_t v = 0; v < graph->values.size(); ++v) {
      const core::Value& value = graph->values[v];
      if (!is_weight(value) || (users[v].empty() && !is_result[v])) continue;
      auto [it, fresh] = known.try_emplace(value.constant.get(), out.size());
      if (fresh) out.push_back({.recipe = value.constant});
      Weight& weight = out[it->second];
      if (weight.name.empty()) weight.name = value.name;
      if (is_result[v]) weight.result_of.push_back(graph.get());
      for (size_t u = 0; u < users[v].size(); ++u) {
        const OpId op = users[v][u];
        if (u > 0 && users[v][u - 1] == op) continue;  // an op stands there for each of its inputs
        const std::vector<ValueId>& inputs = graph->op(op).inputs;
        for (size_t i = 0; i < inputs.size(); ++i)
          if (inputs[i] == static_cast<ValueId>(v)) weight.uses.push_back({graph.get(), op, i});
      }
    }
  }
  return out;
}

const Op& op_of(const Use& use) { return use.graph->op(use.op); }

// ---- names ----

std::vector<std::string> names_of(const Weight& weight, const WeightNames& initializers) {
  std::vector<std::string> out = initializers.of(weight.recipe);
  if (!weight.name.empty()) out.push_back(weight.name);
  for (const Use& use : weight.uses) out.push_back(use.graph->origins[op_of(use).origin]);
  return out;
}

// Marks the weights that the patterns choose; each pattern must match one.
void choose(std::vector<Weight>& weights, const onnx::Model& onnx, const WeightOptions& options) {
  for (Weight& weight : weights) weight.wanted = options.include.empty();
  if (options.include.empty() && options.exclude.empty()) return;
  const WeightNames initializers(onnx);
  std::vector<std::vector<std::string>> names;
  for (const Weight& weight : weights) names.push_back(names_of(weight, initializers));
  auto mark = [&](const char* option, const std::vector<std::string>& patterns, bool wanted) {
    for (const std::string& pattern : patterns) {
      bool any = false;
      for (size_t i = 0; i < weights.size(); ++i) {
        if (std::none_of(names[i].begin(), names[i].end(),
                         [&](const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }))
          continue;
        any = true;
        weights[i].wanted = wanted;
      }
      if (any) continue;
      std::string hint = "the model has no such weights";
      if (!names.empty()) hint = fmt::format("the first weight is '{}'", names[0].empty() ? "" : names[0][0]);
      throw stream::Error(stream::Code::kUsage,
                          fmt::format("{} '{}' matches no weight of {} elements or more and no node that uses one: "
                                      "{}",
                                      option, pattern, core::kWeightElements, hint));
    }
  };
  mark("--weights-include", options.include, true);
  mark("--weights-exclude", options.exclude, false);
}

// The weight's name in messages.
std::string label(const Weight& weight) {
  if (!weight.name.empty()) return weight.name;
  return weight.uses.empty() ? "" : weight.uses[0].graph->origins[op_of(weight.uses[0]).origin];
}

// ---- forms ----

// Control flow copies its operands as they are.
bool takes_any_float(const Op& op) { return !core::runs_graphs(op); }

bool can_be_halves(const Weight& weight) {
  return std::all_of(weight.uses.begin(), weight.uses.end(),
                     [](const Use& use) { return takes_any_float(op_of(use)); });
}

// In f16 without a change of any number, where the model stores it so.
void keep_halves(Weight& weight) {
  if (!can_be_halves(weight)) return;
  weight.stored = stored_halves(weight.recipe);
  if (!weight.stored) return;
  weight.dtype = DType::kFloat16;
  weight.is_exact = true;
}

bool has_normal_scales(const core::IntegerConstant& constant) {
  return std::all_of(constant.scale.begin(), constant.scale.end(), [](float s) { return s > 0 && std::isnormal(s); });
}

// As the model's integers, for DEQUANTIZE. Types of 4 bits and 16 bits have no zero points there.
void keep_integers(Weight& weight, stream::Budget& budget) {
  if (!can_be_halves(weight)) return;
  if (std::holds_alternative<stream::step::Fill>(weight.recipe->step)) return;
  auto constant = core::integer_constant(weight.recipe, budget);
  if (!constant || !has_normal_scales(*constant) || !constant->all_zero_points_fit()) return;
  RecipeRef integers = constant->integers;
  const bool any_zero = integers->dtype == DType::kInt8 || integers->dtype == DType::kUint8;
  if (integers->dtype == DType::kUint4 && constant->all_zero_points_are(kUnsignedMiddle)) {
    integers = core::shifted_integers(integers, -kUnsignedMiddle, DType::kInt4);
    constant->zero.assign(constant->zero.size(), 0);
  } else if (integers->dtype == DType::kUint4) {
    integers = recipe::cast(integers, DType::kUint8);
  } else if (!any_zero) {
    const bool takes = integers->dtype == DType::kInt4 || (integers->dtype == DType::kInt16 && constant->axis < 0);
    if (!takes || !constant->all_zero_points_are(0)) return;
  }
  weight.stored = std::move(integers);
  weight.dtype = weight.stored->dtype;
  weight.axis = constant->axis;
  weight.quantization = core::Quantization{constant->scale, constant->zero, std::max(constant->axis, 0)};
  weight.is_integers = true;
}

// With scales by blocks, for DEQUANTIZE -> SUB -> MUL -> RESHAPE. Axes of blocks add one: MUL broadcasts over 4.
void keep_blocks(Weight& weight) {
  constexpr size_t kMostAxes = 3;
  if (!can_be_halves(weight) || weight.recipe->dims.size() > kMostAxes) return;
  auto constant = core::block_constant(weight.recipe);
  if (!constant) return;
  RecipeRef integers = constant->integers, zero = constant->zero;
  int64_t parameter = 0;
  if (integers->dtype == DType::kUint4 && core::has_whole_zeros(*constant)) {
    integers = core::shifted_integers(integers, -kUnsignedMiddle, DType::kInt4);
    const auto common = core::common_zero(*constant);
    zero = common == kUnsignedMiddle
               ? nullptr
               : recipe::binary(stream::Binary::kSub,
                                zero ? zero : recipe::fill_value(0, DType::kFloat32, constant->scale->dims),
                                recipe::fill_value(kUnsignedMiddle, DType::kFloat32, {}));
  } else if (integers->dtype == DType::kUint4) {
    integers = recipe::cast(integers, DType::kUint8);
  } else if (const auto common = core::common_zero(*constant)) {
    const bool is_signed = stream::is_signed_int(integers->dtype);
    const bool fits =
        stream::bits(integers->dtype) == 8 && *common >= (is_signed ? -128 : 0) && *common <= (is_signed ? 127 : 255);
    if (fits) parameter = *common;
    if (fits || *common == 0) zero = nullptr;
  }
  weight.stored = std::move(integers);
  weight.dtype = weight.stored->dtype;
  weight.quantization = core::Quantization{{1}, {parameter}, 0};
  weight.is_integers = true;
  weight.block_zero = std::move(zero);
  weight.block_scale = constant->scale;
}

// All users must read the same channels.
void choose_integers(Weight& weight, bool four_bits) {
  int axis = -1;
  for (const Use& use : weight.uses) {
    const auto slot = weight_slot(*use.graph, op_of(use), use.input);
    if (!slot || (axis >= 0 && axis != slot->axis)) return;
    axis = slot->axis;
    four_bits = four_bits && slot->four_bits;
  }
  weight.axis = axis;
  weight.dtype = four_bits ? DType::kInt4 : DType::kInt8;
}

// Why a weight of this largest magnitude cannot be stored in this type; empty when it can.
std::string reason_to_stay(DType dtype, float magnitude) {
  if (!std::isfinite(magnitude)) return "it has infinite or NaN elements";
  if (dtype == DType::kFloat16 && magnitude > kLargestHalf)
    return fmt::format("its largest magnitude is {:.6g}, that of f16 is {}", magnitude, kLargestHalf);
  if (dtype == DType::kFloat16 && magnitude > 0 && magnitude < kSmallHalf)
    return fmt::format("its largest magnitude is {:.6g}, and below {:.6g} f16 keeps too few digits", magnitude,
                       kSmallHalf);
  return {};
}

// Symmetric, with the narrow range. A channel of zeros, or of numbers close to zero, has the scale 1: kernels refuse
// scales that are not normal numbers.
core::Quantization symmetric(const std::vector<float>& magnitudes, DType dtype, int axis) {
  const float top = dtype == DType::kInt4 ? 7 : 127;
  core::Quantization out{.scale = {}, .zero_point = {}, .axis = axis};
  out.scale.reserve(magnitudes.size());
  for (float magnitude : magnitudes) {
    const float scale = magnitude / top;
    out.scale.push_back(scale < std::numeric_limits<float>::min() ? 1 : scale);
  }
  return out;
}

void settle(Weight& weight, const stream::Magnitude& measured, core::ShrunkWeights& report) {
  const float largest = *std::max_element(measured.found.begin(), measured.found.end(),
                                          [](float a, float b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
  const std::string reason = reason_to_stay(weight.dtype, largest);
  if (!reason.empty()) {
    report.kept.push_back(fmt::format("'{}' stays float: {}", label(weight), reason));
    weight.dtype = DType::kFloat32;
    keep_halves(weight);
    return;
  }
  if (weight.dtype == DType::kFloat16) {
    weight.stored = recipe::cast(weight.recipe, DType::kFloat16);
    return;
  }
  weight.quantization = symmetric(measured.found, weight.dtype, weight.axis);
  weight.stored = recipe::quantize(weight.recipe, weight.dtype, weight.quantization->scale, {}, weight.axis);
}

// ---- the graph ----

// The values of stored weights in one graph, and the ops that read them.
class Reading {
 public:
  explicit Reading(Graph& graph) : graph_(graph), builder_(graph) {}

  // The graph's outputs that are this weight.
  void change_outputs(const Weight& weight) {
    for (ValueId& out : graph_.outputs) {
      const core::Value& value = graph_.at(out);
      if (value.is_constant() && value.constant.get() == weight.recipe.get()) out = dequantized(weight);
    }
  }

  void change(const Weight& weight, const Use& use) {
    builder_.origin = op_of(use).origin;
    const bool half = weight.dtype == DType::kFloat16;
    const bool whole = half || (weight.is_integers && !weight.block_scale && weight.quantization->scale.size() == 1);
    if (whole && use.input == 0 && gathers_stored(graph_, op_of(use), weight.dtype)) return gather_stored(weight, use);
    if (weight.is_integers) return read(use, dequantized(weight));
    WeightReading reading = WeightReading::kDequantize;
    if (!half) reading = weight_slot(graph_, op_of(use), use.input)->reading;
    if (reading == WeightReading::kLookup) return look_up(weight, use);
    if (reading == WeightReading::kHybrid && !groups_of_one_scale(weight, use)) return read(use, stored(weight));
    read(use, dequantized(weight));
  }

 private:
  void read(const Use& use, ValueId id) { graph_.op(use.op).inputs[use.input] = id; }

  ValueId stored(const Weight& weight) {
    ValueId& id = stored_.try_emplace(weight.stored.get(), core::kAbsent).first->second;
    if (id == core::kAbsent) {
      id = graph_.add_constant(weight.stored, weight.name);
      graph_.at(id).quantization = weight.quantization;
    }
    return id;
  }

  ValueId dequantized(const Weight& weight) {
    auto known = dequantized_.find(weight.stored.get());
    if (known != dequantized_.end()) return known->second;
    ValueId floats = graph_.add_value(DType::kFloat32, weight.stored->dims);
    push(Kind::kDequantize, {stored(weight)}, floats);
    if (weight.block_scale) floats = of_blocks(weight, Val{floats}).id;
    dequantized_.emplace(weight.stored.get(), floats);
    return floats;
  }

  // Named, so that listings and reports show which constant they belong to.
  Val part(const Weight& weight, const RecipeRef& recipe, const char* what) {
    return Val{graph_.add_constant(recipe, weight.name.empty() ? "" : weight.name + what)};
  }

  Val of_blocks(const Weight& weight, Val levels) {
    if (weight.block_zero) levels = builder_.sub(levels, part(weight, weight.block_zero, "/zero"));
    return builder_.reshape(builder_.mul(levels, part(weight, weight.block_scale, "/scale")), weight.recipe->dims);
  }

  // Only the rows that are picked are converted to f32.
  void gather_stored(const Weight& weight, const Use& use) {
    read(use, stored(weight));
    Op& op = graph_.op(use.op);
    const ValueId floats = op.outputs[0];
    const core::Shape shape = graph_.at(floats).shape;
    op.outputs[0] = graph_.add_value(weight.dtype, shape);
    graph_.at(op.outputs[0]).quantization = weight.quantization;
    push(Kind::kDequantize, {op.outputs[0]}, floats);
  }

  // EMBEDDING_LOOKUP takes a list of i32 indices.
  void look_up(const Weight& weight, const Use& use) {
    const Op gather = op_of(use);
    graph_.op(use.op).kind = Kind::kDead;
    const Val indices = builder_.cast(Val{gather.inputs[1]}, DType::kInt32);
    const core::Shape picked = graph_.at(indices.id).shape, table = weight.recipe->dims;
    const core::Dim count = graph_.symbols.product(picked);
    const Val list = builder_.reshape(indices, {count});
    core::Shape rows = table;
    rows[0] = count;
    const ValueId looked_up = picked.size() == 1 ? gather.outputs[0] : graph_.add_value(DType::kFloat32, rows);
    push(Kind::kEmbeddingLookup, {list.id, stored(weight)}, looked_up);
    if (picked.size() != 1) push(Kind::kReshape, {looked_up, shape_of_result(indices, table).id}, gather.outputs[0]);
  }

  // The shape of the indices and that of a row.
  Val shape_of_result(Val indices, const core::Shape& table) {
    core::Shape shape = graph_.at(indices.id).shape;
    const core::Shape row(table.begin() + 1, table.end());
    shape.insert(shape.end(), row.begin(), row.end());
    if (const auto list = core::constant_reshape_list(shape)) return builder_.i32(*list);
    return builder_.concat({builder_.shape_of(indices), builder_.i32(row)}, 0);
  }

  // The hybrid kernel of a grouped convolution treats equal scales as a single one, and then allocates no memory for
  // groups.
  bool groups_of_one_scale(const Weight& weight, const Use& use) const {
    const Op& op = op_of(use);
    const std::vector<float>& scale = weight.quantization->scale;
    return op.kind == Kind::kConv2d && graph_.at(op.inputs[0]).shape[3] != weight.recipe->dims[3] &&
           std::all_of(scale.begin(), scale.end(), [&](float s) { return s == scale[0]; });
  }

  void push(Kind kind, std::vector<ValueId> inputs, ValueId output) {
    graph_.at(output).producer = static_cast<OpId>(graph_.ops.size());
    graph_.add_op({.kind = kind, .inputs = std::move(inputs), .outputs = {output}, .origin = builder_.origin});
  }

  Graph& graph_;
  core::Builder builder_;
  std::map<const stream::Recipe*, ValueId> stored_, dequantized_;
};

void rewrite(const std::vector<Weight>& weights) {
  std::map<Graph*, Reading> readings;
  for (const Weight& weight : weights) {
    if (!weight.stored) continue;
    for (const Use& use : weight.uses) readings.try_emplace(use.graph, *use.graph).first->second.change(weight, use);
    for (Graph* graph : weight.result_of) readings.try_emplace(graph, *graph).first->second.change_outputs(weight);
  }
}

// The scales of all that is to be stored in fewer bits, found in one pass over the weights.
void measure(std::vector<Weight>& weights, core::Model& model, const WeightOptions& options,
             core::ShrunkWeights& report) {
  std::vector<stream::Magnitude> measured;
  std::vector<Weight*> whose;
  for (Weight& weight : weights) {
    if (weight.dtype == DType::kFloat32 || weight.stored) continue;
    measured.push_back({.input = weight.recipe, .axis = weight.axis});
    whose.push_back(&weight);
  }
  if (measured.empty()) return;
  stream::measure(measured, model.budget, options.threads, options.progress);
  for (size_t i = 0; i < measured.size(); ++i) {
    settle(*whose[i], measured[i], report);
    measured[i] = {};  // the scales are in the weight now
  }
}

void choose_form(Weight& weight, WeightForm form, stream::Budget& budget) {
  if (!weight.result_of.empty()) return keep_integers(weight, budget);
  if (weight.uses.empty()) return;
  if (weight.wanted && (form == WeightForm::kInt8 || form == WeightForm::kInt4))
    choose_integers(weight, form == WeightForm::kInt4);
  if (weight.dtype != DType::kFloat32) return;
  keep_integers(weight, budget);
  if (!weight.stored) keep_blocks(weight);
  if (weight.stored) return;
  keep_halves(weight);
  if (weight.wanted && form == WeightForm::kHalf && can_be_halves(weight)) weight.dtype = DType::kFloat16;
}

void count_weight(const Weight& weight, core::ShrunkWeights& report) {
  ++(!weight.stored                    ? report.f32
     : weight.dtype == DType::kFloat16 ? report.f16
     : weight.dtype == DType::kInt4    ? report.int4
                                       : report.int8);
  if (!weight.stored && reads_halves(weight.recipe)) {
    ++report.widened;
    report.widened_bytes += weight.recipe->bytes() / 2;
  } else if (weight.is_exact) {
    ++report.as_stored;
    report.as_stored_bytes += weight.stored->bytes();
  }
}

// Whether the model has a weight that is stored in fewer bits than 32.
bool any_stored(const core::Model& model) {
  for (const auto& graph : model.graphs)
    for (const core::Value& value : graph->values)
      if (is_weight(value) && (reads_halves(value.constant) || core::block_constant(value.constant) ||
                               core::integer_constant(value.constant, graph->budget)))
        return true;
  return false;
}

}  // namespace

core::ShrunkWeights shrink_weights(core::Model& model, const onnx::Model& onnx, const WeightOptions& options) {
  core::ShrunkWeights report;
  const bool changes =
      options.form == WeightForm::kHalf || options.form == WeightForm::kInt8 || options.form == WeightForm::kInt4;
  if (options.form == WeightForm::kFloat || (!changes && !any_stored(model))) return report;
  std::vector<Weight> weights = find_weights(model);
  choose(weights, onnx, options);
  for (Weight& weight : weights) choose_form(weight, options.form, model.budget);
  measure(weights, model, options, report);
  rewrite(weights);
  for (const auto& graph : model.graphs) graph->tidy();
  for (const Weight& weight : weights) count_weight(weight, report);
  return report;
}

}  // namespace lowtide::layout
