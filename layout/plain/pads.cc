// SPDX-License-Identifier: Apache-2.0
// PAD of floats with short contiguous runs becomes PADV2 by zero. XNNPACK takes PAD and makes a call for each run; it
// leaves PADV2 to LiteRT's kernel, which copies rows. With a border of H and W a run is the channels of one pixel.
// Measured between two RELUs, all three together, with ai-edge-litert 2.3.0 and one thread:
//
//     [1,32,48,8] -> [1,33,49,8]         18.5 us with PAD, 4.6 us with PADV2
//     [1,112,112,64] -> [1,113,113,64]  368.9 us           239.9 us
//     [1,28,28,256] -> [1,29,29,256]     59.9 us            58.6 us
//
// PAD stays before convolutions, into which XNNPACK fuses it.
#include <algorithm>

#include "layout/plain/plain.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kShortRun = 64;       // elements; from 256 on both kernels take the same time
constexpr int64_t kFewRuns = 256;       // what fewer cost is less than XNNPACK's graph in two parts
constexpr int64_t kUnknownExtent = 16;  // taken for a dimension that is known at run time only: images are larger

// Elements behind the last axis that has a border; of that axis itself if it is the last one.
int64_t run_of(const core::Shape& padded, const std::vector<int64_t>& pads) {
  int64_t run = 1;
  for (size_t axis = padded.size(); axis-- > 0;) {
    const bool has_border = pads[2 * axis] != 0 || pads[2 * axis + 1] != 0;
    if (has_border && axis + 1 < padded.size()) break;
    if (!stream::is_static(padded[axis]) || padded[axis] > kShortRun) return kShortRun + 1;
    run *= std::max<int64_t>(padded[axis], 1);
    if (has_border || run > kShortRun) break;
  }
  return run;
}

bool has_many_runs(const core::Shape& padded, int64_t run) {
  const int64_t enough = kFewRuns * run;
  int64_t elements = 1;
  for (const core::Dim dim : padded)
    elements = std::min(elements * std::min(stream::is_static(dim) ? dim : kUnknownExtent, enough), enough);
  return elements == enough;
}

bool is_fused_by_xnnpack(Rewriter& rewriter, ValueId padded) {
  const std::vector<OpId>& users = rewriter.users(padded);
  if (users.size() != 1 || rewriter.uses(padded) != 1) return false;
  const Kind kind = rewriter.op(users[0]).kind;
  return kind == Kind::kConv2d || kind == Kind::kDepthwiseConv2d;
}

bool pad_in_rows(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId padded = op.outputs[0];
  const core::Shape shape = rewriter.value(padded).shape;
  const auto pads = rewriter.graph.ints(op.inputs[1]);
  if (!is_float(rewriter, padded) || !pads || pads->size() != 2 * shape.size()) return false;
  const int64_t run = run_of(shape, *pads);
  if (run > kShortRun || !has_many_runs(shape, run) || is_fused_by_xnnpack(rewriter, padded)) return false;
  rewriter.b.origin = op.origin;
  const Val zero = rewriter.b.scalar_like(0, {op.inputs[0]});
  replace_result(rewriter, padded, rewriter.b.op(Kind::kPadv2, {Val{op.inputs[0]}, Val{op.inputs[1]}, zero}));
  return true;
}

}  // namespace

void plain_pads(core::Graph& graph) { core::apply_rule(graph, Kind::kPad, pad_in_rows); }

}  // namespace lowtide::layout
