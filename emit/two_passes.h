// SPDX-License-Identifier: Apache-2.0
// Transposes a large matrix in two passes, by way of the space of the file in front of it, which is written later.
//
//     input [columns, rows]      space in front              result [rows, columns]
//     |aaaaaa                    |aa|bb|cc                   |aabbcc
//     |aaaaaa   each band of     |aa|bb|cc   a chunk is a    |aabbcc
//     |bbbbbb   rows becomes     |aa|bb|cc   piece of each   |------
//     |bbbbbb   a small matrix   |aa|bb|cc   band            |aabbcc
//     |cccccc                    |--------                   |aabbcc
//     |cccccc
//
// The first pass reads and writes in order. The second reads pieces of some KiB and writes chunks. So there are few
// calls, where blocks (stream/recipe/blocks.h) need one for each row of a block; what it costs is a second copy in the
// page cache, of pages that the file needs anyway. Only for outputs that the kernel keeps in memory: else the disk
// would write the bands too.
#pragma once

#include <optional>
#include <span>

#include "stream/file/out_file.h"
#include "stream/recipe/recipe.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::emit {

struct TwoPasses {
  stream::RecipeRef recipe;   // the transposed matrix
  uint64_t position = 0;      // of the result in the file
  uint64_t space = 0;         // of the bands: as many bytes as the result has
  uint64_t band_columns = 0;  // of the result, in a band; the last one may have fewer
  uint64_t chunk_rows = 0;    // of the result, in a chunk; the last one may have fewer

  uint64_t bands() const;
  uint64_t chunks() const;
  uint64_t bytes() const;
  // Of the buffers that write_band() and write_chunk() need.
  uint64_t band_bytes() const;
  uint64_t chunk_buffer_bytes() const;
};

// How to transpose `recipe` in two passes with buffers of at most so many bytes for a band and for a chunk; nullopt
// where it is not a transposed matrix of whole bytes, where one pass reads long rows, where the pieces of two would be
// short, and where the space in front of it is too small.
std::optional<TwoPasses> two_passes_of(const stream::RecipeRef& recipe, uint64_t position, stream::Range space,
                                       uint64_t band_bytes, uint64_t chunk_bytes);

// First pass: band `index`, read by a reader of `passes.recipe`, goes to its place in the space.
void write_band(const TwoPasses& passes, uint64_t index, stream::BoxReader& reader, std::span<std::byte> buffer,
                stream::OutFile& out);
// Second pass, when all bands are written: chunk `index` of the result. Returns its bytes.
uint64_t write_chunk(const TwoPasses& passes, uint64_t index, std::span<std::byte> buffer, stream::OutFile& out);

}  // namespace lowtide::emit
