// SPDX-License-Identifier: Apache-2.0
// operator new and delete of the program: small blocks are from slabs, which takes a third of malloc's time and less
// memory (small_blocks.h). Large ones are malloc's, and those of all threads but the first: graphs are the first
// thread's, and malloc keeps blocks for each thread, so that threads that read small weights do not wait for each
// other.
#include <pthread.h>

#include <cstdlib>
#include <new>

#include "tools/lowtide/small_blocks.h"

namespace {

constinit lowtide::tools::SmallBlocks small_blocks;

bool is_first_thread() {
  static constinit pthread_t first = 0;  // set before there is another thread
  if (first == 0) first = pthread_self();
  return first == pthread_self();
}

}  // namespace

void* operator new(size_t bytes) {
  const bool is_small = bytes <= lowtide::tools::SmallBlocks::kLargest && is_first_thread();
  void* block = is_small ? small_blocks.take(bytes) : nullptr;
  if (block == nullptr) block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void operator delete(void* block) noexcept {
  if (block != nullptr && !small_blocks.put_back(block)) std::free(block);
}

void operator delete(void* block, size_t) noexcept { operator delete(block); }
