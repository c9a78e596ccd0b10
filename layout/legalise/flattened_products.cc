// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/flattened_products.h"

#include <algorithm>

#include "layout/core/rewriter.h"

namespace lowtide::layout {
namespace {

using core::FullyConnectedOptions;
using core::Kind;
using core::Op;
using core::OpId;
using core::Rewriter;
using core::ValueId;

constexpr int kDelegatesAxes = 4;  // of inputs that GPU delegates take

// [N,1,1,C] -> [N,C]. A flattening that merges axes stays: LiteRT's GPU delegate reads the weights' columns along the
// last axis alone, and computes wrong numbers where the product is along several, of floats and of i8 (docs/gpu.md).
// Not of u8: there it takes no product at all, and all processors' kernels are right.
bool is_flattening(const core::Value& in, const core::Value& out) {
  if (out.rank() != 2 || in.rank() <= 2 || in.rank() > kDelegatesAxes || in.is_constant()) return false;
  const bool is_unsigned = in.dtype == core::DType::kUint8 && in.quantization;
  return in.shape.front() == out.shape.front() && (is_unsigned || in.shape.back() == out.shape.back()) &&
         in.dtype == out.dtype && in.quantization == out.quantization;
}

bool is_product_of(Rewriter& rewriter, OpId id, ValueId flat) {
  const Op& op = rewriter.op(id);
  return op.kind == Kind::kFullyConnected && op.inputs[0] == flat && op.inputs[1] != flat &&
         rewriter.is_foldable(op.inputs[1]) && rewriter.value(op.outputs[0]).rank() == 2;
}

bool flatten_in_product(Rewriter& rewriter, OpId id) {
  const ValueId in = rewriter.op(id).inputs[0], flat = rewriter.op(id).outputs[0];
  if (!is_flattening(rewriter.value(in), rewriter.value(flat))) return false;
  const std::vector<OpId> users = rewriter.users(flat);
  if (users.empty() || rewriter.uses(flat) != static_cast<int>(users.size())) return false;
  if (!std::all_of(users.begin(), users.end(), [&](OpId user) { return is_product_of(rewriter, user, flat); }))
    return false;
  for (const OpId user : users) std::get<FullyConnectedOptions>(rewriter.op(user).options).keep_num_dims = false;
  rewriter.replace(flat, in, rewriter.op(users.front()).origin);
  return true;
}

}  // namespace

void flatten_in_products(core::Graph& graph) { core::apply_rule(graph, Kind::kReshape, flatten_in_product); }

}  // namespace lowtide::layout
