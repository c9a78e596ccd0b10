// SPDX-License-Identifier: Apache-2.0
// Seekable zstd data (seekable.h) read at random, without a decompressed copy on the disk: a frame at a time is
// decompressed into memory. Made for reading on from front to end; who reads back and forth had better decompress once
// into a spill (zstd_source.h).
//
// The traps: the table is the file's word, not the frames'; all its sums and every frame's size are checked. A frame
// may be as large as its maker liked: it must fit the budget.
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

// A file, or what it holds when its name ends in .zst: by its table of frames, else decompressed into the spill, for
// which `look` is (zstd_source.h).
std::shared_ptr<Source> open_decompressed(const std::filesystem::path& path, Spill& spill, Budget& budget,
                                          const LookAtFirst& look = {});

// What that takes of the budget for `frames` frames of at most `frame_bytes` each.
uint64_t least_for_seekable(uint64_t frames, uint64_t frame_bytes);

}  // namespace lowtide::stream
