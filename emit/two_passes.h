// SPDX-License-Identifier: Apache-2.0
// Transposes a large matrix in two passes, by way of space in front of it in the file, which is written later.
//
//     input [columns, rows]      space (one panel)           result [rows, columns]
//     |..aaaa..                  |aa|bb|cc                   |......
//     |..aaaa..  each band of    |aa|bb|cc   a chunk is a    |......
//     |..bbbb..  a panel becomes |aa|bb|cc   piece of each   |aabbcc
//     |..bbbb..  a small matrix  |aa|bb|cc   band            |aabbcc
//     |..cccc..                                              |......
//
// The matrix is divided into panels, from the last to the first. The first pass reads rows of some KiB and writes
// bands. The second reads pieces of some KiB and writes chunks. So there are few calls, where blocks
// (stream/recipe/blocks.h) need one for each row of a block. All panels use the same space: it is so small that it
// stays in a cache of the processor, and that the disk may write it once more.
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
  uint64_t space = 0;         // of the bands: as many bytes as a panel has
  uint64_t first_row = 0;     // of the result, in the first panel: rows before it have no space in front
  uint64_t panel_rows = 0;    // of the result, in a panel; the last one may have fewer
  uint64_t band_columns = 0;  // of the result, in a band; the last one may have fewer
  uint64_t chunk_rows = 0;    // of the result, in a chunk; the last one of a panel may have fewer

  uint64_t first_element() const;  // of the result, in the first panel
  uint64_t panels() const;
  uint64_t bands() const;  // of each panel
  uint64_t chunks(uint64_t panel) const;
  uint64_t space_bytes() const;
  // Of the buffers that write_band() and write_chunk() need.
  uint64_t band_bytes() const;
  uint64_t chunk_buffer_bytes() const;
};

// A band, or in the second pass a chunk, of a panel.
struct PanelPart {
  uint64_t panel, index;
};

// How to transpose `recipe` in two passes with panels of about `panel_bytes`, and buffers of at most so many bytes for
// a band and for a chunk; nullopt where it is not a transposed matrix of whole bytes, where one pass reads long rows,
// where rows of the panels or pieces of their bands would be short, and where the space in front of it is too small.
// That space begins at `space` and may reach into the matrix.
std::optional<TwoPasses> two_passes_of(const stream::RecipeRef& recipe, uint64_t position, uint64_t space,
                                       uint64_t panel_bytes, uint64_t band_bytes, uint64_t chunk_bytes);

// First pass: a band, read by a reader of `passes.recipe`, goes to its place in the space.
void write_band(const TwoPasses& passes, PanelPart part, stream::BoxReader& reader, std::span<std::byte> buffer,
                stream::OutFile& out);
// Second pass, when all bands of the panel are written: a chunk of the result. Returns its bytes.
uint64_t write_chunk(const TwoPasses& passes, PanelPart part, std::span<std::byte> buffer, stream::OutFile& out);

}  // namespace lowtide::emit
