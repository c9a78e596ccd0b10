// SPDX-License-Identifier: Apache-2.0
// BATCH_MATMUL of a TRANSPOSE's result by itself. XNNPACK makes BATCH_MATMUL(a, TRANSPOSE(x)) a product by the
// transposed operand, for which its TRANSPOSE swaps the last two axes as well, where no other operator reads what
// TRANSPOSE gives. It counts operators (num_consumers in xnn_subgraph_analyze_consumers_and_producers), so that one
// which reads it as both operands is one: the left operand is swapped too, and the numbers are wrong. Here each operand
// gets a TRANSPOSE of its own, the right one in the form that XNNPACK would produce, so that it changes nothing:
//
//     t = TRANSPOSE(x, [0,2,1,3]), BATCH_MATMUL(t, t)
//         becomes   BATCH_MATMUL(TRANSPOSE(x, [0,2,1,3]), TRANSPOSE(x, [0,2,3,1]), adj_y)
//
// A RESHAPE of t to its own shape would do as well, as long as XNNPACK does not remove it, as it removes some.
#include <algorithm>
#include <utility>
#include <variant>

#include "layout/plain/plain.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

bool separate_operands(Rewriter& rewriter, OpId id) {
  const Op product = rewriter.op(id);
  const auto& options = std::get<core::BatchMatmulOptions>(product.options);
  const ValueId both = product.inputs[0];
  // XNNPACK leaves the right operand as it is where adj_y is set, and the product to other kernels where adj_x is.
  if (product.inputs[1] != both || options.adj_x || options.adj_y) return false;
  const OpId producer = rewriter.producer(both);
  if (producer < 0 || rewriter.op(producer).kind != Kind::kTranspose || rewriter.uses(both) != 2) return false;
  const Op transpose = rewriter.op(producer);
  const auto order = rewriter.graph.ints(transpose.inputs[1]);
  if (!order || order->size() < 2) return false;
  core::Perm swapped(order->begin(), order->end());
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  rewriter.b.origin = transpose.origin;
  const Val right = rewriter.b.transpose({transpose.inputs[0]}, swapped);
  rewriter.graph.at(right.id).quantization = rewriter.value(both).quantization;  // TRANSPOSE keeps scales
  rewriter.note_new_ops();
  std::get<core::BatchMatmulOptions>(rewriter.op(id).options).adj_y = true;
  rewriter.set_input(id, 1, right.id);
  return true;
}

}  // namespace

void plain_squares(core::Graph& graph) { core::apply_rule(graph, Kind::kBatchMatmul, separate_operands); }

}  // namespace lowtide::layout
