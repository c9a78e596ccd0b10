// SPDX-License-Identifier: Apache-2.0
// What is known of each core op: one row a kind (design.md section 3). Rows are written in ops/<family>.cc, which
// export a table each; traits.cc joins them. A kind without a row cannot be built.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::core {

// An op and its inputs as the traits see them, before or after the op stands in the graph.
struct OpView {
  Graph& graph;
  Kind kind;
  std::span<const ValueId> inputs;
  const Options& options;
  int output_count = 1;  // for ops with a variable number (SPLIT, UNPACK)

  bool has(size_t i) const { return i < inputs.size() && inputs[i] != kAbsent; }
  const Value& in(size_t i) const { return graph.at(inputs[i]); }
  const Shape& shape(size_t i) const { return in(i).shape; }
  DType dtype(size_t i) const { return in(i).dtype; }
  int rank(size_t i) const { return in(i).rank(); }
  const RecipeRef& recipe(size_t i) const { return in(i).constant; }
  // Known integer elements of a small input; ints() only when none is symbolic.
  const std::vector<Dim>* contents(size_t i) const { return graph.contents(inputs[i]); }
  std::optional<std::vector<int64_t>> ints(size_t i) const { return graph.ints(inputs[i]); }
  template <typename T>
  const T& get() const {
    return std::get<T>(options);
  }
  Symbols& symbols() const { return graph.symbols; }
};

struct TensorType {
  DType dtype = DType::kUndefined;
  Shape shape;
  std::optional<std::vector<Dim>> contents;  // see Value::contents
};

// Dtype, shape and, for small integer tensors, contents of the outputs. Dimensions that the op itself decides at run
// time (NonZero) are fresh symbols. Throws Error(kMalformed) when the inputs do not fit the op.
using Infer = std::vector<TensorType> (*)(const OpView&);

// The outputs as recipes, given that all inputs are constants (absent ones aside); empty when it cannot be said as a
// recipe. Never reads more than small constants.
using Fold = std::vector<RecipeRef> (*)(const OpView&);

// How an op moves as a whole when one of its slots is stored permuted: for each slot the permutation of what it holds
// today (empty = stays). A permutation longer than an input's rank means: lift the input with leading 1s, then permute.
struct Movement {
  std::vector<Perm> inputs, outputs;
};
struct Slot {
  bool output = false;
  size_t index = 0;
};
// Given that `slot` is permuted by `perm`, how must the other slots move so that the op stays the same up to its
// options and its small constant inputs (axes, paddings)? nullopt: it cannot. `outputs` are the op's output values'
// shapes by id.
using Commute = std::optional<Movement> (*)(const OpView&, std::span<const ValueId> outputs, Slot slot,
                                            const Perm& perm);
// Rewrites options and constant inputs (axis, paddings, begin/size) for a movement that Commute returned. Not called
// for data inputs: the layout pass exchanges those. New constants are added to the graph; shared ones are never changed
// in place.
using Rewrite = void (*)(Graph&, Op&, const Movement&);

struct Traits {
  Kind kind;
  Infer infer = nullptr;
  Fold fold = nullptr;        // null: never folded
  Commute commute = nullptr;  // null: fixed, refuses every permutation
  Rewrite rewrite = nullptr;  // null: nothing to rewrite (elementwise)
};

// Throws Error(kInternal) when the kind has no row.
const Traits& traits(Kind kind);

// ---- for rows: movements that many ops share (movement.cc) ----

// Elementwise with numpy broadcasting: every input and output moves alike; inputs of lower rank are lifted, scalars
// (one element) stay. Refuses a slot of lower rank than the output.
std::optional<Movement> follow_elementwise(const OpView&, std::span<const ValueId> outputs, Slot slot,
                                           const Perm& perm);
// Only input 0 and output 0, of equal rank, move alike; all other inputs stay (rewrite remaps their axes).
std::optional<Movement> follow_first(const OpView&, std::span<const ValueId> outputs, Slot slot, const Perm& perm);
// All inputs and all outputs are data of one rank and move alike (CONCATENATION); SPLIT passes data_input to say which
// one is.
std::optional<Movement> follow_all(const OpView&, std::span<const ValueId> outputs, Slot slot, const Perm& perm);

// Where axis `axis` of the unpermuted tensor is found after `perm`.
int moved_axis(int axis, const Perm& perm);

std::span<const Traits>
elementwise_traits();  // ops/elementwise.cc: unary and binary arithmetic, comparisons, select, cast, quantize
std::span<const Traits> reduce_traits();  // ops/reduce.cc: sums, arg-max, cumsum, softmax, top-k
std::span<const Traits> shape_traits();  // ops/shape.cc: reshape, squeeze, expand, shape, rank, transpose, pack, unpack
std::span<const Traits> movement_traits();  // ops/movement.cc: concat, split, slice, pad, gather, scatter, tile,
                                            // broadcast, reverse, fill, range, one-hot, where
std::span<const Traits> conv_traits();      // ops/conv.cc: convolutions, pools, resize, space/depth, normalisations
std::span<const Traits> matmul_traits();    // ops/matmul.cc: FULLY_CONNECTED, BATCH_MATMUL

}  // namespace lowtide::core
