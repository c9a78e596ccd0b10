// SPDX-License-Identifier: Apache-2.0
// Files and memory as sources (source.h), and what other kinds of sources need.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stream/file/source.h"

namespace lowtide::stream {

// How files are read.
enum class Access : uint8_t {
  kMap,   // large pieces through mapped windows, small ones and rows that are far apart by pread
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

// Regular files only (no device, pipe, folder). Throws Error(kNotFound, kUnsafePath, kIo).
std::shared_ptr<Source> open_file(const std::filesystem::path& path, Access access = Access::kMap);
// The same for a regular file that is open for reading; `name` is for messages.
std::shared_ptr<Source> open_descriptor(std::shared_ptr<const Descriptor> file, std::string name,
                                        Access access = Access::kMap);
std::shared_ptr<Source> memory_source(std::vector<std::byte> bytes, std::string name);
// Device and inode of an existing file, also through links: equal for two paths to one file. nullopt: there is none.
std::optional<std::pair<dev_t, ino_t>> file_number(const std::filesystem::path& path);
// True when both paths lead to one existing file, also through links.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// For other kinds of sources. `name` is for messages; throws as Source::read_at and check_unchanged do.
Identity identity(int descriptor, const std::string& name);
void read_fully(int descriptor, uint64_t offset, std::span<std::byte> out, const std::string& name);
Range next_hole(int descriptor, uint64_t offset, uint64_t end);
// Throws Error(kMalformed) unless [offset, offset + bytes) lies within `size`.
void check_range(uint64_t offset, uint64_t bytes, uint64_t size, const std::string& name);

}  // namespace lowtide::stream
