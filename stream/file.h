// Bytes in and out of files. A Source is a file (or memory, or a decompressed spill) of fixed size, read at random
// offsets without keeping pages resident; an OutFile is a sibling temporary that becomes the output by rename.
//
// The trap: a mapped page that was touched counts as resident until it is dropped, and a mapped file that shrinks is a
// SIGBUS. So weights are read with pread, and so is the protobuf walk, in windows (wire.h).
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stream/temporary.h"

namespace lowtide::stream {

enum class Code : uint8_t;

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
std::shared_ptr<Source> open_file(const std::filesystem::path& path);
std::shared_ptr<Source> memory_source(std::vector<std::byte> bytes, std::string name);
// True when both paths lead to one existing file, also through links.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// For other kinds of sources. `name` is for messages; throws as Source::read_at and check_unchanged do.
Identity identity(int descriptor, const std::string& name);
void read_fully(int descriptor, uint64_t offset, std::span<std::byte> out, const std::string& name);
Range next_hole(int descriptor, uint64_t offset, uint64_t end);
// The result of a system call, made again as long as signals interrupt it.
template <typename Call>
auto uninterrupted(Call&& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}
// What the errno of an open says: the path is wrong (kNotFound), or the system has failed (kIo).
Code opening_code(int error);
bool is_no_space(int error);
// Throws Error(kMalformed) unless [offset, offset + bytes) lies within `size`.
void check_range(uint64_t offset, uint64_t bytes, uint64_t size, const std::string& name);

// The output: created beside `path` with O_EXCL | O_NOFOLLOW under a temporary name, of known size, space reserved at
// once (so that a full disk is found at the start), written in any order, then renamed over `path`. What is not written
// reads as zeros. Destroyed without commit(), it removes the temporary (temporary.h). Throws Error(kIo, kNoSpace,
// kNotFound), Error(kUnsafePath) when `path` is a folder, device or pipe. Writes are safe from several threads.
class OutFile {
 public:
  OutFile(const std::filesystem::path& path, uint64_t size);
  // Only `data` bytes of it will be written: nothing is reserved yet. Call reserve() for each range of them.
  OutFile(const std::filesystem::path& path, uint64_t size, uint64_t data);
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  void reserve(Range range);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  // Holes stay holes. Copies through `scratch`, which must have a byte at least.
  void copy_from(const Source& source, uint64_t source_offset, uint64_t offset, uint64_t bytes,
                 std::span<std::byte> scratch);
  // What was written is on the disk then, and is read from there: for verifying it.
  void to_disk();
  // What turned out smaller than planned ends here.
  void shorten(uint64_t size);
  void commit();
  uint64_t size() const { return size_; }
  const std::filesystem::path& temporary() const { return temporary_->path(); }

 private:
  void set_size();
  void hand_over(uint64_t offset, uint64_t bytes);
  void copy_data(const Source& source, uint64_t source_offset, uint64_t offset, uint64_t bytes,
                 std::span<std::byte> scratch);
  void check_inside(const char* what, uint64_t offset, uint64_t bytes) const;
  [[noreturn]] void fail(const char* doing, int error) const;

  std::filesystem::path path_;
  std::optional<Temporary> temporary_;
  uint64_t size_ = 0, data_ = 0;  // data_: of size_, what is not left as holes
  uint64_t reserved_ = 0;         // of data_

  // Of a large output: what was given to the disk and is still cached, the oldest first.
  struct Cached {
    uint64_t offset, bytes;
  };
  bool is_large_ = false;
  std::mutex mutex_;  // guards the two below
  std::deque<Cached> cached_;
  uint64_t cached_bytes_ = 0;
};

}  // namespace lowtide::stream
