// Reads boxes of a tensor that lies in a file.
#pragma once

#include <memory>

#include "stream/reader.h"

namespace lowtide::stream {

inline constexpr uint64_t kExtentTiles = 2;  // one for a span of rows, one for encoded bytes
ReaderRef make_extent_reader(const Recipe& recipe, const step::Extent& extent, Scratch& scratch);

}  // namespace lowtide::stream
