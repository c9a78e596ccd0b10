// SPDX-License-Identifier: Apache-2.0
// SequenceEmpty, SequenceConstruct, SequenceAt, SequenceInsert, SequenceErase, SequenceLength, SequenceMap,
// SplitToSequence, ConcatFromSequence. A sequence whose elements are known at conversion is a list of values, as in
// torch's split, chunk and unbind; one that a loop fills, or the pieces of an axis of unknown size, are one tensor
// (lists.h).
#include <fmt/format.h>

#include <algorithm>

#include "layout/lower/lists.h"
#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {
namespace {

void need_tensors(Lowering& lo, const std::vector<Val>& elements) {
  if (std::any_of(elements.begin(), elements.end(), [&](Val v) { return core::is_tensor_list(lo.b.graph, v.id); }))
    lo.unsupported("a sequence of sequences is not supported");
}

Val sequence_of(Lowering& lo, const std::vector<Val>& elements) {
  need_tensors(lo, elements);
  return as_value(lo.b, {.elements = elements});
}

std::vector<Val> elements_of(Lowering& lo, Val sequence) {
  List list = list_of(lo.b, sequence);
  if (list.form != List::Form::kKnown)
    lo.unsupported("a sequence whose length is known at run time only is not supported here", kListHint);
  return list.elements;
}

// A position from 0 to `end`; negative ones count from the number of elements.
size_t need_position(Lowering& lo, Val v, size_t count, size_t end) {
  const std::vector<int64_t> known = lo.need_ints(v, "position");
  if (known.size() != 1) lo.malformed(fmt::format("input 'position' must have one element; it has {}", known.size()));
  const int64_t at = known[0] < 0 ? known[0] + static_cast<int64_t>(count) : known[0];
  if (at < 0 || at > static_cast<int64_t>(end))
    lo.malformed(fmt::format("position {} is out of range for a sequence of {} elements", known[0], count));
  return static_cast<size_t>(at);
}

constexpr int64_t kMostSequenceElements = 4096;  // each is an output of a SPLIT

// The sizes given by `split`: a list, or one size for all pieces but the last.
std::vector<int64_t> piece_sizes(Lowering& lo, Val split, int64_t axis_size) {
  std::vector<int64_t> sizes = lo.need_ints(split, "split");
  if (lo.rank(split) == 0) {
    const int64_t each = sizes[0];
    if (each < 1) lo.malformed(fmt::format("input 'split' must be positive; it is {}", each));
    if (axis_size / each >= kMostSequenceElements)
      lo.unsupported(fmt::format("a sequence of {} elements is not supported: the most is {}", axis_size / each,
                                 kMostSequenceElements));
    sizes.assign(static_cast<size_t>(axis_size / each), each);
    if (axis_size % each != 0) sizes.push_back(axis_size % each);
  }
  int64_t left = axis_size;
  for (int64_t size : sizes) {
    if (size < 0 || size > left)
      lo.malformed(fmt::format("the sizes in 'split' must not be negative and must add up to {}, the size of the axis",
                               axis_size));
    left -= size;
  }
  if (left != 0)
    lo.malformed(fmt::format("the sizes in 'split' must not be negative and must add up to {}, the size of the axis",
                             axis_size));
  return sizes;
}

// Whether `sizes`, a number or a list of any length, are ones.
bool are_ones(Lowering& lo, Val sizes) {
  if (const auto known = lo.ints(sizes))
    return std::all_of(known->begin(), known->end(), [](int64_t size) { return size == 1; });
  while (true) {
    if (lo.b.graph.at(sizes.id).producer < 0) return false;
    const core::Op& op = lo.b.graph.op(lo.b.graph.at(sizes.id).producer);
    const bool is_filled = op.kind == Kind::kFill || op.kind == Kind::kBroadcastTo;
    if (!is_filled && op.kind != Kind::kCast && op.kind != Kind::kReshape) return false;
    sizes = {op.inputs[op.kind == Kind::kFill ? 1 : 0]};
    if (is_filled) break;
  }
  const auto known = lo.ints(sizes);
  return known && std::all_of(known->begin(), known->end(), [](int64_t size) { return size == 1; });
}

// Whether one tensor can hold all of them.
bool are_alike(Lowering& lo, const std::vector<Val>& elements) {
  return std::all_of(elements.begin(), elements.end(), [&](Val v) {
    return lo.dtype(v) == lo.dtype(elements[0]) && lo.shape(v) == lo.shape(elements[0]);
  });
}

// The tensor of a joined list, if it is what a ConcatFromSequence makes.
Val joined_as_asked(Lowering& lo, const List& list) {
  const Val tensor = list.elements[0];
  const bool stacks = lo.attr_i("new_axis", 0) != 0;
  const int rank = lo.rank(tensor) + (stacks ? 1 : 0) - (list.joint.stacks ? 1 : 0);
  const int axis = lo.axis(lo.need_attr_i("axis"), rank);
  if (stacks != list.joint.stacks || axis != list.joint.axis)
    lo.unsupported(
        "ConcatFromSequence joins a list, whose length is known at run time only, along another axis than an operator "
        "before",
        kListHint);
  return tensor;
}

}  // namespace

