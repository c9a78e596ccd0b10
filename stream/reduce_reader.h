// Reductions over a stream: each element of the result has an accumulator, and the input goes by once.
//
// The order is fixed: the elements of the input that fall on one element of the result are taken in row-major order,
// one after the other. Floats accumulate in double and are rounded to their type once, at the end; integers wrap. So
// the bytes depend neither on the tiles nor on how the result is asked for.
#pragma once

#include "stream/reader.h"

namespace lowtide::stream {

inline constexpr uint64_t kReduceTiles = 2;  // accumulators and input
ReaderRef make_reduce_reader(const Recipe& recipe, const step::Reduce& step, ReaderRef input, Scratch& scratch);

}  // namespace lowtide::stream
