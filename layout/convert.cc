// SPDX-License-Identifier: Apache-2.0
// The passes, in their order, each with the reason for its place. A pass is a function on the graph; no pass undoes
// what another one did.
#include "layout/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "layout/check_run_time_dims.h"
#include "layout/core/subgraphs.h"
#include "layout/drop_unused_values.h"
#include "layout/fuse/fuse.h"
#include "layout/legalise/aliases.h"
#include "layout/legalise/expand_erf.h"
#include "layout/legalise/flattened_products.h"
#include "layout/legalise/keep_infinities.h"
#include "layout/legalise/legalise.h"
#include "layout/legalise/outputs.h"
#include "layout/legalise/small_floats.h"
#include "layout/lower/inline_functions.h"
#include "layout/lower/lower_graph.h"
#include "layout/merge_equal.h"
#include "layout/narrowed_nodes.h"
#include "layout/plain/few_axes.h"
#include "layout/plain/gpu_forms.h"
#include "layout/plain/plain.h"
#include "layout/quantize/border_types.h"
#include "layout/quantize/made_ranges.h"
#include "layout/quantize/place_grids.h"
#include "layout/quantize/quantize.h"
#include "layout/run_order.h"
#include "layout/settle/pin_layouts.h"
#include "layout/settle/settle_layouts.h"
#include "layout/stateful_calls.h"
#include "layout/weights/keep_weights.h"

namespace lowtide::layout {
namespace {

// Makes a change that takes no more ops, or is worth more: RESHAPEs that are left cost a little.
void where_free(std::unique_ptr<core::Graph>& graph, void (*change)(core::Graph&),
                bool (*is_worth_more)(const core::Graph& before, const core::Graph& after) = nullptr) {
  auto changed = std::make_unique<core::Graph>(*graph);
  change(*changed);
  for (core::Graph* each : {changed.get(), graph.get()}) {
    fuse(*each);
    merge_equal(*each);
  }
  if (changed->ops.size() <= graph->ops.size() || (is_worth_more && is_worth_more(*graph, *changed)))
    graph = std::move(changed);
}

bool has_result(const core::Graph& graph, bool (*is_meant)(core::Kind kind, int rank)) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const core::Op& op) {
    return op.kind != core::Kind::kDead && !op.outputs.empty() && is_meant(op.kind, graph.at(op.outputs[0]).rank());
  });
}

bool is_flat_pad(core::Kind kind, int rank) {
  return rank < 3 && (kind == core::Kind::kPad || kind == core::Kind::kPadv2 || kind == core::Kind::kMirrorPad);
}

// Not where matrices get integers for numbers: scales for both together would be less exact. Nor where bytes stay in
// the model's files.
bool may_join_products(const ConvertOptions& options) {
  const WeightForm form = options.weights.form;
  return !options.for_gpu && !options.calibrated &&
         (form == WeightForm::kStored || form == WeightForm::kFloat || form == WeightForm::kHalf);
}

bool has_no_axes(core::Kind kind, int rank) { return rank == 0 && kind != core::Kind::kReshape; }

}  // namespace

