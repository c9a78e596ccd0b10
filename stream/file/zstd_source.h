// SPDX-License-Identifier: Apache-2.0
// Zstandard input. Weights are read at random offsets, which a compressed stream does not allow: the data are
// decompressed once into a spill file without a name, which the system removes whatever happens, and read from there.
//
// The traps: a frame asks for a window of up to 2 GiB, a few bytes expand to terabytes, a file may be millions of
// frames one after the other, some of them without content. The window must fit the budget. The first bytes are shown
// to the caller before more is decompressed. The data may expand to a bounded multiple of the file, and to what the
// disk has: a declared size must fit the free space, data that declare none may take half of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "stream/file/budget.h"
#include "stream/file/file.h"

namespace lowtide::stream {

// The most bytes that a byte of .zst input may become, unless --max-zstd-ratio says otherwise. Measured with zstd -19:
// trained f32 weights 1.1, quantized ones stored as floats 4, pruned to 99 % 17, of two values 23; of 96 public models
// all but two stay below 16, and the highest, with masks as constants, is 258. Masks alone reach 2,300, zeros 32,000.
inline constexpr uint64_t kMaxZstdRatio = 1000;
// The limit is never below this: small files with equal values reach any ratio and do no harm.
inline constexpr uint64_t kAlwaysDecompressed = uint64_t{64} << 20;

struct SpillOptions {
  std::filesystem::path folder = {};   // of the spill file where $TMPDIR is not set; else /var/tmp
  uint64_t max_ratio = kMaxZstdRatio;  // 0: no limit
};

// One unnamed file for all that is decompressed in one conversion; made when it is first needed, in $TMPDIR, else in
// the folder of the options, else in /var/tmp (/tmp may be memory). Sources that were made from it keep it alive.
class Spill {
 public:
  explicit Spill(SpillOptions options) : options_(std::move(options)) {}
  std::shared_ptr<const Descriptor> file();
  uint64_t free_bytes();
  // Puts bytes at the end. Throws Error(kNoSpace, kIo).
  void append(std::span<const std::byte> bytes);
  uint64_t size() const { return size_; }
  uint64_t max_ratio() const { return options_.max_ratio; }

 private:
  SpillOptions options_;
  std::shared_ptr<const Descriptor> file_;
  uint64_t size_ = 0;
};

// Is given the first bytes of decompressed data, kFirstBytes (known_formats.h) or all when there are fewer, before more
// is decompressed. Throws when they are not the beginning of what is wanted.
using LookAtFirst = std::function<void(std::span<const std::byte> first)>;

// Throws Error(kMalformed) when the data are not zstd frames, or cut or damaged; Error(kBudget) for a window that is
// too large or more than max_ratio; Error(kNoSpace).
std::shared_ptr<Source> decompress(const Source& compressed, Spill& spill, Budget& budget,
                                   const LookAtFirst& look = {});
// The first bytes of what the data decompress to; nothing is spilled. Throws as decompress() does.
std::vector<std::byte> first_decompressed_bytes(const Source& compressed, Budget& budget);

}  // namespace lowtide::stream
