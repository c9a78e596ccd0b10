// SPDX-License-Identifier: Apache-2.0
// The families of fusing rules; each is one file beside this one.
#pragma once

#include <span>

#include "layout/fuse/rewriter.h"

namespace lowtide::layout {

std::span<const FuseRule> transpose_rules();  // transpose.cc: past what is fused into weighted ops, into one another
std::span<const FuseRule> matmul_rules();     // matmul.cc: a flatten into the weights, a transpose into an adj flag
std::span<const FuseRule> pixel_shuffle_rules();  // pixel_shuffle.cc: to DEPTH_TO_SPACE
std::span<const FuseRule> lead_axes_rules();      // lead_axes.cc: a reshape behind what does not mind it
std::span<const FuseRule> merged_axes_rules();    // merged_axes.cc: axes apart for what reduces over all of them
std::span<const FuseRule> reshape_rules();        // reshape.cc
std::span<const FuseRule> pad_rules();            // pad.cc: into convolutions and pools, into one another
std::span<const FuseRule> repeat_rules();      // repeat.cc: broadcasts into what broadcasts by itself, concatenations
std::span<const FuseRule> scale_rules();       // scale.cc: MUL, DIV, ADD, SUB by constants into weights and biases
std::span<const FuseRule> affine_rules();      // affine.cc: MUL and ADD by constants into the weights after them
std::span<const FuseRule> hard_swish_rules();  // hard_swish.cc
std::span<const FuseRule> gelu_rules();        // gelu.cc
std::span<const FuseRule> activation_rules();  // activation.cc

}  // namespace lowtide::layout
