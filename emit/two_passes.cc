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
constexpr uint64_t kSpaceAlignment = 4096;

uint64_t dim_of(const TwoPasses& passes, size_t axis) { return static_cast<uint64_t>(passes.recipe->dims[axis]); }
uint64_t lane_of(const TwoPasses& passes) { return static_cast<uint64_t>(stream::lane_bytes(passes.recipe->dtype)); }

struct Part {
  uint64_t begin, count;
};
Part part_of_axis(uint64_t size, uint64_t step, uint64_t index) {
  return {index * step, std::min(step, size - index * step)};
}

}  // namespace

uint64_t TwoPasses::bands() const { return (dim_of(*this, 1) + band_columns - 1) / band_columns; }
uint64_t TwoPasses::chunks() const { return (dim_of(*this, 0) + chunk_rows - 1) / chunk_rows; }
uint64_t TwoPasses::bytes() const { return recipe->elements() * lane_of(*this); }
uint64_t TwoPasses::band_bytes() const { return dim_of(*this, 0) * band_columns * lane_of(*this); }
uint64_t TwoPasses::chunk_buffer_bytes() const {
  return chunk_rows * (dim_of(*this, 1) + band_columns) * lane_of(*this);
}

std::optional<TwoPasses> two_passes_of(const stream::RecipeRef& recipe, uint64_t position, stream::Range space,
                                       uint64_t band_bytes, uint64_t chunk_bytes) {
  TwoPasses passes{.recipe = recipe, .position = position};
  while (std::holds_alternative<stream::step::Reshape>(passes.recipe->step)) passes.recipe = passes.recipe->from[0];
  const auto* permute = std::get_if<stream::step::Permute>(&passes.recipe->step);
  if (permute == nullptr || passes.recipe->dims.size() != 2 || permute->perm[0] != 1 ||
      stream::bits(recipe->dtype) < 8 || recipe->elements() == 0)
    return std::nullopt;
  const uint64_t lane = lane_of(passes), rows = dim_of(passes, 0), columns = dim_of(passes, 1);
  passes.band_columns = std::min(columns, band_bytes / (rows * lane));
  passes.chunk_rows = std::min(rows, chunk_bytes / ((columns + passes.band_columns) * lane));
  const uint64_t run = passes.band_columns * lane;
  if (run < kLeastRun || run * passes.chunk_rows < kLeastPiece || passes.chunk_rows * lane >= kLongEnough)
    return std::nullopt;
  if (space.end < space.begin || space.bytes() < passes.bytes()) return std::nullopt;
  passes.space = std::max((space.end - passes.bytes()) / kSpaceAlignment * kSpaceAlignment, space.begin);
  return passes;
}

void write_band(const TwoPasses& passes, uint64_t index, stream::BoxReader& reader, std::span<std::byte> buffer,
                stream::OutFile& out) {
  const uint64_t rows = dim_of(passes, 0), lane = lane_of(passes);
  const Part columns = part_of_axis(dim_of(passes, 1), passes.band_columns, index);
  const stream::Box box{{0, static_cast<stream::Dim>(columns.begin)},
                        {passes.recipe->dims[0], static_cast<stream::Dim>(columns.count)}};
  reader.read(box, buffer.data());
  out.write_at(passes.space + columns.begin * rows * lane, buffer.first(columns.count * rows * lane));
}

uint64_t write_chunk(const TwoPasses& passes, uint64_t index, std::span<std::byte> buffer, stream::OutFile& out) {
  const uint64_t columns = dim_of(passes, 1), lane = lane_of(passes), row_bytes = columns * lane;
  const Part rows = part_of_axis(dim_of(passes, 0), passes.chunk_rows, index);
  const auto chunk = buffer.first(rows.count * row_bytes), rest = buffer.subspan(chunk.size());
  for (uint64_t band = 0; band < passes.bands(); ++band) {
    const Part part = part_of_axis(columns, passes.band_columns, band);
    const uint64_t run = part.count * lane, begin = passes.space + part.begin * dim_of(passes, 0) * lane;
    const auto piece = rest.first(rows.count * run);
    out.read_at(begin + rows.begin * run, piece);
    for (uint64_t row = 0; row < rows.count; ++row)
      std::memcpy(chunk.data() + row * row_bytes + part.begin * lane, piece.data() + row * run, run);
  }
  out.write_at(passes.position + rows.begin * row_bytes, chunk);
  return chunk.size();
}

}  // namespace lowtide::emit
