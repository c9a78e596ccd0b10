// SPDX-License-Identifier: Apache-2.0
// Bytes to read. A Source is a file (or memory, or a decompressed spill) of fixed size, read at random offsets without
// keeping pages resident: through a mapped window (window.h), which saves a copy, or by read_at().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace lowtide::stream {

class Budget;
class Window;

// Bytes [begin, end) of a file.
struct Range {
  uint64_t begin = 0, end = 0;
  uint64_t bytes() const { return end - begin; }
};

class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  virtual const std::string& name() const = 0;  // as shown in errors
  // Reads exactly out.size() bytes. Safe from several threads. Throws Error(kMalformed) past the end, Error(kIo) when
  // the disk fails or the file became shorter.
  virtual void read_at(uint64_t offset, std::span<std::byte> out) const = 0;
  // Says that these bytes are read next, piece by piece: what is not in the page cache is asked for in large pieces,
  // and what lies before it ahead of time.
  virtual void will_read(uint64_t /*offset*/, uint64_t /*bytes*/) const {}
  // Whether this byte is read without waiting for a disk, so that short reads in any order cost only their calls. False
  // where that is not known.
  virtual bool is_cached(uint64_t /*offset*/) const { return false; }
  // The same bytes in the page cache, without a copy: a populated window, charged to the budget, in which the reader
  // must look for faults (window.h). Empty where this source is not mapped, the budget has no room, or the system
  // refuses: read_at() reads everything. Safe from several threads. Throws as read_at() does.
  virtual Window window(uint64_t offset, uint64_t bytes, Budget& budget) const;
  // The first hole in [offset, end): bytes that read as zeros because nothing is stored there. [end, end) when there is
  // none, or none is known of.
  virtual Range next_hole(uint64_t /*offset*/, uint64_t end) const { return {end, end}; }
  // The file whose bytes are this source's, for those who name it instead of copying; empty when there is none (memory,
  // decompressed data).
  virtual std::filesystem::path path() const { return {}; }
  // Throws Error(kIo) when the file is not the one that was opened, or has changed. Called before an output is
  // committed.
  virtual void check_unchanged() const {}
};

}  // namespace lowtide::stream
