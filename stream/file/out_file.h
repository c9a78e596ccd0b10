// SPDX-License-Identifier: Apache-2.0
// An output file: a sibling temporary that becomes the output by rename.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>

#include "stream/file/file.h"
#include "stream/file/temporary.h"

namespace lowtide::stream {

// Throws Error(kUnsafePath) where a folder, device or pipe has that name, or it has no file name; Error(kNotFound) for
// a name that is too long.
void check_output_path(const std::filesystem::path& path);

// An output: created beside `path` with O_EXCL | O_NOFOLLOW under a temporary name, of known size, space reserved at
// once (so that a full disk is found at the start), written in any order, then renamed over `path`. What is not written
// reads as zeros. Destroyed without commit(), it removes the temporary (temporary.h). Throws Error(kIo, kNoSpace,
// kNotFound), Error(kUnsafePath) when `path` is a folder, device or pipe, or in a system folder (temporary.h). Writes
// are safe from several threads.
class OutFile {
 public:
  OutFile(const std::filesystem::path& path, uint64_t size);
  // Only `data` bytes of it will be written: nothing is reserved yet. Call reserve() for each range of them.
  OutFile(const std::filesystem::path& path, uint64_t size, uint64_t data);
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  // Throws Error(kIo) while another run makes the same output: for an output of two files, which must be of one run.
  void check_alone() const;
  void reserve(Range range);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  // The same for what is replaced later: it is not handed to the disk.
  void write_for_now(uint64_t offset, std::span<const std::byte> bytes);
  // Holes stay holes. Copies from the end to the front through `scratch` (a byte at least, at most 1 MiB is used).
  void copy_from(const Source& source, uint64_t source_offset, uint64_t offset, uint64_t bytes,
                 std::span<std::byte> scratch);
  // Held for many small writes by one thread: the file system lets one thread at a time write to a file, and threads
  // that compete for it at every call slow each other down.
  [[nodiscard]] std::unique_lock<std::mutex> turn_to_write() { return std::unique_lock(writing_); }
  // What was written there before. Throws Error(kIo).
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;
  // True when the kernel need not write any of it to the disk before the end.
  bool stays_in_memory() const { return !is_handed_over_; }
  bool has_holes() const { return data_ < size_; }
  // What the page cache may hold, as it was when this file was made.
  uint64_t cache_bytes() const { return cache_bytes_; }
  // What was written is on the disk then, and is read from there: for verifying it.
  void to_disk();
  // What turned out smaller than planned ends here.
  void shorten(uint64_t size);
  void commit();
  uint64_t size() const { return size_; }
  const std::filesystem::path& temporary() const { return temporary_->path(); }

 private:
  void set_size();
  void hand_over(Range range);
  void write_back(Range range);
  void copy_data(const Source& source, uint64_t source_offset, uint64_t offset, uint64_t bytes,
                 std::span<std::byte> scratch);
  void check_inside(const char* what, uint64_t offset, uint64_t bytes) const;
  [[noreturn]] void fail(const char* doing, int error) const;

  std::filesystem::path path_;
  std::optional<Temporary> temporary_;
  uint64_t size_ = 0, data_ = 0;  // data_: of size_, what is not left as holes
  uint64_t reserved_ = 0;         // of data_

  std::mutex writing_;

  // Of an output that the kernel would stop: what is written and not yet given to the disk, as ranges that grow, and
  // what was given to it and is still cached, the oldest first.
  bool is_handed_over_ = false, is_dropped_ = false;
  uint64_t cache_bytes_ = 0;
  std::mutex mutex_;  // guards the rest
  std::array<Range, 8> written_ = {};
  std::deque<Range> cached_;
  uint64_t cached_bytes_ = 0;
};

}  // namespace lowtide::stream
