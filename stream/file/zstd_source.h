// SPDX-License-Identifier: Apache-2.0
// Zstandard input: weights are read at random offsets, which a compressed stream has none of. So it is decompressed
// once into a spill file without a name, which the system removes whatever happens, and read from there.
//
// The traps: a frame asks for a window of up to 2 GiB, a few bytes expand to terabytes, and a file may be several
// frames one after the other. The window must fit the budget; a declared size must fit the disk, and what declares none
// may take half of the free space.
#pragma once

#include <filesystem>
#include <memory>

#include "stream/file/budget.h"
#include "stream/file/file.h"

namespace lowtide::stream {

// One unnamed file for all that is decompressed in one conversion; made when it is first needed, in $TMPDIR, else in
// `folder`, else in /var/tmp (/tmp may be memory). Sources that were made from it keep it alive.
class Spill {
 public:
  explicit Spill(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const Descriptor> file();
  uint64_t free_bytes();
  // Puts bytes at the end. Throws Error(kNoSpace, kIo).
  void append(std::span<const std::byte> bytes);
  uint64_t size() const { return size_; }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const Descriptor> file_;
  uint64_t size_ = 0;
};

// Throws Error(kMalformed) when the data are no zstd frames, cut or damaged; Error(kBudget) for too large a window;
// Error(kNoSpace).
std::shared_ptr<Source> decompress(const Source& compressed, Spill& spill, Budget& budget);

}  // namespace lowtide::stream
