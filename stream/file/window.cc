// SPDX-License-Identifier: Apache-2.0
#include "stream/file/window.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "stream/error.h"

namespace lowtide::stream {
namespace {

uint64_t system_page() {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return page;
}

// What one fault maps of pages that are in the page cache (fault_around_bytes of the kernel). A fault for each of these
// costs less than MADV_POPULATE_READ, which looks at every page, and other threads map meanwhile.
constexpr uint64_t kFaultAround = 64 * 1024;

// Maps the pages of a window. What cannot be read is a fault, which is the guard's; the last page shows whether the
// file became shorter. What a fault did not map, because it was not in the page cache or the kernel maps less at once,
// is mapped when it is used.
void populate(const void* pages, size_t bytes) {
  const auto* begin = static_cast<const volatile std::byte*>(pages);
  for (size_t at = 0; at < bytes; at += kFaultAround) static_cast<void>(begin[at]);
  static_cast<void>(begin[bytes - 1]);
}

// How much is asked for beyond what is read now: enough to keep a disk busy.
constexpr uint64_t kAheadBytes = uint64_t{8} << 20;
constexpr uint64_t kAheadStep = uint64_t{2} << 20;

void will_need(int descriptor, uint64_t begin, uint64_t end) {
  if (begin < end)
    posix_fadvise(descriptor, static_cast<off_t>(begin), static_cast<off_t>(end - begin), POSIX_FADV_WILLNEED);
}

}  // namespace

bool is_cached(int descriptor, uint64_t offset) {
  std::byte byte;
  const iovec place = {&byte, 1};
  return preadv2(descriptor, &place, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1;
}

Window Source::window(uint64_t /*offset*/, uint64_t /*bytes*/, Budget& /*budget*/) const { return {}; }

Window::~Window() {
  if (pages_ == nullptr) return;
  FaultGuard::forget(slot_);  // first: the address may have another owner right after munmap
  munmap(pages_, length_);
}

void Window::swap(Window& other) noexcept {
  std::swap(guard_, other.guard_);
  std::swap(charge_, other.charge_);
  std::swap(slot_, other.slot_);
  std::swap(pages_, other.pages_);
  std::swap(length_, other.length_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(source_, other.source_);
  std::swap(offset_, other.offset_);
}

void Window::check() const {
  if (pages_ == nullptr || !FaultGuard::faulted(slot_)) return;
  throw Error(Code::kIo, "a mapped page cannot be read: the file became shorter, or the disk failed",
              {.file = source_->name(), .offset = offset_});
}

uint64_t Window::cost(uint64_t offset, uint64_t bytes) {
  const uint64_t page = system_page(), skip = offset % page;
  return bytes > UINT64_MAX - 2 * page ? UINT64_MAX : (skip + bytes + page - 1) / page * page;
}

Window map_window(const Source& source, int descriptor, uint64_t offset, uint64_t bytes, Budget& budget) {
  Window window;
  if (bytes == 0) return window;
  const uint64_t skip = offset % system_page(), length = Window::cost(offset, bytes);
  Budget::Charge charge = budget.try_charge(length);
  if (!charge) return window;
  void* pages = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor, static_cast<off_t>(offset - skip));
  if (pages == MAP_FAILED) return window;
  window.guard_.emplace();
  const std::optional<size_t> slot = FaultGuard::watch(pages, length);
  if (!slot) {
    munmap(pages, length);
    return window;
  }
  window.charge_ = std::move(charge);
  window.slot_ = *slot;
  window.pages_ = pages;
  window.length_ = length;
  window.data_ = static_cast<const std::byte*>(pages) + skip;
  window.bytes_ = bytes;
  window.source_ = &source;
  window.offset_ = offset;
  populate(pages, length);
  window.check();
  return window;
}

void ReadAhead::before(int descriptor, uint64_t offset, uint64_t bytes) {
  const uint64_t last = last_.exchange(offset, std::memory_order_relaxed);
  const bool goes_back = offset <= last;
  const uint64_t end = offset + bytes;
  const bool is_here = bytes == 0 || (is_cached(descriptor, offset) && is_cached(descriptor, end - 1));
  if (!is_here) will_need(descriptor, offset, end);  // in large pieces, and not as the faults come
  if (!goes_back) return;
  // What lies before: from where it was asked for last, unless reading goes on somewhere else.
  const uint64_t goal = offset - std::min(offset, kAheadBytes);
  uint64_t frontier = frontier_.load(std::memory_order_relaxed);
  const bool goes_on = frontier <= end && frontier >= goal;
  if (goes_on && frontier - goal < kAheadStep && goal > 0) return;
  const uint64_t from = goes_on ? frontier : offset;
  if (from <= goal || !frontier_.compare_exchange_strong(frontier, goal, std::memory_order_relaxed)) return;
  if (!is_cached(descriptor, goal) || !is_cached(descriptor, goal + (from - goal) / 2)) {
    will_need(descriptor, goal, from);
  }
}

}  // namespace lowtide::stream
