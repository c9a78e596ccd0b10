// SPDX-License-Identifier: Apache-2.0
// One reader for each step of a recipe. Where they are: stored_reader.cc, reduce_reader.cc, shape_readers.cc (moving
// elements), arithmetic_readers.cc (computing), make_reader.cc (the constants).
#pragma once

#include <type_traits>
#include <vector>

#include "stream/recipe/step_reader.h"

namespace lowtide::stream {

using StepReaders = std::vector<StepReaderRef>;

StepReaderRef make_step_reader(const Recipe& recipe, const step::Stored& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Inline& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Fill& step, const StepReaders& from, Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Iota& step, const StepReaders& from, Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Permute& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Reshape& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Cast& step, const StepReaders& from, Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Slice& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Concat& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Broadcast& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Pad& step, const StepReaders& from, Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Gather& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Unary& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Binary& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Select& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Quantize& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Dequantize& step, const StepReaders& from,
                               Scratch& scratch);
StepReaderRef make_step_reader(const Recipe& recipe, const step::Reduce& step, const StepReaders& from,
                               Scratch& scratch);

// Tiles that a step holds while it reads its inputs.
template <typename Step>
constexpr uint64_t tiles_held() {
  using std::is_same_v;
  if (is_same_v<Step, step::Inline> || is_same_v<Step, step::Fill> || is_same_v<Step, step::Iota>) return 0;
  if (is_same_v<Step, step::Reshape> || is_same_v<Step, step::Unary>) return 0;
  if (is_same_v<Step, step::Stored>) return 2;  // a span of rows, and encoded bytes
  if (is_same_v<Step, step::Reduce>) return 2;  // accumulators, and input
  if (is_same_v<Step, step::Binary>) return 2;
  if (is_same_v<Step, step::Select>) return 3;
  return 1;
}

void fill_lanes(const std::vector<std::byte>& lane, std::byte* out, uint64_t count);

// The part of a broadcast operand of shape `dims` that a box of the result needs.
Box operand_box(const Box& box, const Shape& dims);

}  // namespace lowtide::stream
