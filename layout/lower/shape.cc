// SPDX-License-Identifier: Apache-2.0
// Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Identity, Dropout, Shape, Size, Expand, Tile.
//
// How the specifications differ: in Reshape's shape ONNX writes 0 for "as in the input" (unless allowzero), TFLite
// means zero. Expand broadcasts both ways, BROADCAST_TO only from the data to the shape. Shape of ONNX may take a part.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

// A wanted shape that only the run knows, with every 0 replaced by the input's own dimension.
Val copied_zeros(Lowering& lo, Val x, Val wanted) {
  const Dim count = lo.b.dim(wanted, 0);
  if (core::is_symbol(count)) lo.unsupported("the rank of the result is only known at run time");
  Val own = lo.b.shape_of(x);
  if (count > lo.rank(x)) {
    const int64_t more = count - lo.rank(x);
    own = lo.b.concat({own, lo.b.filled(0, DType::kInt32, {more})}, 0);
  }
  const int64_t begin = 0;
  own = lo.b.slice(own, {&begin, 1}, {&count, 1});
  return lo.b.select(lo.b.equal(wanted, lo.b.scalar_like(0, wanted)), own, wanted);
}

// The -1 of a shape as what is left over, when that can be said.
std::optional<Dim> left_over(Lowering& lo, Val x, std::vector<Dim> others) {
  core::Symbols& symbols = lo.b.graph.symbols;
  const Dim total = symbols.product(lo.shape(x)), rest = symbols.product(others);
  if (rest == 0) lo.malformed("a -1 beside a dimension of 0 in the wanted shape");
  auto exact = symbols.exact_div(total, rest);
  if (!exact && !core::is_symbol(total) && !core::is_symbol(rest))
    lo.malformed(std::to_string(total) + " elements do not fit " + stream::to_string(others));
  return exact;
}

void reshape_known(Lowering& lo, Val x, std::vector<Dim> wanted, bool allow_zero, Val run_time_shape) {
  std::vector<size_t> open;
  bool copies = false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == -1) open.push_back(i);
    if (wanted[i] < -1 && !core::is_symbol(wanted[i])) lo.malformed("a dimension of " + std::to_string(wanted[i]));
    if (wanted[i] != 0 || allow_zero) continue;
    if (i >= lo.shape(x).size())
      lo.malformed("a 0 in the wanted shape at axis " + std::to_string(i) + " has no axis to copy");
    wanted[i] = lo.shape(x)[i];
    copies = true;
  }
  if (open.size() > 1) lo.malformed("more than one -1 in the wanted shape");
  if (!open.empty()) {
    std::vector<Dim> others = wanted;
    others.erase(others.begin() + static_cast<ptrdiff_t>(open[0]));
    if (auto rest = left_over(lo, x, others)) wanted[open[0]] = *rest;
  }
  if (open.empty() || wanted[open[0]] != -1) {
    try {
      lo.output(0, reshape_to(lo, x, wanted));
      return;
    } catch (const stream::Unsupported&) {
      if (copies || !run_time_shape) throw;  // else the shape that the graph computes itself will do
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
    lo.ignore_attr("consumed_inputs");  // in-place hints of opset 1
    auto shape = lo.attr_ints("shape");
    if (!shape) lo.malformed("attribute 'shape' is missing");
    reshape_known(lo, x, *shape, false, {});
    return;
  }
  Val wanted = lo.input(1);
  if (lo.rank(wanted) != 1) lo.malformed("the wanted shape is not a list");
  const bool allow_zero = lo.opset() >= 14 && lo.attr_i("allowzero", 0) != 0;
  if (auto known = lo.dims(wanted)) {
    reshape_known(lo, x, *known, allow_zero, wanted);
    return;
  }
  Val shape = as_i32_clamped(lo, wanted);
  lo.output(0, lo.b.op(Kind::kReshape, {x, allow_zero ? shape : copied_zeros(lo, x, shape)}));
}

void lower_flatten(Lowering& lo) {
  Val x = lo.input(0);
  const int rank = lo.rank(x);
  int64_t axis = lo.attr_i("axis", 1);
  if (axis < -rank || axis > rank)
    lo.malformed("axis " + std::to_string(axis) + " lies outside rank " + std::to_string(rank));
  if (axis < 0) axis += rank;
  const std::span<const Dim> dims(lo.shape(x));
  core::Symbols& symbols = lo.b.graph.symbols;
  const Dim target[] = {symbols.product(dims.first(static_cast<size_t>(axis))),
                        symbols.product(dims.subspan(static_cast<size_t>(axis)))};
  lo.output(0, reshape_to(lo, x, target));
}

