// SPDX-License-Identifier: Apache-2.0
// BATCH_MATMUL of a constant on the left: "Not supported batched mat mul case: non-constant tensor". The delegate takes
// it on the right:
//
//     C x Y        becomes        TRANSPOSE(TRANSPOSE(Y) x TRANSPOSE(C))
//
// By FULLY_CONNECTED if C is one matrix; else in four axes, the first of them 1, and the others as Y's: in other cases,
// as in three axes, the delegate computes wrong numbers.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

Val transposed(core::Builder& b, Val x) {
  core::Perm perm = stream::identity_perm(b.rank(x));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.transpose(x, perm);
}

bool put_constant_right(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId constant = op.inputs[0], other = op.inputs[1];
  if (!rewriter.is_foldable(constant) || rewriter.value(other).is_constant()) return false;
  if (!is_float(rewriter, constant) || !is_float(rewriter, other)) return false;
  if (rewriter.value(constant).rank() < 2 || rewriter.value(other).rank() < rewriter.value(constant).rank())
    return false;
  const core::Shape held = rewriter.value(constant).shape, shape = rewriter.value(other).shape;
  const std::span batches = std::span(held).first(held.size() - 2);
  const bool is_matrix = std::all_of(batches.begin(), batches.end(), [](core::Dim dim) { return dim == 1; });
  const bool has_three_axes = held.size() == 3;
  const bool has_same_heads = (has_three_axes || (held.size() == 4 && held[0] == 1)) &&
                              std::equal(batches.begin(), batches.end(), shape.begin(), shape.end() - 2);
  if (!is_matrix && !(has_same_heads && stream::is_static(shape))) return false;
  const auto& options = std::get<core::BatchMatmulOptions>(op.options);
  core::Builder& b = rewriter.b;
  b.origin = op.origin;
  Val right{other}, matrix{constant};
  if (has_three_axes && !is_matrix) {
    right = b.reshape(right, {1, shape[0], shape[1], shape[2]});
    matrix = b.reshape(matrix, {1, held[0], held[1], held[2]});
  }
  const Val left = options.adj_y ? right : transposed(b, right);
  if (options.adj_x) matrix = transposed(b, matrix);  // [..., rows, depth]
  Val made = is_matrix ? b.fully_connected(left, b.reshape(matrix, {b.dim(matrix, -2), b.dim(matrix, -1)}), {}, true)
                       : b.batch_matmul(left, transposed(b, matrix), false, false);
  made = transposed(b, made);
  if (has_three_axes && !is_matrix) made = b.reshape(made, rewriter.value(op.outputs[0]).shape);
  replace_result(rewriter, op.outputs[0], made);
  return true;
}

constexpr std::array kGpuProductRules = {PlainRule{Kind::kBatchMatmul, put_constant_right}};

}  // namespace

std::span<const PlainRule> gpu_product_rules() { return kGpuProductRules; }

}  // namespace lowtide::layout
