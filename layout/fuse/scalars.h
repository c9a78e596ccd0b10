// SPDX-License-Identifier: Apache-2.0
// Matches the scalar factors and offsets of which exporters compose activations.
#pragma once

#include <optional>

#include "layout/fuse/rules.h"

namespace lowtide::layout {

// Whether the value is a constant with one element equal to the given number: exactly for numbers such as 1 and 0.5, to
// four digits for others, because exporters write roots and fitted constants with few digits. In a model that has f16
// or bf16, also the number that is nearest to it there.
bool is_scalar(Rewriter& rewriter, ValueId id, double wanted);

// The producer of a value; null when there is none or an activation is fused into it.
const Op* plain_producer(Rewriter& rewriter, ValueId id);

// For an op with two inputs and no fused activation: its other input.
std::optional<ValueId> other_input(Rewriter& rewriter, OpId id, ValueId one);

// The only user of a value, when it is an op of this kind; -1 otherwise.
OpId sole_user(Rewriter& rewriter, ValueId id, Kind kind);

// The operand of a multiplication by this scalar: MUL by it, or DIV by its inverse.
std::optional<ValueId> scaled(Rewriter& rewriter, ValueId id, double factor);

}  // namespace lowtide::layout
