// SPDX-License-Identifier: Apache-2.0
// Bytes out of files. A Source is a file (or memory, or a decompressed spill) of fixed size, read at random offsets
// without keeping pages resident: through a mapped window (window.h), which saves a copy, or by read_at().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lowtide::stream {

class Budget;
class Window;

// How files are read.
enum class Access : uint8_t {
  kMap,   // large pieces through mapped windows, small ones and those that lie apart by pread
  kRead,  // everything by pread
};

// An open file descriptor; closed when the last user is done with it.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}  // takes it over
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// What a file was when it was opened: another answer later means that it was changed.
struct Identity {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t seconds = 0, nanoseconds = 0;  // mtime
  bool operator==(const Identity&) const = default;
};

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
  // Throws Error(kIo) when the file is no longer the one of the opening. Called before an output is committed.
  virtual void check_unchanged() const {}
};

// Regular files only (no device, pipe, folder). Throws Error(kNotFound, kUnsafePath, kIo).
std::shared_ptr<Source> open_file(const std::filesystem::path& path, Access access = Access::kMap);
std::shared_ptr<Source> memory_source(std::vector<std::byte> bytes, std::string name);
// True when both paths lead to one existing file, also through links.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// For other kinds of sources. `name` is for messages; throws as Source::read_at and check_unchanged do.
Identity identity(int descriptor, const std::string& name);
void read_fully(int descriptor, uint64_t offset, std::span<std::byte> out, const std::string& name);
Range next_hole(int descriptor, uint64_t offset, uint64_t end);
// Throws Error(kMalformed) unless [offset, offset + bytes) lies within `size`.
void check_range(uint64_t offset, uint64_t bytes, uint64_t size, const std::string& name);

}  // namespace lowtide::stream
