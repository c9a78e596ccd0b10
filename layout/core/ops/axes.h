// SPDX-License-Identifier: Apache-2.0
// What the rows of ops that name axes share: checks, permutations of fewer or more axes, and the rewriting of constant
// inputs that list axes or have an entry for each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/core/ops/checks.h"

namespace lowtide::core {

// `axis` counted from the front; rejects one outside -rank .. rank-1.
int front_axis(const OpView& op, int64_t axis, int rank);
// Elements of an input that the op's shape depends on; throws Unsupported when they are not known before the run.
std::vector<int64_t> need_ints(const OpView& op, size_t input, const char* what);
// Two extents that must agree: the one that is known better. Rejects two different numbers.
Dim agree(const OpView& op, Dim a, Dim b, const char* what);
// Dimensions as an input lists them: known, or fresh symbols when only the run knows (then the list's length must be
// known).
Shape listed_shape(const OpView& op, size_t input);

// The permutation of what is left when `axes` are taken out of a tensor stored permuted by `perm`.
Perm drop_axes(const Perm& perm, const std::vector<int>& axes);
// The reverse: a permutation of the whole from one of the rest; `axes` (of the whole, unpermuted) keep their places.
Perm insert_axes(const Perm& perm, const std::vector<int>& axes);

// Replaces a constant input that has one entry (or row of `width` entries) for each axis by the permuted one.
void permute_entries(Graph& graph, Op& op, size_t input, const Perm& perm, int width = 1);
// Replaces a constant input that lists axes (any sign) by the axes' new places.
void move_axes(Graph& graph, Op& op, size_t input, const Perm& perm);

// The same for an axis in the options.
void move_axis(int& axis, const Perm& perm);

// A movement of an op with so many outputs in which every slot stays so far.
Movement movement_of(const OpView& op, size_t outputs);
// How an op moves that takes `axes` out of input 0 (a reduction), or adds them to it (EXPAND_DIMS; `axes` are the
// result's): `slot`, which is input 0 or an output, is permuted by `perm`.
Movement dropping_axes(const OpView& op, size_t outputs, Slot slot, const Perm& perm, const std::vector<int>& axes);
Movement adding_axes(const OpView& op, size_t outputs, Slot slot, const Perm& perm, const std::vector<int>& axes);

// Contents of an output whose elements are elements of input `input`, carried by the same recipe step that folds it.
std::optional<std::vector<Dim>> carried(const OpView& op, size_t input,
                                        const std::function<RecipeRef(RecipeRef)>& move);
// Contents of a non-constant input whose elements stay in order.
std::optional<std::vector<Dim>> same_contents(const OpView& op, size_t input);
// Contents of all inputs, one after the other.
std::optional<std::vector<Dim>> joined_contents(const OpView& op);

}  // namespace lowtide::core
