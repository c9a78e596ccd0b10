// SPDX-License-Identifier: Apache-2.0
// The rules of the phase, one file for each idea.
#pragma once

#include <span>

#include "layout/core/rewriter.h"

namespace lowtide::layout {

using core::Kind;
using core::Op;
using core::OpId;
using core::Rewriter;
using core::Rule;
using core::Val;
using core::ValueId;

// A rule and the kind of op at which it starts.
struct PlainRule {
  Kind kind;
  Rule rule;
};

std::span<const PlainRule> look_up_rules();  // look_up.cc: GATHER by a list of indices; SLICE for constant ones
std::span<const PlainRule> reverse_rules();  // reverse.cc: REVERSE_V2 for STRIDED_SLICE backwards
std::span<const PlainRule> tile_rules();     // tile.cc: TILE for BROADCAST_TO
std::span<const PlainRule> fold_rules();     // fold_constants.cc: what is computed from constants alone
std::span<const PlainRule> mean_rules();     // means.cc: the MEAN of few MEANs

// Whether a RESHAPE to this shape is free: with two dimensions that are known at run time only it has to compute them.
bool can_reshape_to(const core::Shape& shape);

// An f32 without scales.
bool is_float(Rewriter& rewriter, ValueId id);

// TRANSPOSE_CONV with an activation becomes one without, and the activation behind it (activations.cc).
bool activation_behind(Rewriter& rewriter, OpId transpose_conv);

// Puts `made`, which has the elements of `old` in its shape, in the place of `old`, the result of an op that was
// rewritten. Elements, type, scales and name stay.
void replace_result(Rewriter& rewriter, ValueId old, Val made);

}  // namespace lowtide::layout
