// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/expand_erf.h"

#include <cmath>

#include "layout/core/builder.h"
#include "layout/core/replacements.h"

namespace lowtide::layout {
namespace {

using core::Builder;
using core::Graph;
using core::Kind;
using core::Op;
using core::Val;

// GELU contains ERF: gelu(y) = y/2 (1 + erf(y / sqrt 2)), so erf(x) = 2 gelu(y)/y - 1 with
// y = sqrt(2) x. The quotient is 0/0 at 0 and inf/inf for large x: near 0 erf is 2x/sqrt(pi) (an error of 4e-10 at the
// limit), and from |x| = 4 on it is +-1 in f32. Elsewhere the error is that of two roundings near 1, 2.5e-7.
Val erf_of(Builder& b, Val x) {
  constexpr double kNearZero = 1e-3, kSaturated = 4;
  Val clipped = b.relu_n1_to_1(b.mul(x, 1 / kSaturated));
  Val y = b.mul(clipped, kSaturated * std::sqrt(2.0));
  Val far = b.sub(b.div(b.mul(b.gelu(y, false), 2), y), 1);
  Val near = b.mul(x, 2 / std::sqrt(M_PI));
  return b.select(b.less(b.abs(x), b.scalar_like(kNearZero, x)), near, far);
}

}  // namespace

void expand_erf(Graph& graph) {
  Builder b(graph);
  core::Replacements replacements(graph);
  const size_t op_count = graph.ops.size();
  for (size_t i = 0; i < op_count; ++i) {
    if (graph.ops[i].kind != Kind::kErf) continue;
    const Op op = replacements.now(graph.ops[i]);
    b.origin = op.origin;
    const Val made = erf_of(b, {op.inputs[0]});
    graph.at(made.id).name = graph.at(op.outputs[0]).name;
    graph.at(op.outputs[0]).name.clear();
    graph.ops[i].kind = Kind::kDead;
    replacements.note(op.outputs[0], made.id);
  }
  replacements.apply();
  graph.tidy();
}

}  // namespace lowtide::layout
