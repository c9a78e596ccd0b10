// SPDX-License-Identifier: Apache-2.0
// CUMSUM as GPU delegates compute it. Of integers: "Input/output must be float type". And LiteRT's delegate does not
// look at `exclusive` and `reverse`, and sums wrongly along the first axis of fewer than four, and of one batch.
#include <algorithm>
#include <array>
#include <vector>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

int summed_axis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

constexpr core::Dim kExact = 1 << 24;        // f32 counts so far
constexpr core::Dim kMostCounted = 1 << 20;  // of tables and shifts: all of kTurns together, doubled, are below kExact
constexpr int kTurns = 6;

bool is_small_constant(Rewriter& rewriter, ValueId id) {
  if (!rewriter.is_foldable(id)) return false;
  const auto numbers = rewriter.graph.ints(id);
  return numbers && std::all_of(numbers->begin(), numbers->end(),
                                [](int64_t n) { return n >= -kMostCounted && n <= kMostCounted; });
}

// x + n or x - n.
bool is_shift_of(Rewriter& rewriter, OpId id, ValueId x) {
  const Op& op = rewriter.op(id);
  if (op.kind != Kind::kAdd && op.kind != Kind::kSub) return false;
  return (op.inputs[0] == x && is_small_constant(rewriter, op.inputs[1])) ||
         (op.inputs[1] == x && is_small_constant(rewriter, op.inputs[0]));
}

// Whether each of the integers is looked up in a table of limited length, perhaps after a shift: then all of them are
// small, because ONNX gives no result for an index outside.
bool are_looked_up(Rewriter& rewriter, ValueId id, int turns = kTurns) {
  if (turns == 0) return false;
  for (const OpId user : rewriter.users(id)) {
    const Op& op = rewriter.op(user);
    if (op.kind == Kind::kGather && op.inputs[1] == id && op.inputs[0] != id) {
      const auto& options = std::get<core::GatherOptions>(op.options);
      const core::Shape& shape = rewriter.value(op.inputs[0]).shape;
      const auto axis =
          static_cast<size_t>(options.axis < 0 ? options.axis + static_cast<int>(shape.size()) : options.axis);
      if (!core::is_symbol(shape[axis]) && shape[axis] <= kMostCounted) return true;
    }
    // SELECT(x < 0, x + n, x): the index made positive.
    const bool is_made_positive = op.kind == Kind::kSelectV2 && op.inputs[2] == id &&
                                  rewriter.producer(op.inputs[1]) >= 0 &&
                                  is_shift_of(rewriter, rewriter.producer(op.inputs[1]), id);
    const bool is_moved = op.kind == Kind::kReshape && op.inputs[0] == id;
    if ((is_made_positive || is_moved || is_shift_of(rewriter, user, id)) &&
        are_looked_up(rewriter, op.outputs[0], turns - 1))
      return true;
  }
  return false;
}

// Whether all sums are small. y = cumsum(x), and y * x is looked up: where x is not 0, y is not larger than y * x;
// where it is 0, y is as before. x is the difference of two sums.
bool are_sums_small(Rewriter& rewriter, const Op& op, ValueId data) {
  if (std::get<core::CumsumOptions>(op.options).exclusive) return false;
  const auto& users = rewriter.users(op.outputs[0]);
  return std::any_of(users.begin(), users.end(), [&](OpId user) {
    const Op& product = rewriter.op(user);
    if (product.kind != Kind::kMul) return false;
    const bool is_of_both = (product.inputs[0] == data && product.inputs[1] == op.outputs[0]) ||
                            (product.inputs[1] == data && product.inputs[0] == op.outputs[0]);
    return is_of_both && are_looked_up(rewriter, product.outputs[0]);
  });
}

// CUMSUM of integers that are 0 or 1, or whose sums are small for another reason, as exporters count tokens: in floats,
// which are exact up to 2^24.
bool count_in_floats(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  core::Builder& b = rewriter.b;
  const core::Value& data = rewriter.value(op.inputs[0]);
  const core::DType dtype = data.dtype;
  const auto axis = rewriter.graph.ints(op.inputs[1]);
  if (!axis || !stream::is_integer(dtype)) return false;
  const int place = summed_axis(axis->front(), data.rank());
  const core::Dim extent = data.shape[static_cast<size_t>(place)];
  Val counted{op.inputs[0]};
  const OpId cast = rewriter.producer(counted.id);
  if (cast >= 0 && rewriter.op(cast).kind == Kind::kCast) counted = {rewriter.op(cast).inputs[0]};
  const bool are_few =
      rewriter.value(counted.id).dtype == core::DType::kBool && !core::is_symbol(extent) && extent <= kExact;
  if (!are_few && !are_sums_small(rewriter, op, op.inputs[0])) return false;
  if (!are_few) counted = {op.inputs[0]};
  const auto options = std::get<core::CumsumOptions>(op.options);
  b.origin = op.origin;
  const Val sums = b.cumsum(b.cast(counted, core::DType::kFloat32), place, options.exclusive, options.reverse);
  replace_result(rewriter, op.outputs[0], b.cast(sums, dtype));
  return true;
}

// Sums of floats: forwards, with the element's own, along another axis than the first of fewer than four.
bool sum_plainly(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  core::Builder& b = rewriter.b;
  const core::Shape result = rewriter.value(op.inputs[0]).shape;
  const auto number = rewriter.graph.ints(op.inputs[1]);
  if (!number || !is_float(rewriter, op.inputs[0]) || !stream::is_static(result) || result.size() > 4) return false;
  auto axis = static_cast<size_t>(summed_axis(number->front(), static_cast<int>(result.size())));
  const auto options = std::get<core::CumsumOptions>(op.options);
  const bool is_single = result[axis] == 1, is_first = axis == 0 && result.size() < 4;
  if (!options.exclusive && !options.reverse && !is_single && !is_first) return false;
  b.origin = op.origin;
  // Zeros of any number would be a constant of that size: larger ones are made below, without a sum.
  if (is_single && (!options.exclusive || stream::has_at_most(stream::kSmallElements, result))) {
    const Val sum = options.exclusive ? b.filled(0, core::DType::kFloat32, result) : Val{op.inputs[0]};
    replace_result(rewriter, op.outputs[0], sum);
    return true;
  }
  Val x{op.inputs[0]};
  core::Shape shape = result;
  if (is_first) {
    shape.insert(shape.begin(), 1);
    axis = 1;
    x = b.reshape(x, shape);
  }
  const int along[] = {static_cast<int>(axis)};
  if (options.reverse) x = b.reverse(x, along);
  if (options.exclusive) {  // a zero comes in, and the last element goes
    std::vector<int64_t> before(shape.size(), 0), none(shape.size(), 0);
    before[axis] = 1;
    x = b.slice(b.pad(x, before, none, 0), none, shape);
  }
  if (!is_single) x = b.cumsum(x, along[0], false, false);
  if (options.reverse) x = b.reverse(x, along);
  replace_result(rewriter, op.outputs[0], b.reshape(x, result));
  return true;
}

constexpr std::array kGpuSumRules = {PlainRule{Kind::kCumsum, count_in_floats}, PlainRule{Kind::kCumsum, sum_plainly}};

}  // namespace

std::span<const PlainRule> gpu_sum_rules() { return kGpuSumRules; }

}  // namespace lowtide::layout
