// SPDX-License-Identifier: Apache-2.0
// Reshape, Flatten, Squeeze, Unsqueeze.
//
// Difference: 0 in the shape means "as in the input" in ONNX (unless allowzero) and zero in TFLite.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// A shape known at run time only, with every 0 replaced by the dimension of x.
Val with_zeros_replaced(Lowering& lo, Val x, Val wanted) {
  const Dim count = lo.b.dim(wanted, 0);
  if (core::is_symbol(count)) lo.unsupported("a Reshape whose rank is known at run time only is not supported");
  Val own = lo.b.shape_of(x);
  if (count > lo.rank(x)) {
    const int64_t more = count - lo.rank(x);
    own = lo.b.concat({own, lo.b.filled(0, DType::kInt32, {more})}, 0);
  }
  const int64_t begin = 0;
  own = lo.b.slice(own, {&begin, 1}, {&count, 1});
  return lo.b.select(lo.b.equal(wanted, lo.b.scalar_like(0, wanted)), own, wanted);
}

// The value of -1 in a shape; nullopt when it cannot be determined.
std::optional<Dim> inferred_dim(Lowering& lo, Val x, std::vector<Dim> others) {
  core::Symbols& symbols = lo.b.graph.symbols;
  const Dim total = symbols.product(lo.shape(x)), rest = symbols.product(others);
  if (rest == 0) lo.malformed("the shape must not contain -1 together with a dimension of 0");
  auto exact = symbols.exact_div(total, rest);
  if (!exact && !core::is_symbol(total) && !core::is_symbol(rest))
    lo.malformed("an input of " + std::to_string(total) + " elements cannot be reshaped: the given dimensions " +
                 stream::to_string(others) + " do not divide it");
  return exact;
}

void reshape_known(Lowering& lo, Val x, std::vector<Dim> wanted, bool allow_zero, Val run_time_shape) {
  std::vector<size_t> open;
  bool copies = false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == -1) open.push_back(i);
    if (wanted[i] < -1 && !core::is_symbol(wanted[i]))
      lo.malformed("the shape must not contain numbers below -1; it contains " + std::to_string(wanted[i]));
    if (wanted[i] != 0 || allow_zero) continue;
    if (i >= lo.shape(x).size())
      lo.malformed("the shape has a 0 at axis " + std::to_string(i) + ", but the input has only " +
                   std::to_string(lo.shape(x).size()) + " axes to copy from");
    wanted[i] = lo.shape(x)[i];
    copies = true;
  }
  if (open.size() > 1) lo.malformed("the shape must not contain more than one -1");
  if (!open.empty()) {
    std::vector<Dim> others = wanted;
    others.erase(others.begin() + static_cast<ptrdiff_t>(open[0]));
    if (auto rest = inferred_dim(lo, x, others)) wanted[open[0]] = *rest;
  }
  if (open.empty() || wanted[open[0]] != -1) {
    try {
      lo.output(0, reshape_to(lo, x, wanted));
      return;
    } catch (const stream::Unsupported&) {
      if (copies || !run_time_shape) throw;  // else use the shape that the graph computes
    }
  }
  Val shape = copies || !run_time_shape ? lo.b.dims(wanted) : as_i32_clamped(lo, run_time_shape);
  Val out = lo.b.op(Kind::kReshape, {x, shape});
  lo.output(0, out);
}

}  // namespace

void lower_reshape(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.opset() < 5) {
    lo.ignore_attr("consumed_inputs");  // a hint of opset 1 to reuse memory
    auto shape = lo.attr_ints("shape");
    if (!shape) lo.malformed("attribute 'shape' is missing");
    reshape_known(lo, x, *shape, false, {});
    return;
  }
  Val wanted = lo.input(1);
  if (lo.rank(wanted) != 1)
    lo.malformed("input 1 ('shape') must have rank 1; it has rank " + std::to_string(lo.rank(wanted)));
  const bool allow_zero = lo.opset() >= 14 && lo.attr_i("allowzero", 0) == 1;
  if (auto known = lo.dims(wanted)) {
    reshape_known(lo, x, *known, allow_zero, wanted);
    return;
  }
  Val shape = as_i32_clamped(lo, wanted);
  lo.output(0, lo.b.op(Kind::kReshape, {x, allow_zero ? shape : with_zeros_replaced(lo, x, shape)}));
}

void lower_flatten(Lowering& lo) {
  Val x = lo.input(0);
  const int rank = lo.rank(x);
  int64_t axis = lo.attr_i("axis", 1);
  if (axis < -rank || axis > rank)
    lo.malformed("attribute 'axis' is out of range for an input of rank " + std::to_string(rank) + "; it is " +
                 std::to_string(axis));
  if (axis < 0) axis += rank;
  const std::span<const Dim> dims(lo.shape(x));
  core::Symbols& symbols = lo.b.graph.symbols;
  const Dim target[] = {symbols.product(dims.first(static_cast<size_t>(axis))),
                        symbols.product(dims.subspan(static_cast<size_t>(axis)))};
  lo.output(0, reshape_to(lo, x, target));
}

