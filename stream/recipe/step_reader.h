// SPDX-License-Identifier: Apache-2.0
// A recipe made ready to run: a tree of readers, one for each step, that read boxes of their tensor on demand.
//
//     RecipeReader -> Reshape -> Permute -> Binary -> Stored -> a mapped window, or pread
//                                        '----> Inline          each asks the next for the box it needs, tile by tile
//
// A box whose lanes stand one after the other in a file needs no copy: view() gives them where they are mapped.
//
// Scratch is a stack of tiles of one size, taken from the budget once. A step that needs more than its tile holds does
// its box in pieces, so that the depth of the recipe, and not the size of the tensor, decides the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "stream/file/budget.h"
#include "stream/file/window.h"
#include "stream/recipe/box.h"
#include "stream/recipe/recipe.h"

namespace lowtide::stream {

class Scratch {
 public:
  // `kept` bytes are for results that are kept (see Needs). `budget` outlives it.
  Scratch(Budget& budget, uint64_t tiles, uint64_t tile_bytes, uint64_t kept)
      : budget_(budget),
        tile_bytes_(tile_bytes),
        lease_(tiles + kept ? budget.take(tiles * tile_bytes + kept, "tiles") : Budget::Lease()),
        next_kept_(lease_.data() + tiles * tile_bytes) {}
  uint64_t tile_bytes() const { return tile_bytes_; }
  // Elements of this many bytes (all arrays of a step together) that fit one tile.
  uint64_t fits(int bytes) const { return tile_bytes_ / static_cast<uint64_t>(bytes); }
  std::byte* keep(uint64_t bytes) { return std::exchange(next_kept_, next_kept_ + bytes); }

  // Bytes of a source where they are mapped, until the next call or close_window(); null when they are to be read by
  // read_at(). Only one window is open at a time. Throws Error(kIo), also for the window that was open before.
  const std::byte* window(const Source& source, uint64_t offset, uint64_t bytes);
  void close_window();
  void check_window() const { window_.check(); }

 private:
  friend class Tile;
  Budget& budget_;
  uint64_t tile_bytes_;
  Budget::Lease lease_;
  std::byte* next_kept_;
  uint64_t used_ = 0;
  Window window_;
};

// One tile, given back at the end of its scope.
class Tile {
 public:
  explicit Tile(Scratch& scratch)
      : scratch_(scratch), data_(scratch.lease_.data() + scratch.used_++ * scratch.tile_bytes_) {}
  ~Tile() { --scratch_.used_; }
  Tile(const Tile&) = delete;
  Tile& operator=(const Tile&) = delete;
  std::byte* data() const { return data_; }
  operator std::byte*() const { return data_; }

 private:
  Scratch& scratch_;
  std::byte* data_;
};

class StepReader {
 public:
  explicit StepReader(const Recipe& recipe);
  virtual ~StepReader() = default;
  // Writes the box (not empty, inside the tensor) to `out`, dense and row-major, one lane an element. `out` is aligned
  // to the lane and does not overlap the tiles that `read` may take.
  virtual void read(const Box& box, std::byte* out) = 0;
  // The same lanes without a copy, until the next view() or read() with the same Scratch, at any address; null where
  // they are not in memory one after the other.
  virtual const std::byte* view(const Box& /*box*/) { return nullptr; }
  // The same, aligned to the lane: a view, or `tile` that they were read into.
  const std::byte* lanes(const Box& box, std::byte* tile);

  const Shape& dims() const { return dims_; }
  DType dtype() const { return dtype_; }
  int lane() const { return lane_; }

  std::byte* at(std::byte* out, uint64_t element) const { return out + element * static_cast<uint64_t>(lane_); }
  const std::byte* at(const std::byte* in, uint64_t element) const {
    return in + element * static_cast<uint64_t>(lane_);
  }

 protected:
  // The box of the whole tensor's dense lanes.
  void copy_runs(const Box& box, const std::byte* lanes, std::byte* out) const;

  Shape dims_;
  DType dtype_;
  int lane_;
};

using StepReaderRef = std::shared_ptr<StepReader>;

// The scratch that a recipe needs. `largest` is the size in bytes of its largest step. `kept`: a small operand of a
// large step (the scale of a channel, a reduction) is worked out once and kept, not once for each tile.
struct Needs {
  uint64_t tiles = 0;
  uint64_t largest = 0;
  uint64_t kept = 0;
};
Needs needs_of(const Recipe& recipe);
// Steps shared by several others are built once. `recipe` outlives the reader.
StepReaderRef make_reader(const Recipe& recipe, Scratch& scratch);

}  // namespace lowtide::stream
