// A recipe made ready to run: a tree of readers, one for each step, that read boxes of their tensor on demand.
//
//     Pourer -> Reshape -> Permute -> Binary -> Extent -> pread
//                                        '----> Inline          each asks the next for the box it needs, tile by tile
//
// Scratch is a stack of tiles of one size, taken from the budget once. A step that needs more than its tile holds does
// its box in pieces, so that the depth of the recipe, and not the size of the tensor, decides the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stream/box.h"
#include "stream/budget.h"
#include "stream/recipe.h"

namespace lowtide::stream {

class Scratch {
 public:
  Scratch(Budget& budget, uint64_t tiles, uint64_t tile_bytes)
      : tile_bytes_(tile_bytes), lease_(tiles ? budget.take(tiles * tile_bytes, "tiles") : Budget::Lease()) {}
  uint64_t tile_bytes() const { return tile_bytes_; }
  // Elements of this many bytes (all arrays of a step together) that fit one tile.
  uint64_t fits(int bytes) const { return tile_bytes_ / static_cast<uint64_t>(bytes); }

 private:
  friend class Tile;
  uint64_t tile_bytes_;
  Budget::Lease lease_;
  uint64_t used_ = 0;
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

class Reader {
 public:
  explicit Reader(const Recipe& recipe);
  virtual ~Reader() = default;
  // Writes the box (not empty, inside the tensor) to `out`, dense and row-major, one lane an element. `out` is aligned
  // to the lane and does not overlap the tiles that `read` may take.
  virtual void read(const Box& box, std::byte* out) = 0;

  const Shape& dims() const { return dims_; }
  DType dtype() const { return dtype_; }
  int lane() const { return lane_; }

  std::byte* at(std::byte* out, uint64_t element) const { return out + element * static_cast<uint64_t>(lane_); }

 protected:
  Shape dims_;
  DType dtype_;
  int lane_;
};

using ReaderRef = std::shared_ptr<Reader>;

// The sizes of scratch a recipe needs; `largest` is the size in bytes of its largest step.
struct Needs {
  uint64_t tiles = 0;
  uint64_t largest = 0;
};
Needs needs_of(const Recipe& recipe);
// Steps shared by several others are built once. `recipe` outlives the reader.
ReaderRef make_reader(const Recipe& recipe, Scratch& scratch);

}  // namespace lowtide::stream
