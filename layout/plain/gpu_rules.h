// SPDX-License-Identifier: Apache-2.0
// The rules of --for gpu, one file for each idea.
#pragma once

#include "layout/plain/rules.h"

namespace lowtide::layout {

std::span<const PlainRule> gpu_transpose_rules();    // gpu_transpose.cc: more than four axes, in steps of four
std::span<const PlainRule> gpu_integer_pad_rules();  // gpu_shapes.cc: pads of integers
std::span<const PlainRule> gpu_pad_rules();          // gpu_shapes.cc: pads of rank 1 and 2
std::span<const PlainRule> gpu_one_element_rules();  // gpu_shapes.cc: results of rank 0
std::span<const PlainRule> gpu_constant_rules();     // gpu_constants.cc: GATHER of constants, constants with batches
std::span<const PlainRule> gpu_select_rules();       // gpu_select.cc: operands of SELECT_V2 that are broadcast
std::span<const PlainRule> gpu_part_rules();         // gpu_parts.cc: SPLIT and UNPACK that the delegate misreads
std::span<const PlainRule> gpu_update_rules();       // gpu_update.cc: DYNAMIC_UPDATE_SLICE at a constant place
std::span<const PlainRule> gpu_product_rules();      // gpu_products.cc: constants on the left of BATCH_MATMUL
std::span<const PlainRule> gpu_math_rules();         // gpu_math.cc: LOG_SOFTMAX, LOCAL_RESPONSE_NORMALIZATION, NaN
std::span<const PlainRule> gpu_sum_rules();          // gpu_sums.cc: CUMSUM
std::span<const PlainRule> gpu_reverse_rules();      // reverse.cc: channels turned round
std::span<const PlainRule> gpu_output_rules();       // gpu_outputs.cc: outputs that the delegate would not write
std::span<const PlainRule> gpu_activation_rules();   // gpu_activations.cc: RELU_0_TO_1

}  // namespace lowtide::layout
