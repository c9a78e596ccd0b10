// SPDX-License-Identifier: Apache-2.0
#include "emit/two_passes.h"

#include <algorithm>
#include <cstring>
#include <variant>

namespace lowtide::emit {
namespace {

constexpr uint64_t kLeastRun = 32;  // bytes of a band's row: shorter ones are slow to copy one by one
constexpr uint64_t kLeastPiece =
    2048;  // bytes that the second pass reads of a band: to copy them costs what a call costs
constexpr uint64_t kLongEnough = 4096;  // bytes of a row of the input: where chunks read so many, one pass is as fast
constexpr uint64_t kPanelRow = 8192;    // bytes that a panel has at least of each row of the input
constexpr uint64_t kPage = 4096;

uint64_t dim_of(const TwoPasses& passes, size_t axis) { return static_cast<uint64_t>(passes.recipe->dims[axis]); }
uint64_t lane_of(const TwoPasses& passes) { return static_cast<uint64_t>(stream::lane_bytes(passes.recipe->dtype)); }
uint64_t row_bytes_of(const TwoPasses& passes) { return dim_of(passes, 1) * lane_of(passes); }
uint64_t divided(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

struct Part {
  uint64_t begin, count;
};
Part part_of_axis(uint64_t size, uint64_t step, uint64_t index) {
  return {index * step, std::min(step, size - index * step)};
}
Part rows_of_panel(const TwoPasses& passes, uint64_t panel) {
  const Part part = part_of_axis(dim_of(passes, 0) - passes.first_row, passes.panel_rows, panel);
  return {passes.first_row + part.begin, part.count};
}

}  // namespace

uint64_t TwoPasses::first_element() const { return first_row * dim_of(*this, 1); }
uint64_t TwoPasses::panels() const { return divided(dim_of(*this, 0) - first_row, panel_rows); }
uint64_t TwoPasses::bands() const { return divided(dim_of(*this, 1), band_columns); }
uint64_t TwoPasses::chunks(uint64_t panel) const { return divided(rows_of_panel(*this, panel).count, chunk_rows); }
uint64_t TwoPasses::space_bytes() const { return panel_rows * row_bytes_of(*this); }
uint64_t TwoPasses::band_bytes() const { return panel_rows * band_columns * lane_of(*this); }
uint64_t TwoPasses::chunk_buffer_bytes() const {
  return chunk_rows * (dim_of(*this, 1) + band_columns) * lane_of(*this);
}

std::optional<TwoPasses> two_passes_of(const stream::RecipeRef& recipe, uint64_t position, uint64_t space,
                                       uint64_t panel_bytes, uint64_t band_bytes, uint64_t chunk_bytes) {
  TwoPasses passes{.recipe = recipe, .position = position, .space = space};
  while (std::holds_alternative<stream::step::Reshape>(passes.recipe->step)) passes.recipe = passes.recipe->from[0];
  const auto* permute = std::get_if<stream::step::Permute>(&passes.recipe->step);
  if (permute == nullptr || passes.recipe->dims.size() != 2 || permute->perm[0] != 1 ||
      stream::bits(recipe->dtype) < 8 || recipe->elements() == 0)
    return std::nullopt;
  const uint64_t lane = lane_of(passes), rows = dim_of(passes, 0), row_bytes = row_bytes_of(passes);
  const uint64_t end = position + rows * row_bytes;
  if (end <= space) return std::nullopt;
  // The last panel has space in front of it where both together are not more than there is.
  const uint64_t most = (end - space) / 2 / row_bytes;
  passes.panel_rows = std::min({rows, most, std::max(panel_bytes / row_bytes, kPanelRow / lane)});
  if (passes.panel_rows < rows && passes.panel_rows * lane < kLongEnough) return std::nullopt;
  const uint64_t bytes = passes.space_bytes(), in_pages = divided(space, kPage) * kPage;
  passes.space = space + bytes <= position ? std::min(in_pages, position - bytes) : in_pages;
  const uint64_t space_end = passes.space + bytes;
  if (space_end > position) passes.first_row = divided(space_end - position, row_bytes);
  passes.band_columns = std::min(dim_of(passes, 1), band_bytes / (passes.panel_rows * lane));
  passes.chunk_rows = chunk_bytes / (row_bytes + passes.band_columns * lane);
  if (passes.chunk_rows * lane >= kLongEnough) return std::nullopt;
  passes.chunk_rows = std::min(passes.chunk_rows, passes.panel_rows);
  const uint64_t run = passes.band_columns * lane;
  if (run < kLeastRun || run * passes.chunk_rows < kLeastPiece) return std::nullopt;
  return passes;
}

void write_band(const TwoPasses& passes, PanelPart part, stream::BoxReader& reader, std::span<std::byte> buffer,
                stream::OutFile& out) {
  const Part rows = rows_of_panel(passes, part.panel);
  const Part columns = part_of_axis(dim_of(passes, 1), passes.band_columns, part.index);
  const stream::Box box{{static_cast<stream::Dim>(rows.begin), static_cast<stream::Dim>(columns.begin)},
                        {static_cast<stream::Dim>(rows.count), static_cast<stream::Dim>(columns.count)}};
  reader.read(box, buffer.data());
  const uint64_t column_bytes = rows.count * lane_of(passes);
  out.write_for_now(passes.space + columns.begin * column_bytes, buffer.first(columns.count * column_bytes));
}

uint64_t write_chunk(const TwoPasses& passes, PanelPart part, std::span<std::byte> buffer, stream::OutFile& out) {
  const uint64_t columns = dim_of(passes, 1), lane = lane_of(passes), row_bytes = columns * lane;
  const Part panel = rows_of_panel(passes, part.panel);
  const Part rows = part_of_axis(panel.count, passes.chunk_rows, part.index);
  const auto chunk = buffer.first(rows.count * row_bytes), rest = buffer.subspan(chunk.size());
  for (uint64_t band = 0; band < passes.bands(); ++band) {
    const Part piece_columns = part_of_axis(columns, passes.band_columns, band);
    const uint64_t run = piece_columns.count * lane;
    const auto piece = rest.first(rows.count * run);
    out.read_at(passes.space + piece_columns.begin * panel.count * lane + rows.begin * run, piece);
    for (uint64_t row = 0; row < rows.count; ++row)
      std::memcpy(chunk.data() + row * row_bytes + piece_columns.begin * lane, piece.data() + row * run, run);
  }
  out.write_at(passes.position + (panel.begin + rows.begin) * row_bytes, chunk);
  return chunk.size();
}

}  // namespace lowtide::emit