namespace {

// Axes known at run time only: the model computes the new shape, the dimensions of the other axes.
Val squeeze_at_run_time(Lowering& lo, Val x, Val axes) {
  if (lo.rank(axes) != 1) lo.malformed(fmt::format("input 1 ('axes') must have rank 1; it has rank {}", lo.rank(axes)));
  const Dim count = lo.need_static(lo.b.dim(axes, 0), "the number of axes");
  if (count > lo.rank(x))  // some are listed twice: the rank of the result is not known
    lo.unsupported(fmt::format("a Squeeze by a list of {} axes that is known at run time only is not supported for an "
                               "input of rank {}",
                               count, lo.rank(x)),
                   "make 'axes' an initializer");
  axes = lo.b.cast(axes, DType::kInt32);
  const Val stays = lo.b.equal(times_listed(lo, axes, lo.rank(x)), lo.b.i32_scalar(0));
  const Val kept = places_of(lo, stays, lo.rank(x) - count, count);
  return lo.b.op(Kind::kReshape, {x, lo.b.gather_nd(lo.b.shape_of(x), kept)});
}

}  // namespace

void lower_squeeze(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.opset() >= 13 && lo.has_input(1) && !lo.ints(lo.input(1))) {
    lo.output(0, squeeze_at_run_time(lo, x, lo.input(1)));
    return;
  }
  std::optional<std::vector<int64_t>> axes;
  if (lo.opset() < 13)
    axes = lo.attr_ints("axes");
  else if (lo.has_input(1))
    axes = lo.need_ints(lo.input(1), "axes");
  std::vector<int> drop;
  if (axes && !axes->empty()) {
    drop = lo.axis_set(*axes, lo.rank(x));
  } else {
    for (int axis = 0; axis < lo.rank(x); ++axis) {
      if (lo.need_static(lo.b.dim(x, axis), "a dimension that Squeeze without axes may remove") == 1)
        drop.push_back(axis);
    }
  }
  for (int axis : drop)
    if (Dim dim = lo.b.dim(x, axis); dim != 1 && !core::is_symbol(dim))
      lo.malformed("axis " + std::to_string(axis) + " must have size 1 to be removed; it has " + std::to_string(dim));
  lo.output(0, squeeze_axes(lo, x, drop));
}

namespace {

// New axes known at run time only: the model computes a shape with 1 there and the input's dimensions elsewhere.
Val unsqueeze_at_run_time(Lowering& lo, Val x, Val axes) {
  constexpr Dim kMostAxes = 8;                                               // that RESHAPE's kernel takes
  if (lo.rank(axes) == 0) axes = lo.b.reshape(axes, std::array<Dim, 1>{1});  // as ONNX Runtime takes it
  if (lo.rank(axes) != 1)
    lo.malformed(fmt::format("input 1 ('axes') must have rank 0 or 1; it has rank {}", lo.rank(axes)));
  const Dim count = lo.need_static(lo.b.dim(axes, 0), "the number of axes");
  if (count > kMostAxes - lo.rank(x))
    lo.unsupported(fmt::format("an Unsqueeze by {} axes to rank {} is not supported: the highest rank is {}", count,
                               lo.rank(x) + count, kMostAxes));
  const int rank = lo.rank(x) + static_cast<int>(count);
  axes = lo.b.cast(axes, DType::kInt32);
  const Val stays = lo.b.equal(times_listed(lo, axes, rank), lo.b.i32_scalar(0));
  const Val places = lo.b.cast(places_of(lo, stays, lo.rank(x), count), DType::kInt32);
  Val own = lo.b.scatter_nd(places, lo.b.sub(lo.b.shape_of(x), lo.b.i32_scalar(1)), lo.b.i32({rank}));
  return lo.b.op(Kind::kReshape, {x, lo.b.add(own, lo.b.i32_scalar(1))});
}

}  // namespace

void lower_unsqueeze(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.opset() >= 13 && !lo.ints(lo.input(1))) {
    lo.output(0, unsqueeze_at_run_time(lo, x, lo.input(1)));
    return;
  }
  auto axes = lo.opset() < 13 ? lo.attr_ints("axes") : std::optional(lo.need_ints(lo.input(1), "axes"));
  if (!axes) lo.malformed("attribute 'axes' is missing");
  lo.output(0, unsqueeze_axes(lo, x, lo.axes(*axes, lo.rank(x) + static_cast<int>(axes->size()))));
}

}  // namespace lowtide::layout
