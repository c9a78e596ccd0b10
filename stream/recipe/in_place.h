// SPDX-License-Identifier: Apache-2.0
// Which constants a model can leave in the file that they lie in: LiteRT's external buffers name a file, an offset and
// a length. It maps each by itself, hence the rules.
#pragma once

#include "stream/recipe/recipe.h"

namespace lowtide::stream {

// LiteRT refuses host memory at other addresses ("Unaligned host memory pointer").
inline constexpr uint64_t kInPlaceAlignment = 64;
// A page, the least that is mapped: below, naming takes more memory than copying.
inline constexpr uint64_t kLeastInPlace = 4096;

// The run of a file that holds a constant as it will be stored, or null when it has to be computed, does not lie
// in a file as it is (a compressed one), or is small.
const step::Stored* stored_in_file(const Recipe& recipe);
// The same, if its offset is one that LiteRT takes.
const step::Stored* stored_in_place(const Recipe& recipe);
// True when the constant is such halves (f16), read as f32: a DEQUANTIZE at run time does the same.
bool reads_halves_in_place(const Recipe& recipe);

}  // namespace lowtide::stream
