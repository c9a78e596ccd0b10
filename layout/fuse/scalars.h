// SPDX-License-Identifier: Apache-2.0
// Looking around an op for the scalar factors and offsets of which exporters build activations.
#pragma once

#include <optional>

#include "layout/fuse/rewriter.h"

namespace lowtide::layout {

// True when the value is a constant of one element, the number wanted: exactly where it can be written exactly, as 1
// and 0.5; else to four digits, since roots and fitted numbers are written with few.
bool is_scalar(Rewriter& rewriter, ValueId id, double wanted);

// The op that makes a value, unless an activation is fused into it: then it makes something else. Null for none.
const Op* plain_producer(Rewriter& rewriter, ValueId id);

// An op of two inputs, no activation fused, seen as (this value, that other one).
std::optional<ValueId> other_input(Rewriter& rewriter, OpId id, ValueId one);

// The only user of a value, when it is an op of this kind; -1 otherwise.
OpId sole_user(Rewriter& rewriter, ValueId id, Kind kind);

// What is multiplied by a scalar of this value: MUL by it, or DIV by its inverse.
std::optional<ValueId> scaled(Rewriter& rewriter, ValueId id, double factor);

}  // namespace lowtide::layout
