// The pipeline, from top to bottom, one line a pass, the reason beside it. A pass is a free function on the graph; none
// undoes another.
#include "layout/convert.h"

#include "layout/fuse.h"
#include "layout/inline_functions.h"
#include "layout/keep_infinities.h"
#include "layout/legalise.h"
#include "layout/lower_graph.h"
#include "layout/merge_equal.h"
#include "layout/outputs.h"
#include "layout/pin_layouts.h"
#include "layout/settle_layouts.h"

namespace lowtide::layout {

ConvertResult convert(const onnx::Model& model, const ConvertOptions& options, stream::Budget& budget) {
  ConvertResult result;
  result.model = std::make_unique<core::Model>(budget);
  core::Model& core_model = *result.model;
  core_model.graphs.push_back(std::make_unique<core::Graph>(core_model.symbols, budget));
  core::Graph& graph = *core_model.graphs[0];
  auto done = [&](std::string_view pass) {
    graph.tidy();
    if (options.after_pass) options.after_pass(pass, core_model);
  };

  // Calls of the model's own functions become their bodies, so that no lowering meets one.
  const bool has_functions = !model.functions.empty();
  const onnx::Model inlined = has_functions ? inline_functions(model) : onnx::Model();
  // ONNX nodes become core ops, in ONNX's axis order; from here on nothing is ONNX's any more.
  result.refused = lower_graph(has_functions ? inlined : model, options.shapes, graph).refused;
  if (!result.refused.empty()) return result;
  done("lower");
  // Equal subexpressions once: exporters repeat shape arithmetic, masks, and constants.
  merge_equal(graph);
  done("merge_equal");
  // Transposes at the border that the user asked for, before anything decides on orders.
  pin_layouts(graph, options.layouts);
  done("pin_layouts");
  // Batch normalisation, biases and activations go into the ops before them, while each convolution still stands alone
  // with its two transposes: afterwards there is less to settle.
  fuse(graph);
  done("fuse");
  // Every value gets the axis order that moves the fewest bytes at run time.
  settle_layouts(graph);
  done("settle_layouts");
  // Once more for what became neighbours by it: pads before convolutions, reshapes in a row.
  fuse(graph);
  done("fuse_again");
  // Settling and fusing make equal constants and transposes too.
  merge_equal(graph);
  done("merge_equal_again");
  // Infinities of masks that an output shows survive the kernels' clamping additions.
  keep_infinities(graph);
  done("keep_infinities");
  // What kernels insist on: a bias, even of zeros; element types and ranks that they take. Late, because the casts and
  // reshapes that it puts between the ops would hide them from the passes above.
  result.refused = legalise(graph);
  if (!result.refused.empty()) return result;
  done("legalise");
  // Each output gets an op and a name of its own; last, because every pass before may make two of them one.
  separate_outputs(graph);
  done("separate_outputs");
  return result;
}

}  // namespace lowtide::layout