void lower_sequence_empty(Lowering& lo) {
  lo.ignore_attr("dtype");  // the sequence has no elements
  lo.output(0, sequence_of(lo, {}));
}

void lower_sequence_construct(Lowering& lo) {
  std::vector<Val> elements;
  for (size_t i = 0; i < lo.input_count(); ++i) elements.push_back(lo.input(i));
  lo.output(0, sequence_of(lo, elements));
}

void lower_sequence_at(Lowering& lo) {
  const List list = list_of(lo.b, lo.input(0));
  const Val at = lo.input(1);
  if (list.form == List::Form::kOpen)
    lo.unsupported("SequenceAt of a list that was empty before the loop is not supported in its body", kListHint);
  if (list.form == List::Form::kJoined) return lo.output(0, element_at(lo, list, at));
  const std::vector<Val>& elements = list.elements;
  if (elements.empty()) lo.malformed("the sequence is empty: it has no element to take");
  if (!lo.ints(at) && are_alike(lo, elements)) {
    const Joint stacked;
    return lo.output(0, element_at(lo, {List::Form::kJoined, {joined_tensor(lo.b, stacked, elements)}, stacked}, at));
  }
  lo.output(0, elements[need_position(lo, at, elements.size(), elements.size() - 1)]);
}

void lower_sequence_insert(Lowering& lo) {
  need_tensors(lo, {lo.input(1)});
  List list = list_of(lo.b, lo.input(0));
  if (list.form != List::Form::kKnown && lo.has_input(2))
    lo.unsupported("an element is inserted in a sequence whose length is known at run time only, not appended to it",
                   kListHint);
  if (list.form == List::Form::kJoined) return lo.output(0, as_value(lo.b, appended(lo.b, list, {{lo.input(1)}})));
  std::vector<Val>& elements = list.elements;
  const size_t count = elements.size();
  const size_t at = lo.has_input(2) ? need_position(lo, lo.input(2), count, count) : count;
  elements.insert(elements.begin() + static_cast<ptrdiff_t>(at), lo.input(1));
  lo.output(0, list.form == List::Form::kOpen ? as_value(lo.b, list) : sequence_of(lo, elements));
}

void lower_sequence_erase(Lowering& lo) {
  std::vector<Val> elements = elements_of(lo, lo.input(0));
  if (elements.empty()) lo.malformed("the sequence is empty: it has no element to erase");
  const size_t last = elements.size() - 1;
  const size_t at = lo.has_input(1) ? need_position(lo, lo.input(1), elements.size(), last) : last;
  elements.erase(elements.begin() + static_cast<ptrdiff_t>(at));
  lo.output(0, sequence_of(lo, elements));
}

