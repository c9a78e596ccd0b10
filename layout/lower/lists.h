// SPDX-License-Identifier: Apache-2.0
// What a sequence is while a graph is lowered. TFLite has no sequences, so nothing of them is left in the end.
//
//     known    its elements, each a value
//     joined   one tensor of all elements, as ConcatFromSequence would make it: how many they are is known at run time
//              only. A loop fills it, or it is an axis of unknown size in pieces of one.
//     open     what a loop has appended to a list of which nothing is known yet: only in a graph that is discarded,
//              from which a loop takes the types of the elements
//
// A sequence is a value of a type that no kernel takes (strings), made by an op of no kernel (Kind::kTensorList) whose
// inputs are its elements. Nobody uses it in the end, so tidy() removes it. In joined and open ones the first element
// is a list itself, which ONNX does not have: {{axis, stacks, of ones}, tensor} and {{}, element, ...}. So subgraphs
// take over these as they take over other lists.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// How a tensor holds the elements of a joined list.
struct Joint {
  int axis = 0;         // of the tensor
  bool stacks = true;   // each element is at one place of the axis, which it does not have itself
  bool of_ones = true;  // each element has one place of the axis
  bool is_counted() const { return stacks || of_ones; }
};

struct List {
  enum class Form { kKnown, kJoined, kOpen };
  Form form = Form::kKnown;
  std::vector<Val> elements;  // kJoined: the tensor alone
  Joint joint = {};
};

// Refused where `sequence` is not made here: then nothing is known of it.
List list_of(Builder& b, Val sequence);
Val as_value(Builder& b, const List& list);

// A joined list with more elements behind the others. Refused where the elements do not fit each other.
List appended(Builder& b, const List& joined, std::span<const Val> elements);
// Known elements, at least one, as one tensor.
Val joined_tensor(Builder& b, const Joint& joint, std::span<const Val> elements);
// A value of a graph that is discarded, of which nothing but the type is known.
inline Val stand_in(Builder& b, DType dtype, Shape shape) { return {b.graph.add_value(dtype, std::move(shape))}; }
// Element `at`, an integer of one element, of a joined list.
Val element_at(Lowering& lo, const List& joined, Val at);

inline constexpr const char* kListHint =
    "where the number of elements follows from the inputs' shapes, fix these with --shape INPUT=...";

}  // namespace lowtide::layout
