// SPDX-License-Identifier: Apache-2.0
// A window on a file: some of its pages, mapped read-only and populated at once, until the window is destroyed.
//
// Populated, because a fault for each page costs more than one for 16 of them (figures are in
// docs/decisions/reading-and-writing.md). Charged to a budget, because mapped pages are resident.
//
// The trap: a page can still become unreadable while it is mapped: another process truncates the file, the kernel has
// dropped the page and the disk fails. Then the window reads as zeros (fault_guard.h), and check() throws. Whoever
// reads from a window calls check() before the bytes are trusted: before an output is committed, and before an error
// is reported that zeros may have caused.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "stream/file/budget.h"
#include "stream/file/fault_guard.h"
#include "stream/file/source.h"

namespace lowtide::stream {

class Window {
 public:
  Window() = default;
  Window(Window&& other) noexcept { swap(other); }
  Window& operator=(Window&& other) noexcept {
    Window moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Window();

  explicit operator bool() const { return data_ != nullptr; }
  // Bytes [begin(), end()) of the source.
  const std::byte* data() const { return data_; }
  std::span<const std::byte> span() const { return {data_, bytes_}; }
  uint64_t begin() const { return offset_; }
  uint64_t end() const { return offset_ + bytes_; }
  bool holds(const Source& source, uint64_t offset, uint64_t bytes) const {
    return source_ == &source && offset >= begin() && offset <= end() && bytes <= end() - offset;
  }
  // Throws Error(kIo) when a page of the window could not be read since it was mapped.
  void check() const;

  // Bytes that are charged for a window, whole pages.
  static uint64_t cost(uint64_t offset, uint64_t bytes);

 private:
  friend Window map_window(const Source& source, int descriptor, uint64_t offset, uint64_t bytes, Budget& budget);
  void swap(Window& other) noexcept;

  std::optional<FaultGuard> guard_;
  Budget::Charge charge_;
  size_t slot_ = 0;
  void* pages_ = nullptr;
  size_t length_ = 0;  // of what is mapped
  const std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  const Source* source_ = nullptr;
  uint64_t offset_ = 0;  // in the source
};

// For sources: a window on bytes of an open file, which may be closed before the window is destroyed; `source` may not.
// Throws Error(kIo) when a page cannot be read. Empty when the budget has no room or the system does not map this file.
Window map_window(const Source& source, int descriptor, uint64_t offset, uint64_t bytes, Budget& budget);

// Whether a byte of an open file is in the page cache, so that reading it does not wait for the disk.
bool is_cached(int descriptor, uint64_t offset);

// Asks the kernel to read what comes next of a file that is not in the page cache. An output is written from its end to
// its front, so its inputs are read in that direction, where the kernel does not read ahead by itself.
class ReadAhead {
 public:
  // Before [offset, offset + bytes) is read. Costs one system call when those pages are in memory already.
  void before(int descriptor, uint64_t offset, uint64_t bytes);

 private:
  std::atomic<uint64_t> last_ = UINT64_MAX;      // where the last read began
  std::atomic<uint64_t> frontier_ = UINT64_MAX;  // the lowest offset that was asked for, going backwards
};

}  // namespace lowtide::stream
