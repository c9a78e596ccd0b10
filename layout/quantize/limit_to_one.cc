// SPDX-License-Identifier: Apache-2.0
// Clip to 0 and 1 in integers: QUANTIZE(RELU_0_TO_1(x)) becomes MINIMUM(MAXIMUM(QUANTIZE(x), 0), 1), without the limits
// that the grid has itself. Exact, because both limits are numbers of the grid or its ends; the integer kernel of
// RELU_0_TO_1 gives other numbers.
#include <cmath>
#include <utility>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/quantize/known_ranges.h"
#include "layout/quantize/rules.h"

namespace lowtide::layout {
namespace {

constexpr int kLimitAxes = 4;  // MAXIMUM and MINIMUM of integers broadcast no more

// Whether a float is dequantized, or computed from such ones by an op that has integer kernels.
bool comes_from_integers(Rewriter& rewriter, ValueId id) {
  if (dequantized(rewriter, id) != core::kAbsent) return true;
  const OpId producer = rewriter.producer(id);
  if (producer < 0 || rewriter.uses(id) != 1) return false;
  const Op& op = rewriter.op(producer);
  if (op.stays_float || core::builtin(op.kind).integers == core::Integers::kNone) return false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!is_data_input(op, i)) continue;
    if (!rewriter.value(op.inputs[i]).is_constant() && dequantized(rewriter, op.inputs[i]) == core::kAbsent)
      return false;
  }
  return true;
}

bool limit_to_one(Rewriter& rewriter, OpId id, bool only_integers) {
  const ValueId limited = rewriter.op(id).inputs[0];
  const auto to = grid_of(rewriter.value(rewriter.op(id).outputs[0]));
  const OpId producer = rewriter.producer(limited);
  if (!to || !has_kernels(*to) || producer < 0 || rewriter.op(producer).kind != Kind::kRelu0To1) return false;
  if (rewriter.op(producer).stays_float) return false;
  const ValueId in = rewriter.op(producer).inputs[0];
  const std::vector<OpId> users = rewriter.users(limited);
  if (rewriter.value(in).dtype != DType::kFloat32 || rewriter.value(in).rank() > kLimitAxes ||
      static_cast<int>(users.size()) != rewriter.uses(limited))
    return false;
  for (const OpId user : users)
    if (rewriter.op(user).kind != Kind::kQuantize || grid_of(rewriter.value(rewriter.op(user).outputs[0])) != to)
      return false;
  if (only_integers ? dequantized(rewriter, in) == core::kAbsent : !comes_from_integers(rewriter, in)) return false;
  rewriter.b.origin = rewriter.op(producer).origin;
  const core::Shape shape = rewriter.value(in).shape;
  ValueId made = quantized_to(rewriter, in, *to);
  auto limit = [&](Kind kind, double number) {
    const ValueId constant = rewriter.b.scalar_like(number, Val{in}).id;
    Op op{.kind = kind, .inputs = {made, constant_on_grid(rewriter, constant, *to)}, .origin = rewriter.b.origin};
    made = push_on_grid(rewriter, std::move(op), *to, shape);
  };
  const int bits = stream::bits(to->dtype);
  const double least = stream::is_signed_int(to->dtype) ? -std::ldexp(1.0, bits - 1) : 0;
  const double most = least + std::ldexp(1.0, bits) - 1, zero = static_cast<double>(to->zero);
  if (zero > least) limit(Kind::kMaximum, 0);
  if (std::nearbyint(1 / to->scale) + zero < most) limit(Kind::kMinimum, 1);
  for (const OpId user : users) rewriter.replace(rewriter.op(user).outputs[0], made);
  return true;
}

}  // namespace

bool limit_integers_to_one(Rewriter& rewriter, OpId id) { return limit_to_one(rewriter, id, true); }
bool limit_to_one_in_integers(Rewriter& rewriter, OpId id) { return limit_to_one(rewriter, id, false); }

}  // namespace lowtide::layout
