// Bytes in and out of files. A Source is a file (or memory, or a decompressed spill) of fixed size, read at random
// offsets without keeping pages resident; an OutFile is a sibling temporary that becomes the output by rename.
//
// The trap: a mapped page that was touched counts as resident until it is dropped, and a mapped file that shrinks is a
// SIGBUS. So weights are read with pread, and the protobuf walk reads in windows that are checked against the size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lowtide::stream {

class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  virtual const std::string& name() const = 0;  // as shown in errors
  // Reads exactly out.size() bytes. Throws Error(kMalformed) past the end, Error(kIo) when the disk fails or the file
  // is no longer what it was when it was opened.
  virtual void read_at(uint64_t offset, std::span<std::byte> out) const = 0;
  // File descriptor whose bytes are this source's bytes, or -1: for copies inside the kernel.
  virtual int descriptor() const { return -1; }
  // Throws Error(kIo) when size or mtime are no longer those of the opening. Called before an output is committed.
  virtual void check_unchanged() const {}
};

// Regular files only (no device, pipe, folder). Throws Error(kNotFound, kUnsafePath).
std::shared_ptr<Source> open_file(const std::filesystem::path& path);
std::shared_ptr<Source> memory_source(std::vector<std::byte> bytes, std::string name);

// The output: created beside `path` with O_EXCL | O_NOFOLLOW under a temporary name, of known size, space reserved at
// once (so that a full disk is found at the start), written in any order, then renamed over `path`. Destroyed without
// commit(), it removes the temporary. Throws Error(kIo, kNoSpace, kNotFound).
class OutFile {
 public:
  OutFile(const std::filesystem::path& path, uint64_t size);
  ~OutFile();
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  // Copies without passing through our memory where the system can, else through `scratch`.
  void copy_from(const Source& source, uint64_t source_offset, uint64_t offset, uint64_t bytes,
                 std::span<std::byte> scratch);
  void commit();
  uint64_t size() const { return size_; }

 private:
  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace lowtide::stream