namespace {

// Axes that only the run knows: the dimensions that are left, in order, are the new shape.
Val squeeze_at_run_time(Lowering& lo, Val x, Val axes) {
  const Dim count = lo.need_static(lo.b.dim(axes, 0), "the number of axes");
  axes = lo.b.cast(axes, DType::kInt32);
  Val dropped = spread_by_axes(lo, filled_with(lo, lo.shape(axes), lo.b.i32_scalar(1)), axes, lo.rank(x), 0);
  Val kept = lo.b.where(lo.b.equal(dropped, lo.b.i32_scalar(0)));
  lo.b.graph.at(kept.id).shape[0] = lo.rank(x) - count;
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
  if (axes) {
    drop = lo.axes(*axes, lo.rank(x));
  } else {
    for (int axis = 0; axis < lo.rank(x); ++axis) {
      if (lo.need_static(lo.b.dim(x, axis), "a dimension that Squeeze may drop") == 1) drop.push_back(axis);
    }
  }
  for (int axis : drop)
    if (Dim dim = lo.b.dim(x, axis); dim != 1 && !core::is_symbol(dim))
      lo.malformed("axis " + std::to_string(axis) + " has extent " + std::to_string(dim) + ", not 1");
  lo.output(0, drop_ones(lo, x, drop));
}

namespace {

// New axes that only the run knows: ones there, the own dimensions in the places that are left.
Val unsqueeze_at_run_time(Lowering& lo, Val x, Val axes) {
  constexpr Dim kMostAxes = 8;  // that RESHAPE's kernel takes
  const Dim count = lo.need_static(lo.b.dim(axes, 0), "the number of axes");
  if (count > kMostAxes - lo.rank(x))
    lo.unsupported(fmt::format("{} new axes: shapes have at most {}", count, kMostAxes));
  const int rank = lo.rank(x) + static_cast<int>(count);
  axes = lo.b.cast(axes, DType::kInt32);
  Val added = spread_by_axes(lo, filled_with(lo, lo.shape(axes), lo.b.i32_scalar(1)), axes, rank, 0);
  Val places = lo.b.cast(lo.b.where(lo.b.equal(added, lo.b.i32_scalar(0))), DType::kInt32);
  lo.b.graph.at(places.id).shape[0] = lo.rank(x);
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
  lo.output(0, add_ones(lo, x, lo.axes(*axes, lo.rank(x) + static_cast<int>(axes->size()))));
}

void lower_transpose(Lowering& lo) {
  Val x = lo.input(0);
  Perm perm = stream::identity_perm(lo.rank(x));
  if (auto given = lo.attr_ints("perm")) {
    Perm sorted(given->begin(), given->end());
    std::sort(sorted.begin(), sorted.end());
    if (sorted != perm) lo.malformed("'perm' is no permutation of " + std::to_string(perm.size()) + " axes");
    perm.assign(given->begin(), given->end());
  } else {
    std::reverse(perm.begin(), perm.end());
  }
  lo.output(0, lo.b.transpose(x, perm));
}

void lower_identity(Lowering& lo) { lo.output(0, lo.input(0)); }

void lower_dropout(Lowering& lo) {
  Val x = lo.input(0);
  lo.ignore_attr("ratio");  // counts in training only
  lo.ignore_attr("seed");
  if (lo.opset() < 7) {
    lo.ignore_attr("consumed_inputs");
    if (lo.attr_i("is_test", 0) == 0)
      lo.unsupported("Dropout in training mode is random", "export the model for inference (is_test=1)");
  }
  if (lo.opset() >= 12 && lo.has_input(2)) {
    auto training = lo.ints(lo.input(2));
    auto ratio = lo.has_input(1) ? lo.numbers(lo.input(1)) : std::optional(std::vector<double>{0.5});
    const bool idle =
        (training && training->size() == 1 && (*training)[0] == 0) || (ratio && ratio->size() == 1 && (*ratio)[0] == 0);
    if (!idle) lo.unsupported("Dropout in training mode is random", "export the model for inference");
  }
  lo.output(0, x);
  // Nothing is dropped: the mask is all true (before opset 10 it has the data's type).
  if (lo.wants_output(1))
    lo.output(1, filled_with(lo, lo.shape(x), lo.b.scalar(1, lo.opset() < 10 ? lo.dtype(x) : DType::kBool)));
}

void lower_shape(Lowering& lo) {
  Val x = lo.input(0);
  const int64_t rank = lo.rank(x);
  int64_t start = 0, end = rank;
  if (lo.opset() >= 15) {
    auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    start = clamp(lo.attr_i("start", 0));
    end = clamp(lo.attr_i("end", rank));
  }
  const Dim count = std::max<int64_t>(end - start, 0);
  lo.output(0, lo.b.slice(lo.b.shape_of(x, DType::kInt64), {&start, 1}, {&count, 1}));
}

void lower_size(Lowering& lo) {
  Val x = lo.input(0);
  const Dim count = lo.b.graph.symbols.product(lo.shape(x));
  if (!core::is_symbol(count)) {
    lo.output(0, Val{lo.b.graph.add_ints({&count, 1}, DType::kInt64, {})});
    return;
  }
  const int axis = 0;
  lo.output(0, lo.b.reduce_prod(lo.b.shape_of(x, DType::kInt64), {&axis, 1}, false));
}

void lower_expand(Lowering& lo) {
  Val x = lo.input(0), wanted = lo.input(1);
  if (lo.rank(wanted) != 1) lo.malformed("the wanted shape is not a list");
  auto known = lo.dims(wanted);
  if (!known) {
    Val shape = lo.b.op(Kind::kBroadcastArgs, {lo.b.shape_of(x), as_i32_clamped(lo, wanted)});
    lo.output(0, lo.b.op(Kind::kBroadcastTo, {x, shape}));
    return;
  }
  const Shape& own = lo.shape(x);
  Shape out(std::max(own.size(), known->size()), 1);
  bool certain = true;
  for (size_t back = 1; back <= out.size(); ++back) {
    const Dim a = back <= own.size() ? own[own.size() - back] : 1;
    const Dim c = back <= known->size() ? (*known)[known->size() - back] : 1;
    if (c < 0 && !core::is_symbol(c)) lo.malformed("a dimension of " + std::to_string(c));
    Dim& wide = out[out.size() - back];
    if (a == 1 || c == 1 || a == c) {
      wide = a == 1 ? c : a;
    } else if (!core::is_symbol(a) && !core::is_symbol(c)) {
      lo.malformed(stream::to_string(own) + " and " + stream::to_string(*known) + " do not broadcast");
    } else {
      certain = certain && (!core::is_symbol(a) || !core::is_symbol(c));
      wide = core::is_symbol(a) ? c : a;  // a number other than 1 beside a symbol: the symbol is that number or 1
    }
  }
  if (certain) {
    try {
      lo.output(0, lo.b.broadcast_to(x, out));
      return;
    } catch (const stream::Unsupported&) {  // a dimension that nothing tells: by the shape that the graph computes
    }
  }
  Val shape = lo.b.op(Kind::kBroadcastArgs, {lo.b.shape_of(x), as_i32_clamped(lo, wanted)});
  Val y = lo.b.op(Kind::kBroadcastTo, {x, shape});
  if (certain) lo.b.graph.at(y.id).shape = out;
  lo.output(0, y);
}

void lower_tile(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.opset() < 6) {  // one axis and how often
    const auto times = lo.need_ints(lo.input(1), "tiles"), axis = lo.need_ints(lo.input(2), "axis");
    if (times.size() != 1 || axis.size() != 1) lo.malformed("'tiles' and 'axis' must be one number each");
    std::vector<int64_t> repeats(static_cast<size_t>(lo.rank(x)), 1);
    repeats[static_cast<size_t>(lo.axis(axis[0], lo.rank(x)))] = times[0];
    lo.output(0, lo.b.tile(x, repeats));
    return;
  }
  Val repeats = lo.input(1);
  if (lo.rank(repeats) != 1) lo.malformed("the repeats are not a list");
  if (auto known = lo.ints(repeats)) {
    if (known->size() != static_cast<size_t>(lo.rank(x)))
      lo.malformed(fmt::format("{} repeats for rank {}", known->size(), lo.rank(x)));
    lo.output(0, lo.b.tile(x, *known));
  } else
    lo.output(0, lo.b.op(Kind::kTile, {x, as_i32_clamped(lo, repeats)}));
}

}  // namespace lowtide::layout
