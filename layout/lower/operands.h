// SPDX-License-Identifier: Apache-2.0
// What lowerings of many families share: the two operands of a binary operator in all its versions, lists of axes.
#pragma once

#include <utility>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// Inputs 0 and 1, lifted so that numpy's broadcasting does what the node means. Before opset 7 broadcasting had to be
// asked for (`broadcast`), and `axis` named the axis of A at which B begins; without it B's axes are A's last.
std::pair<Val, Val> operands(Lowering& lo);

// The optimiser's hint `consumed_inputs` of opsets 1 to 5 says nothing about the result.
void ignore_consumed_inputs(Lowering& lo);

// |x| for every numeric dtype. The smallest integer of a signed type stays itself, as in C.
Val magnitude(Builder& b, Val x);

// The same bits as another integer type of the same width.
Val same_bits(Builder& b, Val x, DType to);
// All bits of an integer turned over, which is -1 - x: the order of the elements is reversed.
Val inverted_bits(Builder& b, Val x);

// A list attribute of `count` numbers, each `otherwise` when it is absent. Malformed: another count, a number below
// `least` or beyond what a kernel's option holds (strides, dilations, pads).
std::vector<int64_t> attr_numbers(Lowering& lo, const char* name, size_t count, int64_t otherwise, int64_t least);

// An attribute that names a floating-point type to compute in; malformed when it names another.
DType attr_float_dtype(Lowering& lo, const char* name, DType otherwise);

// first, first + 1, ..., rank - 1.
std::vector<int> axes_from(int first, int rank);

}  // namespace lowtide::layout
