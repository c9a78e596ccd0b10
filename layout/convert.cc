// SPDX-License-Identifier: Apache-2.0
// The pipeline, from top to bottom, one line a pass, the reason beside it. A pass is a free function on the graph; none
// undoes another.
#include "layout/convert.h"

#include <utility>

#include "layout/core/subgraphs.h"
#include "layout/drop_unused_values.h"
#include "layout/fuse/fuse.h"
#include "layout/legalise/aliases.h"
#include "layout/legalise/expand_erf.h"
#include "layout/legalise/keep_infinities.h"
#include "layout/legalise/legalise.h"
#include "layout/legalise/outputs.h"
#include "layout/lower/inline_functions.h"
#include "layout/lower/lower_graph.h"
#include "layout/merge_equal.h"
#include "layout/settle/pin_layouts.h"
#include "layout/settle/settle_layouts.h"
#include "layout/weights/keep_weights.h"

namespace lowtide::layout {

ConvertResult convert(onnx::Model& model, const ConvertOptions& options, stream::Budget& budget) {
  ConvertResult result;
  result.model = std::make_unique<core::Model>(budget);
  core::Model& core_model = *result.model;
  // The graphs of branches and loops' bodies go the same way as the main one; their inputs and outputs keep ONNX's
  // order.
  auto each = [&](auto pass) {
    for (const auto& graph : core_model.graphs) pass(*graph);
  };
  auto done = [&](std::string_view pass) {
    each([](core::Graph& graph) {
      graph.tidy();
      drop_unused_values(graph);
    });
    if (options.after_pass) options.after_pass(pass, core_model);
  };

  // Calls of the model's own functions become their bodies, so that no lowering meets one.
  const bool has_functions = !model.functions.empty();
  onnx::Model inlined = has_functions ? inline_functions(model) : onnx::Model();
  onnx::Model& source = has_functions ? inlined : model;
  if (has_functions) model.graph = {};
  // ONNX nodes become core ops, in ONNX's axis order; from here on nothing is ONNX's any more.
  LowerResult lowered = lower_graph(source, options.shapes, core_model);
  result.refused = std::move(lowered.refused);
  result.not_judged = std::move(lowered.not_judged);
  result.notes = std::move(lowered.notes);
  // From here on only patterns for names of weights need it.
  if (options.weights.include.empty() && options.weights.exclude.empty()) source.graph = {};
  if (!result.refused.empty()) return result;
  done("lower");
  // Bodies are written again when a loop turns out to change an extent, and what holds a branch may be of no use.
  drop_unused_graphs(core_model);
  // Equal subexpressions once: exporters repeat shape arithmetic, masks, and constants.
  each(merge_equal);
  done("merge_equal");
  // Transposes at the border that the user asked for, before anything decides on orders.
  pin_layouts(*core_model.graphs[0], options.layouts);
  done("pin_layouts");
  // Batch normalisation, biases and activations go into the ops before them, while each convolution still stands alone
  // with its two transposes: afterwards there is less to settle.
  each(fuse);
  done("fuse");
  // Every value gets the axis order that moves the fewest bytes at run time.
  each(settle_layouts);
  done("settle_layouts");
  // Once more for what became neighbours by it: pads before convolutions, reshapes in a row.
  each(fuse);
  done("fuse_again");
  // What patterns were sought in, and no kernel computes, is written out.
  each(expand_erf);
  done("expand_erf");
  // Settling and fusing make equal constants and transposes too.
  each(merge_equal);
  done("merge_equal_again");
  // Infinities of masks that an output shows survive the kernels' clamping additions.
  each(keep_infinities);
  done("keep_infinities");
  // Products that take a weight as it is stored, where weights shall stay in their files.
  if (options.weights.form == WeightForm::kInPlace) each(keep_weights);
  done("keep_weights");
  // What kernels insist on: a bias, even of zeros; element types and ranks that they take. Late, because the casts and
  // reshapes that it puts between the ops would hide them from the passes above.
  each([&](core::Graph& graph) {
    for (const stream::Unsupported& refused : legalise(graph)) result.refused.push_back(refused);
  });
  if (!result.refused.empty()) return result;
  done("legalise");
  // The types in which weights are stored: when ops, types and layouts are final, because each kernel has rules of its
  // own for them. For scales their bytes are read here, the first of two times.
  result.weights = shrink_weights(core_model, source, options.weights);
  done("shrink_weights");
  // Each output gets an op and a name of its own; last, because every pass before may make two of them one.
  each([&](core::Graph& graph) { separate_outputs(graph, &graph == core_model.graphs[0].get()); });
  done("separate_outputs");
  // Copies where LiteRT's memory planner would overwrite what is still needed: a fact of the finished graph.
  each(separate_aliases);
  done("separate_aliases");
  return result;
}

}  // namespace lowtide::layout
