// SPDX-License-Identifier: Apache-2.0
// STRIDED_SLICE whose lists have places that are no axes of the data: an ellipsis stands for all axes that are not
// listed, and a new axis for none. Source of the semantics: LiteRT's tflite/kernels/strided_slice.cc.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/options.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

constexpr size_t kMostPlacesListed = 16;

// The same slice with a place for each axis of the data.
struct AllAxes {
  std::vector<int64_t> places;  // in the lists; behind them for an axis that is taken as a whole
  core::StridedSliceOptions options;

  void add(size_t place, bool open_begin, bool open_end, bool shrinks) {
    const int bit = 1 << places.size();
    places.push_back(static_cast<int64_t>(place));
    if (open_begin) options.begin_mask |= bit;
    if (open_end) options.end_mask |= bit;
    if (shrinks) options.shrink_axis_mask |= bit;
  }
};

}  // namespace

bool GraphImport::has_other_axes(SubgraphScope& scope, const tfl::Operator& op) {
  if (int_option(op, "ellipsis_mask") != 0 || int_option(op, "new_axis_mask") != 0) return true;
  if (op.inputs.size() != 4 || op.inputs[0] < 0 || op.inputs[1] < 0) return false;
  const core::Value &data = graph_.at(value(scope, op.inputs[0])), &begin = graph_.at(value(scope, op.inputs[1]));
  return begin.rank() == 1 && begin.shape[0] >= 0 && begin.shape[0] < data.rank();
}

void GraphImport::slice_with_other_axes(SubgraphScope& scope, const tfl::Operator& op) {
  const std::vector<ValueId> inputs = all_inputs(scope, op);
  if (inputs.size() != 4 || op.outputs.size() != 1) malformed_model("STRIDED_SLICE needs four inputs and one output");
  if (has_offsets(op))
    throw stream::Unsupported("option offset together with an ellipsis, a new axis or an axis that is not listed");
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Shape& list = graph_.at(inputs[i]).shape;
    if (list.size() != 1) malformed_model(fmt::format("input {} is no list", i));
    if (core::is_symbol(list[0])) throw known_at_run_time("the number of axes that are listed");
  }
  const auto places = [&](size_t i) { return static_cast<size_t>(graph_.at(inputs[i]).shape[0]); };
  const size_t listed = places(1), rank = graph_.at(inputs[0]).shape.size();
  if (places(2) != listed || places(3) != listed || std::max(listed, rank) > kMostPlacesListed)
    malformed_model(fmt::format("lists of {}, {} and {} places", listed, places(2), places(3)));
  const auto from = std::get<core::StridedSliceOptions>(read_builtin_options(Kind::kStridedSlice, op));
  const int ellipsis = int_option(op, "ellipsis_mask"), news = int_option(op, "new_axis_mask");
  size_t taken = 0;  // axes of the data that are listed
  for (size_t i = 0; i < listed; ++i) taken += core::has_bit(ellipsis, i) || core::has_bit(news, i) ? 0 : 1;
  if (taken > rank) malformed_model(fmt::format("{} axes are listed of data of rank {}", taken, rank));
  if (static_cast<uint32_t>(ellipsis | news) >> listed != 0)
    malformed_model(fmt::format("ellipsis_mask or new_axis_mask has a bit after its {} places", listed));
  // The kernel lets an ellipsis take at least one axis, and then has none for the last place. It ignores one behind all
  // other places.
  const bool has_ellipsis = (ellipsis & ((1 << listed) - 1)) != 0;
  if (taken == rank && has_ellipsis && !core::has_bit(ellipsis, listed - 1))
    throw stream::Unsupported(
        "an ellipsis that stands for no axis: LiteRT takes an axis for it, and leaves out the last place",
        "write the slice without the ellipsis");
  AllAxes all;
  std::vector<int64_t> added;  // new axes, by their places in the result
  int64_t made = 0;
  bool had_ellipsis = false;
  for (size_t i = 0; i < listed; ++i) {
    if (core::has_bit(ellipsis, i)) {
      if (had_ellipsis) malformed_model("ellipsis_mask has several bits");
      had_ellipsis = true;
      for (size_t axis = taken; axis < rank; ++axis, ++made) all.add(listed, true, true, false);
    } else if (core::has_bit(news, i)) {
      added.push_back(made++);
    } else {
      const bool shrinks = core::has_bit(from.shrink_axis_mask, i);
      all.add(i, core::has_bit(from.begin_mask, i), core::has_bit(from.end_mask, i), shrinks);
      made += shrinks ? 0 : 1;
    }
  }
  while (all.places.size() < rank) all.add(listed, true, true, false);
  std::vector<ValueId> parts = {inputs[0]};
  for (size_t i = 1; i < inputs.size(); ++i) parts.push_back(list_of_axes(inputs[i], all.places, i == 3 ? 1 : 0));
  if (added.empty()) return add(scope, Kind::kStridedSlice, std::move(parts), all.options, op.outputs);
  ValueId x = add_moved(Kind::kStridedSlice, std::move(parts), all.options);
  for (size_t i = 0; i + 1 < added.size(); ++i) x = add_moved(Kind::kExpandDims, x, ints(std::vector{added[i]}));
  add(scope, Kind::kExpandDims, {x, ints(std::vector{added.back()})}, {}, op.outputs);
}