ConvertResult convert(onnx::Model& model, const ConvertOptions& options, stream::Budget& budget) {
  ConvertResult result;
  result.model = std::make_unique<core::Model>(budget);
  core::Model& core_model = *result.model;
  if (!options.signature.empty()) core_model.signatures[0] = options.signature;
  // Graphs of branches and loop bodies go through the same passes as the main graph; their inputs and outputs keep
  // ONNX's axis order.
  auto each = [&](auto pass) {
    for (const auto& graph : core_model.graphs) pass(*graph);
  };
  auto done = [&](std::string_view pass) {
    each(drop_unused_values);
    if (options.after_pass) options.after_pass(pass, core_model);
  };

  // Operators that came from TFLite as calls of functions, before the functions are gone.
  if (options.keep_states) take_stateful_calls(model, budget);
  // Calls of the model's own functions are replaced by the functions' bodies: lowering has no functions.
  const bool has_functions = !model.functions.empty();
  onnx::Model inlined = has_functions ? inline_functions(model) : onnx::Model();
  onnx::Model& source = has_functions ? inlined : model;
  if (has_functions) model.graph = {};
  // ONNX nodes become core ops, in ONNX's axis order. Later passes know no ONNX.
  // The ONNX graph is needed afterwards only for patterns that select weights by name.
  const bool by_name = !options.weights.include.empty() || !options.weights.exclude.empty();
  LowerResult lowered =
      lower_graph(source, options.shapes, options.custom, core_model, nullptr, by_name ? nullptr : &source.graph);
  result.refused = std::move(lowered.refused);
  result.not_judged = std::move(lowered.not_judged);
  result.notes = std::move(model.notes);
  result.notes.insert(result.notes.end(), lowered.notes.begin(), lowered.notes.end());
  if (!by_name) source.graph = {};
  if (!result.refused.empty()) return result;
  // From here on each pass is given a tidy graph, and leaves one.
  each([](core::Graph& graph) { graph.tidy(); });
  done("lower");
  // Values that lowering made get ranges while all values are there that calibration observed.
  std::optional<Calibrated> calibrated = options.calibrated;
  if (calibrated) keep_ranges(*core_model.graphs[0], *calibrated);
  // Dimensions that are known only at run time must be able to fit all operators that use them. Now, because fusing
  // removes operators.
  check_run_time_dims(*core_model.graphs[0]);
  // A loop's body is lowered again when a turn changes a shape, and the operator that has a branch may be unused.
  drop_unused_graphs(core_model);
  // Equal subexpressions are merged: exporters repeat shape arithmetic, masks, and constants.
  each(merge_equal);
  done("merge_equal");
  // Transposes at inputs and outputs where --layout asks for them, before axis orders are decided.
  pin_layouts(*core_model.graphs[0], options.layouts);
  done("pin_layouts");
  // Batch normalization, biases and activations are fused into the ops before them, while each convolution still has
  // its own two transposes: afterwards there is less to settle.
  each(fuse);
  done("fuse");
  // Every value gets the axis order that moves the fewest bytes at run time.
  each(settle_layouts);
  done("settle_layouts");
  // The forms of ops that most runtimes take, where they cost nothing. Between settling, which decides on axis orders,
  // and the merging of reshapes. Not in bodies of control flow: no GPU delegate takes them, and an op more counts
  // there.
  plain_forms(*core_model.graphs[0]);
  if (options.for_gpu) {
    few_axes(*core_model.graphs[0]);
    for (const std::string& name : gpu_forms(*core_model.graphs[0]))
      result.notes.push_back(
          fmt::format("input '{}' takes i32, where the model has i64: GPU delegates know no i64", name));
  }
  for (auto& graph : core_model.graphs) {
    const bool is_main = &graph == &core_model.graphs[0];
    if (has_many_axes(*graph)) where_free(graph, few_axes, is_main ? is_worth_few_axes : nullptr);
  }
  if (!options.for_gpu) {
    std::unique_ptr<core::Graph>& main_graph = core_model.graphs[0];
    const auto where_meant = [&](auto is_meant, auto change) {
      if (!has_result(*main_graph, is_meant)) return;
      fuse(*main_graph);  // RESHAPEs in a row are one, whose places the change uses
      where_free(main_graph, change);
    };
    where_meant(is_flat_pad, pads_of_three_axes);
    where_meant(has_no_axes, at_least_one_axis);
  }
  done("plain_forms");
  // Once more, for ops that are adjacent now: pads before convolutions, several reshapes.
  each(fuse);
  done("fuse_again");
  // ERF, which no kernel computes, is replaced by builtins: after fusing, which looks for patterns that contain it.
  if (!options.tables) each(expand_erf);
  done("expand_erf");
  // Floats of 8 and 4 bits, which no kernel takes, are their bits. Here, because the passes above move casts as what
  // they are, by element; before equal ops are merged, and grids are placed.
  for (std::string& note : notes_on_small_floats(*core_model.graphs[0])) result.notes.push_back(std::move(note));
  each([&](core::Graph& graph) {
    for (stream::Unsupported& refused : small_floats_as_bits(graph)) result.refused.push_back(std::move(refused));
  });
  if (!result.refused.empty()) return result;
  done("small_floats");
  // Activations that GPU delegates do not take as fusing left them.
  if (!options.tables && !options.calibrated) plain_activations(*core_model.graphs[0]);
  if (options.for_gpu) gpu_activations(*core_model.graphs[0]);
  // Settling and fusing create equal constants and transposes too.
  each(merge_equal);
  // Behind it, because it would undo this.
  if (options.for_gpu) gpu_outputs(*core_model.graphs[0]);
  done("merge_equal_again");
  // Floats get the grids that calibration found; then the model is a quantized one as others. What is remembered of
  // values is by their numbers, so they keep them until float operators are known.
  std::optional<PlacedGrids> placed;
  auto done_placing = [&] {
    if (options.after_pass) options.after_pass("place_grids", core_model);
  };
  if (calibrated) {
    calibrated->only_integers =
        options.require_integer || (options.border && *options.border != stream::DType::kFloat32);
    placed = quantize_calibrated(*core_model.graphs[0], *calibrated, result.integers, options.tables,
                                 options.weights.progress, done_placing);
    result.notes.insert(result.notes.end(), placed->notes.begin(), placed->notes.end());
  } else {
    done_placing();
  }
  const PlacedGrids* of_main = placed ? &*placed : nullptr;
  // Integers are computed in integer kernels: after layouts are settled and activations are fused, so that kernels and
  // their operands are known.
  each([&](core::Graph& graph) {
    const bool is_main = &graph == core_model.graphs[0].get();
    if (!is_main || !placed) quantize(graph, is_main, result.integers, options.tables);
  });
  if (options.border) set_border_types(*core_model.graphs[0], *options.border);
  // Not before it: an input of integers has nothing to limit.
  if (placed) limit_far(*core_model.graphs[0], *placed);
  if (options.require_integer)
    each([&](core::Graph& graph) {
      for (stream::Unsupported& refused :
           float_operators(graph, &graph == core_model.graphs[0].get() ? of_main : nullptr))
        result.refused.push_back(std::move(refused));
    });
  result.refused_floats = !result.refused.empty();
  if (!result.refused.empty()) return result;
  done("quantize");
  // A table says ERF exactly; what became none is written with builtins now.
  if (options.tables) each(expand_erf);
  // Infinities of masks are kept where an output shows them, although kernels clamp sums.
  each(keep_infinities);
  // Selections, those that keep infinities too. Late, because fusing would take the repetitions away.
  if (options.for_gpu) gpu_selections(*core_model.graphs[0]);
  done("keep_infinities");
  // Products that read a weight as it is stored, where weights stay in their files.
  if (options.weights.form == WeightForm::kInPlace) each(keep_weights);
  done("keep_weights");
  if (may_join_products(options)) each(join_products);
  done("join_products");
  // Axes of extent 1 that FULLY_CONNECTED drops itself. Late, because the passes above look for the axes of its input.
  // Not with --quantize: `calibrate --correct-layers` measures by name what each layer reads.
  if (!options.calibrated) each(flatten_in_products);
  done("flatten_in_products");
  // Late, because passes that merge pads look for PAD.
  each(plain_pads);
  done("plain_pads");
  // Late, because fusing would merge the RESHAPEs; where the GPU computes, three axes are better avoided.
  if (!options.for_gpu) each(plain_products);
  done("plain_products");
  // For right numbers, so for GPUs too: XNNPACK computes what a delegate leaves. Late, because equal values are merged.
  each(plain_squares);
  done("plain_squares");
  // What kernels require: a bias, element types, ranks. Late, because the casts and reshapes that it adds between ops
  // would hide them from the passes above.
  each([&](core::Graph& graph) {
    NarrowedTypes narrowed;
    for (const stream::Unsupported& refused : legalise(graph, &narrowed, options.require_integer))
      result.refused.push_back(refused);
    for (core::NarrowedNode& node : narrowed_nodes(core_model, graph, narrowed))
      result.narrowed.push_back(std::move(node));
  });
  if (options.strict_types)
    for (stream::Unsupported& refused : refused_for_their_types(result.narrowed))
      result.refused.push_back(std::move(refused));
  if (!result.refused.empty()) return result;
  done("legalise");
  // The types in which weights are stored: when ops, types and layouts are final, because each kernel has rules of its
  // own for them. For scales their bytes are read here, the first of two times.
  result.weights = shrink_weights(core_model, source, options.weights);
  done("shrink_weights");
  // Each output gets its own op and name. Late, because every pass before may merge two of them.
  each([&](core::Graph& graph) { separate_outputs(graph, &graph == core_model.graphs[0].get()); });
  done("separate_outputs");
  // What the model declares of its outputs, where it says more. Now, because passes infer shapes again.
  core::Graph& main = *core_model.graphs[0];
  for (const core::ValueId output : main.outputs)
    for (core::Dim& dim : main.at(output).shape)
      if (auto known = lowered.declared_extents.find(dim); known != lowered.declared_extents.end()) dim = known->second;
  // Copies where LiteRT's memory planner would overwrite values that are still needed, in the final graph.
  each(separate_aliases);
  done("separate_aliases");
  each(order_for_memory);
  done("order_for_memory");
  // Scales went through all passes.
  each([](const core::Graph& graph) { check_grids(graph); });
  return result;
}

}  // namespace lowtide::layout
