// SPDX-License-Identifier: Apache-2.0
// SequenceEmpty, SequenceConstruct, SequenceAt, SequenceInsert, SequenceErase, SequenceLength, SequenceMap,
// SplitToSequence, ConcatFromSequence. TFLite has no sequences: one whose elements are known at conversion is a list of
// values, and nothing of it remains in the graph once its elements are taken out again (as in torch's split, chunk and
// unbind).
//
// While the graph is being lowered a sequence is a value of a type that no kernel takes (strings), made by an op of no
// kernel (kTensorList) whose inputs are its elements. Nobody uses it in the end, so tidy() removes it.
#include <fmt/format.h>

#include <algorithm>

#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {
namespace {

// A list that grows in a loop is written down at each turn: so its elements count like operators, as some of one.
constexpr size_t kElementsOfAnOp = 64;

Val sequence_of(Lowering& lo, const std::vector<Val>& elements) {
  const size_t counted = elements.size() / kElementsOfAnOp;
  if (counted > lo.b.ops_left)
    lo.unsupported("the model's sequences become too long in all: a list that grows in a loop is kept for each turn");
  lo.b.ops_left -= counted;
  return lo.b.tensor_list(elements);
}

bool is_sequence(Lowering& lo, Val v) { return lo.b.is_tensor_list(v); }

std::vector<Val> elements_of(Lowering& lo, Val sequence) {
  if (!is_sequence(lo, sequence)) lo.unsupported("a sequence that is computed at run time is not supported");
  const auto producer = static_cast<size_t>(lo.b.graph.at(sequence.id).producer);
  std::vector<Val> elements;
  for (core::ValueId id : lo.b.graph.ops[producer].inputs) elements.push_back({id});
  return elements;
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
  const std::vector<Val> elements = elements_of(lo, lo.input(0));
  if (elements.empty()) lo.malformed("the sequence is empty: it has no element to take");
  lo.output(0, elements[need_position(lo, lo.input(1), elements.size(), elements.size() - 1)]);
}

void lower_sequence_insert(Lowering& lo) {
  std::vector<Val> elements = elements_of(lo, lo.input(0));
  const size_t count = elements.size();
  const size_t at = lo.has_input(2) ? need_position(lo, lo.input(2), count, count) : count;
  elements.insert(elements.begin() + static_cast<ptrdiff_t>(at), lo.input(1));
  lo.output(0, sequence_of(lo, elements));
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
  const size_t count = elements_of(lo, lo.input(0)).size();
  lo.output(0, lo.b.scalar(static_cast<double>(count), DType::kInt64));
}

// Without `split`: pieces of one element, whose axis is removed when `keepdims` is 0.
void lower_split_to_sequence(Lowering& lo) {
  Val x = lo.input(0);
  const int axis = lo.axis(lo.attr_i("axis", 0), lo.rank(x));
  const bool drops = lo.attr_i("keepdims", 1) == 0 && !lo.has_input(1);
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
      if (is_sequence(lo, given) && elements_of(lo, given).size() != count)
        lo.malformed("the sequences must have the same length");
      inputs.push_back(is_sequence(lo, given) ? elements_of(lo, given)[i] : given);
    }
    const std::vector<Val> outputs = lo.around.lower_inline(body, inputs);
    if (outputs.size() != made.size())
      lo.malformed(fmt::format("the body has {} outputs, but the node has {}", outputs.size(), made.size()));
    for (size_t k = 0; k < made.size(); ++k) made[k].push_back(outputs[k]);
  }
  for (size_t k = 0; k < made.size(); ++k) lo.output(k, sequence_of(lo, made[k]));
}

}  // namespace lowtide::layout
