// SPDX-License-Identifier: Apache-2.0
// Small blocks of memory from slabs of blocks of one size, for operator new (operator_new.cc).
//
// A graph of 100,000 nodes is a million small blocks, which passes take and give back in any order. malloc merges and
// divides such blocks all the time, in memory that is far apart, and puts a header before each. Here a block is taken
// from the list of free ones of a slab, and put back there:
//
//     reserved addresses:  | slab: 16 bytes each | slab: 48 bytes each | empty slab | never used ...
//
// An empty slab may get blocks of another size. Few keep their memory, the others return it to the system.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace lowtide::tools {

// Has no constructor that runs and no destructor: there are blocks before main() and behind it.
class SmallBlocks {
 public:
  static constexpr size_t kLargest = 2048;

  // For at most kLargest bytes; aligned as operator new must be. Null when there is no memory or no address left.
  void* take(size_t bytes);
  // False when the block is not of here.
  bool put_back(void* block);

 private:
  static constexpr size_t kAlignment = 16;
  static constexpr size_t kSlabBytes = 16 << 10;
  static constexpr size_t kReserved = size_t{2} << 30;  // addresses, not memory
  static constexpr size_t kGrowth = 1 << 20;            // addresses that become usable at once
  static constexpr uint32_t kKeptEmpty = 32;            // empty slabs that keep their memory: they are soon used again
  static constexpr uint32_t kNone = 0;                  // slabs are numbered from 1

  struct FreeBlock {
    FreeBlock* next;
  };
  struct Slab {
    FreeBlock* free;
    uint32_t previous, next;  // in the list that it is in
    uint16_t block_bytes;
    uint16_t blocks, begun, in_use;  // begun: ever in use, the memory behind them is untouched
  };
  struct List {
    uint32_t first = kNone;
    uint32_t size = 0;
  };

  static size_t block_bytes(size_t bytes);
  std::byte* memory(uint32_t slab) const { return begin_ + (slab - 1) * kSlabBytes; }
  void push(List& list, uint32_t slab);
  void remove(List& list, uint32_t slab);
  void reserve();
  uint32_t new_slab();
  uint32_t empty_slab();

  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  size_t reserved_ = 0, usable_ = 0, used_ = 0;  // bytes from begin_
  bool is_reserved_ = false;
  std::array<Slab, kReserved / kSlabBytes + 1> slabs_ = {};
  std::array<List, kLargest / kAlignment + 1> with_room_ = {};  // by the size of their blocks
  List empty_, returned_;                                       // without blocks; without memory too
};

}  // namespace lowtide::tools
