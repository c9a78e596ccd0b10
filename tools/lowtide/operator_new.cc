// SPDX-License-Identifier: Apache-2.0
// operator new and delete of the program: small blocks are from slabs, which takes a third of malloc's time and less
// memory (small_blocks.h). Large ones are malloc's.
#include <cstdlib>
#include <new>

#include "tools/lowtide/small_blocks.h"

namespace {

constinit lowtide::tools::SmallBlocks small_blocks;

}  // namespace

void* operator new(size_t bytes) {
  void* block = bytes <= lowtide::tools::SmallBlocks::kLargest ? small_blocks.take(bytes) : nullptr;
  if (block == nullptr) block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void operator delete(void* block) noexcept {
  if (block != nullptr && !small_blocks.put_back(block)) std::free(block);
}

void operator delete(void* block, size_t) noexcept { operator delete(block); }
