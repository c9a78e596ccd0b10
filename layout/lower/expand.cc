// SPDX-License-Identifier: Apache-2.0
// Expand, Tile. Difference: Expand broadcasts both ways, BROADCAST_TO only the data.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
void lower_expand(Lowering& lo) {
  Val x = lo.input(0), wanted = lo.input(1);
  if (lo.rank(wanted) != 1)
    lo.malformed("input 1 ('shape') must have rank 1; it has rank " + std::to_string(lo.rank(wanted)));
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
    if (c < 0 && !core::is_symbol(c))
      lo.malformed("input 1 ('shape') must not be negative; it contains " + std::to_string(c));
    Dim& wide = out[out.size() - back];
    if (a == 1 || c == 1 || a == c) {
      wide = a == 1 ? c : a;
    } else if (!core::is_symbol(a) && !core::is_symbol(c)) {
      lo.misfit("shapes " + stream::to_string(own) + " and " + stream::to_string(*known) + " do not broadcast");
    } else {
      certain = certain && (!core::is_symbol(a) || !core::is_symbol(c));
      wide = core::is_symbol(a) ? c : a;  // broadcast with a number other than 1, the symbol is that number or 1
    }
  }
  if (certain) {
    try {
      lo.output(0, lo.b.broadcast_to(x, out));
      return;
    } catch (const stream::Unsupported&) {  // a symbol cannot be computed: use the shape that the graph computes
    }
  }
  Val shape = lo.b.op(Kind::kBroadcastArgs, {lo.b.shape_of(x), as_i32_clamped(lo, wanted)});
  Val y = lo.b.op(Kind::kBroadcastTo, {x, shape});
  if (certain) lo.b.graph.at(y.id).shape = out;
  lo.output(0, y);
}

void lower_tile(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.opset() < 6) {  // one axis and its number of repeats
    const auto times = lo.need_ints(lo.input(1), "tiles"), axis = lo.need_ints(lo.input(2), "axis");
    if (times.size() != 1 || axis.size() != 1) lo.malformed("inputs 'tiles' and 'axis' must have one element each");
    std::vector<int64_t> repeats(static_cast<size_t>(lo.rank(x)), 1);
    repeats[static_cast<size_t>(lo.axis(axis[0], lo.rank(x)))] = times[0];
    lo.output(0, lo.b.tile(x, repeats));
    return;
  }
  Val repeats = lo.input(1);
  if (lo.rank(repeats) != 1)
    lo.malformed("input 1 ('repeats') must have rank 1; it has rank " + std::to_string(lo.rank(repeats)));
  if (auto known = lo.ints(repeats)) {
    if (known->size() != static_cast<size_t>(lo.rank(x)))
      lo.malformed(fmt::format("input 1 ('repeats') must have {} elements, one for each axis; it has {}", lo.rank(x),
                               known->size()));
    lo.output(0, lo.b.tile(x, *known));
  } else
    lo.output(0, lo.b.op(Kind::kTile, {x, as_i32_clamped(lo, repeats)}));
}

}  // namespace lowtide::layout
