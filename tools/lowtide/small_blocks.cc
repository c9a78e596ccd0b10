// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/small_blocks.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>

#include <algorithm>

namespace lowtide::tools {
namespace {

// Locks nothing while there is one thread.
class Lock {
 public:
  explicit Lock(std::mutex& mutex) : mutex_(__libc_single_threaded != 0 ? nullptr : &mutex) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~Lock() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::mutex* mutex_;
};

}  // namespace

void* SmallBlocks::take(size_t bytes) {
  const Lock lock(mutex_);
  const size_t size = block_bytes(bytes);
  List& with_room = with_room_[size / kAlignment];
  if (with_room.first == kNone) {
    const uint32_t fresh = empty_slab();
    if (fresh == kNone) return nullptr;
    slabs_[fresh] = {.block_bytes = static_cast<uint16_t>(size), .blocks = static_cast<uint16_t>(kSlabBytes / size)};
    push(with_room, fresh);
  }
  const uint32_t number = with_room.first;
  Slab& slab = slabs_[number];
  void* block = slab.free;
  if (block != nullptr)
    slab.free = slab.free->next;
  else
    block = memory(number) + size * slab.begun++;
  if (++slab.in_use == slab.blocks) remove(with_room, number);
  return block;
}

bool SmallBlocks::put_back(void* block) {
  const uintptr_t place = reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(begin_);
  if (place >= reserved_) return false;
  const Lock lock(mutex_);
  const auto number = static_cast<uint32_t>(place / kSlabBytes) + 1;
  Slab& slab = slabs_[number];
  auto* freed = static_cast<FreeBlock*>(block);
  freed->next = slab.free;
  slab.free = freed;
  List& with_room = with_room_[slab.block_bytes / kAlignment];
  if (slab.in_use-- == slab.blocks) push(with_room, number);
  if (slab.in_use > 0) return true;
  remove(with_room, number);
  const bool is_kept = empty_.size < kKeptEmpty || madvise(memory(number), kSlabBytes, MADV_DONTNEED) != 0;
  push(is_kept ? empty_ : returned_, number);
  return true;
}

// 8, or a multiple of 16: an object of 8 bytes needs no more than their alignment.
size_t SmallBlocks::block_bytes(size_t bytes) {
  return bytes <= 8 ? 8 : (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void SmallBlocks::push(List& list, uint32_t slab) {
  slabs_[slab].previous = kNone;
  slabs_[slab].next = list.first;
  if (list.first != kNone) slabs_[list.first].previous = slab;
  list.first = slab;
  ++list.size;
}

void SmallBlocks::remove(List& list, uint32_t slab) {
  const auto [previous, next] = std::pair(slabs_[slab].previous, slabs_[slab].next);
  (previous == kNone ? list.first : slabs_[previous].next) = next;
  if (next != kNone) slabs_[next].previous = previous;
  --list.size;
}

uint32_t SmallBlocks::empty_slab() {
  for (List* list : {&empty_, &returned_})
    if (const uint32_t slab = list->first; slab != kNone) {
      remove(*list, slab);
      return slab;
    }
  return new_slab();
}

uint32_t SmallBlocks::new_slab() {
  if (!is_reserved_) reserve();
  if (used_ == usable_) {
    if (usable_ == reserved_ || mprotect(begin_ + usable_, kGrowth, PROT_READ | PROT_WRITE) != 0) return kNone;
    usable_ += kGrowth;
  }
  used_ += kSlabBytes;
  return static_cast<uint32_t>(used_ / kSlabBytes);
}

// Once: where it fails, there are no small blocks, and operator new asks malloc.
void SmallBlocks::reserve() {
  is_reserved_ = true;
  rlimit limit = {};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const size_t bytes = is_limited ? std::min<size_t>(limit.rlim_cur / 4, kReserved) / kGrowth * kGrowth : kReserved;
  void* begin = mmap(nullptr, bytes + kGrowth, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return;
  const auto place = reinterpret_cast<uintptr_t>(begin);
  begin_ = static_cast<std::byte*>(begin) + (kSlabBytes - place % kSlabBytes) % kSlabBytes;
  reserved_ = bytes;
}

}  // namespace lowtide::tools