void lower_sequence_length(Lowering& lo) {
  const List list = list_of(lo.b, lo.input(0));
  if (list.form == List::Form::kJoined && list.joint.is_counted())
    return lo.output(0, dim_as_scalar(lo, lo.b.dim(list.elements[0], list.joint.axis), DType::kInt64));
  if (list.form == List::Form::kJoined)
    lo.unsupported("SequenceLength of a list whose elements may have different sizes is not supported", kListHint);
  if (list.form == List::Form::kOpen) return lo.output(0, stand_in(lo.b, DType::kInt64, {}));
  const size_t count = elements_of(lo, lo.input(0)).size();
  lo.output(0, lo.b.scalar(static_cast<double>(count), DType::kInt64));
}

// Without `split`: pieces of one element, whose axis is removed when `keepdims` is 0.
void lower_split_to_sequence(Lowering& lo) {
  Val x = lo.input(0);
  const int axis = lo.axis(lo.attr_i("axis", 0), lo.rank(x));
  const bool drops = lo.attr_i("keepdims", 1) == 0 && !lo.has_input(1);
  if (core::is_symbol(lo.b.dim(x, axis)) && (!lo.has_input(1) || are_ones(lo, lo.input(1))))
    return lo.output(0, as_value(lo.b, {List::Form::kJoined, {x}, {axis, drops, true}}));
  const int64_t axis_size = lo.need_static(lo.b.dim(x, axis), "the axis that is split");
  Val split = lo.has_input(1) ? lo.input(1) : lo.b.scalar(1, DType::kInt64);
  const std::vector<int64_t> sizes = piece_sizes(lo, split, axis_size);
  std::vector<Val> pieces;
  if (sizes.size() == 1) pieces = {x};
  if (sizes.size() > 1) pieces = lo.b.split(x, sizes, axis);
  if (drops)
    for (Val& piece : pieces) piece = squeeze_axes(lo, piece, {axis});
  lo.output(0, sequence_of(lo, pieces));
}

void lower_concat_from_sequence(Lowering& lo) {
  const List list = list_of(lo.b, lo.input(0));
  if (list.form == List::Form::kJoined) return lo.output(0, joined_as_asked(lo, list));
  std::vector<Val> elements = elements_of(lo, lo.input(0));
  if (elements.empty()) lo.malformed("an empty sequence cannot be concatenated");
  const bool stacks = lo.attr_i("new_axis", 0) != 0;
  const int axis = lo.axis(lo.need_attr_i("axis"), lo.rank(elements[0]) + (stacks ? 1 : 0));
  if (stacks)
    for (Val& element : elements) element = unsqueeze_axes(lo, element, {axis});
  lo.output(0, elements.size() == 1 ? elements[0] : lo.b.concat(elements, axis));
}

// Inlines the body once for each element. Other sequences are iterated in parallel; tensors are the same for all
// elements.
void lower_sequence_map(Lowering& lo) {
  const onnx::Graph& body = subgraph(lo, "body");
  const size_t count = elements_of(lo, lo.input(0)).size();
  if (!Unrolling(lo, body).may_have(static_cast<int64_t>(count)))
    lo.unsupported(fmt::format("a SequenceMap over {} elements is not supported: it would have more than {} nodes",
                               count, kMostUnrolledNodes));
  std::vector<std::vector<Val>> made(lo.output_count());
  for (size_t i = 0; i < count; ++i) {
    std::vector<Val> inputs;
    for (size_t k = 0; k < lo.input_count(); ++k) {
      const Val given = lo.input(k);
      if (lo.b.is_tensor_list(given) && elements_of(lo, given).size() != count)
        lo.malformed("the sequences must have the same length");
      inputs.push_back(lo.b.is_tensor_list(given) ? elements_of(lo, given)[i] : given);
    }
    const std::vector<Val> outputs = lo.around.lower_inline(body, inputs);
    if (outputs.size() != made.size())
      lo.malformed(fmt::format("the body has {} outputs, but the node has {}", outputs.size(), made.size()));
    for (size_t k = 0; k < made.size(); ++k) made[k].push_back(outputs[k]);
  }
  for (size_t k = 0; k < made.size(); ++k) lo.output(k, sequence_of(lo, made[k]));
}

}  // namespace lowtide::layout