// LiteRT uses the offset as the number of elements, even where a mask or the end of the data gives another number. It
// then writes fewer elements, or writes beyond the result.
void GraphImport::take_offsets(const tfl::Operator& op, Inputs& inputs) {
  if (inputs.size() != 4 || std::count(inputs.begin(), inputs.end(), kAbsent) > 0)
    malformed_model("STRIDED_SLICE needs four inputs");
  const auto begin = graph_.ints(inputs[1]), end = graph_.ints(inputs[2]), stride = graph_.ints(inputs[3]);
  if (!begin || !end || !stride) throw known_at_run_time("an offset, and a begin, an end or a stride");
  const Shape& shape = graph_.at(inputs[0]).shape;
  if (begin->size() != shape.size() || end->size() != shape.size() || stride->size() != shape.size())
    malformed_model(fmt::format("lists of {}, {} and {} places of data of rank {}", begin->size(), end->size(),
                                stride->size(), shape.size()));
  const int begin_mask = int_option(op, "begin_mask"), end_mask = int_option(op, "end_mask");
  std::vector<int64_t> ends;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t extent = shape[i];
    if (core::is_symbol(shape[i])) throw known_at_run_time("an offset, and the size of an axis");
    const int64_t given = (*begin)[i] < 0 ? (*begin)[i] + extent : (*begin)[i];
    const int64_t first = core::has_bit(begin_mask, i) ? 0 : given, end_place = first + (*end)[i];
    const bool is_inside = (*stride)[i] > 0 && first >= 0 && (*end)[i] >= 0 && end_place <= extent;
    if (!is_inside || (core::has_bit(end_mask, i) && end_place != extent))
      throw stream::Unsupported(
          fmt::format("option offset with {} elements from place {} of an axis of {}, by steps of {}", (*end)[i],
                      (*begin)[i], extent, (*stride)[i]),
          "write the slice with ends that lie in the data");
    ends.push_back(end_place);
  }
  inputs[2] = ints(ends);
}

// The list's numbers at these places, of which that behind the list is `other`.
ValueId GraphImport::list_of_axes(ValueId list, std::span<const int64_t> places, int64_t other) {
  if (const auto known = graph_.ints(list)) {
    std::vector<int64_t> all = *known, out;
    all.push_back(other);
    for (int64_t place : places) out.push_back(all[static_cast<size_t>(place)]);
    return ints(out);
  }
  const auto listed = static_cast<size_t>(graph_.at(list).shape[0]);
  // Where the list is of the first axes, the numbers of the others stand behind it.
  bool are_first = listed <= places.size();
  for (size_t i = 0; are_first && i < places.size(); ++i)
    are_first = places[i] == static_cast<int64_t>(std::min(i, listed));
  const std::vector<int64_t> others(are_first ? places.size() - listed : 1, other);
  const ValueId behind = graph_.add_ints(others, graph_.at(list).dtype, {static_cast<core::Dim>(others.size())});
  const ValueId all = others.empty() ? list
                                     : add_float(Kind::kConcatenation, {list, behind},
                                                 core::ConcatOptions{.axis = 0, .activation = {}});
  if (are_first) return all;
  return add_float(Kind::kGather, {all, ints(places)}, core::GatherOptions{});
}

}  // namespace lowtide::layout
