// SPDX-License-Identifier: Apache-2.0
// A RESHAPE between TRANSPOSE and the right operand of BATCH_MATMUL. XNNPACK makes BATCH_MATMUL(a, TRANSPOSE(b)) a
// product by the transposed operand (optimize_common_subgraphs_gemm_rhs_transpose), for which its TRANSPOSE swaps the
// last two axes as well. That pays for keys, whose last axis TRANSPOSE moves anyway, unless they are few. Of values
// TRANSPOSE moves whole rows, and would move single elements. Transposed with one axis of extent 1 less or more, and
// reshaped, operands stay as they are written:
//
//     [1,N,H,D] -> TRANSPOSE [1,H,N,D]      becomes      [N,H,D] -> TRANSPOSE [H,N,D] -> RESHAPE [1,H,N,D]
//
// Measured with ai-edge-litert 2.3.0 and one thread, TRANSPOSE and BATCH_MATMUL together, microseconds before and
// after:
//
//     heads, queries, size, keys     values         keys
//     4, 5, 8, 50                  2.56   2.22    1.78   1.23
//     12, 16, 64, 16               9.61   8.94    15.7   13.6
//     8, 64, 80, 1024              1641   1388    1244   1303    keys stay
//     16, 1, 64, 512                414    226     223    367    keys stay
//     12, 197, 64, 197              639    640     756    765    both stay: the product of many queries takes the time
#include <algorithm>
#include <optional>

#include "layout/plain/plain.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

using core::Perm;
using core::Shape;

constexpr uint64_t kSmall = 16384;   // elements, that is 64 KiB
constexpr int64_t kFewQueries = 64;  // with more the product takes most of the time

// The shape and order with one axis of extent 1 in front less, or more of a tensor that has three axes.
struct OtherRank {
  Shape shape;
  Perm perm;
};
std::optional<OtherRank> other_rank(const Shape& shape, const Perm& perm) {
  OtherRank out{shape, perm};
  if (shape.size() == 3) {
    out.shape.insert(out.shape.begin(), 1);
    for (int& axis : out.perm) ++axis;
    out.perm.insert(out.perm.begin(), 0);
    return out;
  }
  if (shape.size() != 4 || shape[0] != 1 || perm[0] != 0) return std::nullopt;
  out.shape.erase(out.shape.begin());
  out.perm.erase(out.perm.begin());
  for (int& axis : out.perm) --axis;
  return out;
}

bool keep_transpose(Rewriter& rewriter, OpId id) {
  const Op product = rewriter.op(id);
  const ValueId right = product.inputs[1];
  if (std::get<core::BatchMatmulOptions>(product.options).adj_y || !is_float(rewriter, right)) return false;
  const OpId producer = rewriter.sole_producer(right, Kind::kTranspose);
  if (producer < 0) return false;
  const Op transpose = rewriter.op(producer);
  const Shape from = rewriter.value(transpose.inputs[0]).shape, to = rewriter.value(right).shape;
  const auto order = rewriter.graph.ints(transpose.inputs[1]);
  if (!order || order->size() != from.size() || from.size() < 3) return false;
  const auto other = other_rank(from, Perm(order->begin(), order->end()));
  if (!other || !can_reshape_to(from) || !can_reshape_to(to)) return false;
  const bool moves_rows = order->back() == static_cast<int64_t>(from.size()) - 1;
  const core::Dim queries = rewriter.b.dim({product.outputs[0]}, -2);
  const bool are_many = stream::is_static(queries) && queries > kFewQueries;
  if (are_many || !(moves_rows || stream::has_at_most(kSmall, to))) return false;
  core::Builder& b = rewriter.b;
  b.origin = transpose.origin;
  const OpId split = rewriter.sole_producer(transpose.inputs[0], Kind::kReshape);
  const Val source{split < 0 ? transpose.inputs[0] : rewriter.op(split).inputs[0]};
  replace_result(rewriter, right, b.reshape(b.transpose(b.reshape(source, other->shape), other->perm), to));
  return true;
}

}  // namespace

void plain_products(core::Graph& graph) { core::apply_rule(graph, Kind::kBatchMatmul, keep_transpose); }

}  // namespace lowtide::layout
