// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;

// A list that grows in a loop is written down at each turn: so its elements count like operators, as some of one.
constexpr size_t kElementsOfAnOp = 64;

std::vector<Val> inputs_of(Builder& b, Val sequence) {
  const auto producer = static_cast<size_t>(b.graph.at(sequence.id).producer);
  std::vector<Val> out;
  for (core::ValueId id : b.graph.ops[producer].inputs) out.push_back({id});
  return out;
}

Val tensor_list(Builder& b, std::span<const Val> elements) {
  const size_t counted = elements.size() / kElementsOfAnOp;
  if (counted > b.ops_left)
    throw Unsupported(
        "the model's sequences become too long in all: a list that grows in a loop is kept for each turn");
  b.ops_left -= counted;
  return b.tensor_list(elements);
}

}  // namespace

List list_of(Builder& b, Val sequence) {
  if (!b.is_tensor_list(sequence))
    throw Unsupported("a sequence that is computed at run time is not supported", kListHint);
  List list{.elements = inputs_of(b, sequence)};
  // The type of an element may be unknown, but that of a list is not.
  if (list.elements.empty() || !core::is_tensor_list(b.graph, list.elements[0].id)) return list;
  const std::vector<Val> header = inputs_of(b, list.elements[0]);
  list.elements.erase(list.elements.begin());
  list.form = header.empty() ? List::Form::kOpen : List::Form::kJoined;
  if (header.empty()) return list;
  const std::vector<int64_t> joint = b.graph.ints(header[0].id).value();
  list.joint = {static_cast<int>(joint[0]), joint[1] != 0, joint[2] != 0};
  return list;
}

Val as_value(Builder& b, const List& list) {
  std::vector<Val> elements = list.elements;
  std::vector<Val> header;
  if (list.form == List::Form::kJoined)
    header.push_back(b.i32({list.joint.axis, list.joint.stacks ? 1 : 0, list.joint.of_ones ? 1 : 0}));
  if (list.form != List::Form::kKnown) elements.insert(elements.begin(), b.tensor_list(header));
  return tensor_list(b, elements);
}

List appended(Builder& b, const List& joined, std::span<const Val> elements) {
  List out = joined;
  const Val tensor = joined.elements[0];
  const Joint& how = joined.joint;
  std::vector<Val> parts{tensor};
  for (Val element : elements) {
    const int rank = b.rank(element) + (how.stacks ? 1 : 0);
    if (b.dtype(element) != b.dtype(tensor) || rank != b.rank(tensor))
      throw Unsupported(
          fmt::format("a loop appends elements of different types to a list: {} of rank {} and {} of rank {}",
                      stream::dtype_name(b.dtype(tensor)), b.rank(tensor) - (how.stacks ? 1 : 0),
                      stream::dtype_name(b.dtype(element)), b.rank(element)));
    if (how.stacks) element = b.unsqueeze(element, std::vector<int>{how.axis});
    for (int axis = 0; axis < rank; ++axis)
      if (axis != how.axis && known_to_differ(b.dim(element, axis), b.dim(tensor, axis)))
        throw Unsupported("a loop appends elements of different shapes to a list", kListHint);
    out.joint.of_ones = out.joint.of_ones && b.dim(element, how.axis) == 1;
    parts.push_back(element);
  }
  out.elements = {b.concat(parts, how.axis)};
  return out;
}

Val joined_tensor(Builder& b, const Joint& joint, std::span<const Val> elements) {
  Val first = elements[0];
  if (joint.stacks) first = b.unsqueeze(first, std::vector<int>{joint.axis});
  const List begun{.form = List::Form::kJoined, .elements = {first}, .joint = joint};
  return elements.size() == 1 ? first : appended(b, begun, elements.subspan(1)).elements[0];
}

Val element_at(Lowering& lo, const List& joined, Val at) {
  const Joint& how = joined.joint;
  if (!how.is_counted())
    lo.unsupported("SequenceAt of a list whose elements may have different sizes is not supported", kListHint);
  const Val tensor = joined.elements[0];
  at = non_negative_indices(lo, as_scalar(lo, at), lo.b.dim(tensor, how.axis));
  if (!how.stacks) at = lo.b.reshape(at, {1});
  return lo.b.gather(tensor, at, how.axis);
}

}  // namespace lowtide::layout
