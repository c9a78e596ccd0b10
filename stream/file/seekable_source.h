// SPDX-License-Identifier: Apache-2.0
// Seekable zstd data (seekable.h), read at random positions without a decompressed copy on the disk: one frame at a
// time is decompressed into memory. It is fast for ascending offsets; for others a spill is faster (zstd_source.h). The
// traps: the table may not agree with the frames: all its sums and the size of every frame are checked. A frame can
// have any size: it must fit the budget. Nothing is spilled, so no ratio is limited.
#pragma once

#include <filesystem>
#include <memory>

#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/file/zstd_source.h"

namespace lowtide::stream {

// Null when the data have no table of frames. `budget` outlives the source. Throws Error(kMalformed) when the table
// contradicts itself or the file, Error(kBudget) when the table and two frames do not fit.
std::shared_ptr<Source> open_seekable(std::shared_ptr<Source> compressed, Budget& budget);

// A file, or what it holds when its name ends in .zst: by its table of frames, else decompressed into the spill; `look`
// is for that case (zstd_source.h).
std::shared_ptr<Source> open_decompressed(const std::filesystem::path& path, Spill& spill, Budget& budget,
                                          const LookAtFirst& look = {});

// The least budget for `frames` frames of at most `frame_bytes` each.
uint64_t least_for_seekable(uint64_t frames, uint64_t frame_bytes);

}  // namespace lowtide::stream
