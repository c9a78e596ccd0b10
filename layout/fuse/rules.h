// SPDX-License-Identifier: Apache-2.0
// The families of fusion rules, one file each.
#pragma once

#include <span>

#include "layout/core/rewriter.h"

namespace lowtide::layout {

using core::Graph;
using core::Kind;
using core::Op;
using core::OpId;
using core::Rewriter;
using core::Rule;
using core::Val;
using core::ValueId;

// A rule and the kind of op at which it starts.
struct FuseRule {
  Kind kind;
  Rule rule;
};

std::span<const FuseRule> identity_rules();         // identity.cc: ops that give an operand back
std::span<const FuseRule> transpose_rules();        // transpose.cc: behind ops to be fused, merged with each other
std::span<const FuseRule> flatten_rules();          // flatten.cc: the order of flattened elements into weights
std::span<const FuseRule> matmul_rules();           // matmul.cc: transpose into an adj flag
std::span<const FuseRule> grouped_queries_rules();  // grouped_queries.cc: heads of keys that several of queries share
std::span<const FuseRule> split_heads_rules();      // split_heads.cc: queries, keys and values before heads are moved
std::span<const FuseRule> pixel_shuffle_rules();    // pixel_shuffle.cc: to DEPTH_TO_SPACE
std::span<const FuseRule> lead_axes_rules();        // lead_axes.cc: a reshape behind last-axis ops
std::span<const FuseRule> merged_axes_rules();      // merged_axes.cc: unmerges axes that are reduced
std::span<const FuseRule> reshape_rules();          // reshape.cc
std::span<const FuseRule> pad_rules();              // pad.cc: into convolutions and pools, merged with each other
std::span<const FuseRule> repeat_rules();           // repeat.cc: redundant broadcasts, nested concatenations
std::span<const FuseRule> scale_rules();            // scale.cc: MUL, DIV, ADD, SUB by constants into weights and biases
std::span<const FuseRule> scale_upwards_rules();    // scale_upwards.cc: factors of all elements, up to constants
std::span<const FuseRule> small_factor_rules();     // small_factor.cc: factors smaller than what they scale, first
std::span<const FuseRule> affine_rules();           // affine.cc: the same into the weights after them
std::span<const FuseRule> nan_guard_rules();        // nan_guard.cc: of a softmax that cannot be NaN
std::span<const FuseRule> reciprocal_root_rules();  // reciprocal_root.cc: RSQRT
std::span<const FuseRule> negated_part_rules();     // negated_part.cc: a NEG before a product with a table
std::span<const FuseRule> hard_swish_rules();       // hard_swish.cc
std::span<const FuseRule> gelu_rules();             // gelu.cc
std::span<const FuseRule> prelu_rules();            // prelu.cc
std::span<const FuseRule> activation_rules();       // activation.cc

}  // namespace lowtide::layout
