// SPDX-License-Identifier: Apache-2.0
#include "stream/file/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stream/counted.h"
#include "stream/error.h"
#include "stream/file/system_call.h"
#include "stream/file/window.h"

namespace lowtide::stream {
namespace {

class FileSource final : public Source {
 public:
  FileSource(std::shared_ptr<const Descriptor> file, std::string name, Access access)
      : file_(std::move(file)), name_(std::move(name)), identity_(identity(file_->number(), name_)) {
    if (access == Access::kMap) guard_.emplace();
  }

  uint64_t size() const override { return identity_.size; }
  const std::string& name() const override { return name_; }
  std::filesystem::path path() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    check_range(offset, out.size(), identity_.size, name_);
    read_fully(file_->number(), offset, out, name_);
  }
  void will_read(uint64_t offset, uint64_t bytes) const override { ahead_.before(file_->number(), offset, bytes); }
  bool is_cached(uint64_t offset) const override { return stream::is_cached(file_->number(), offset); }
  Window window(uint64_t offset, uint64_t bytes, Budget& budget) const override {
    check_range(offset, bytes, identity_.size, name_);
    return guard_ ? map_window(*this, file_->number(), offset, bytes, budget) : Window();
  }
  Range next_hole(uint64_t offset, uint64_t end) const override {
    return stream::next_hole(file_->number(), offset, end);
  }
  void check_unchanged() const override {
    if (identity(file_->number(), name_) != identity_) {
      throw Error(Code::kIo, "the file was changed while it was being read", {.file = name_});
    }
  }

 private:
  std::shared_ptr<const Descriptor> file_;
  std::string name_;
  Identity identity_;
  std::optional<FaultGuard> guard_;  // as long as there may be windows
  mutable ReadAhead ahead_;
};

class MemorySource final : public Source {
 public:
  MemorySource(std::vector<std::byte> bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {}
  bool is_cached(uint64_t /*offset*/) const override { return true; }

  uint64_t size() const override { return bytes_.size(); }
  const std::string& name() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    check_range(offset, out.size(), bytes_.size(), name_);
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
  }

 private:
  std::vector<std::byte> bytes_;
  std::string name_;
};

}  // namespace

Descriptor::~Descriptor() { close(number_); }

std::shared_ptr<Source> open_file(const std::filesystem::path& path, Access access) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const int number = uninterrupted([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (number < 0) {
    throw Error(opening_code(errno), fmt::format("cannot be opened: {}", std::strerror(errno)),
                {.file = path.string()});
  }
  return open_descriptor(std::make_shared<Descriptor>(number), path.string(), access);
}

std::shared_ptr<Source> open_descriptor(std::shared_ptr<const Descriptor> file, std::string name, Access access) {
  struct stat info = {};
  if (fstat(file->number(), &info) != 0)
    throw Error(Code::kIo, fmt::format("cannot be looked at: {}", std::strerror(errno)), {.file = name});
  if (!S_ISREG(info.st_mode)) {
    throw Error(Code::kUnsafePath, S_ISDIR(info.st_mode) ? "a folder, not a file" : "not a regular file",
                {.file = name});
  }
  return std::make_shared<FileSource>(std::move(file), std::move(name), access);
}

std::shared_ptr<Source> memory_source(std::vector<std::byte> bytes, std::string name) {
  return std::make_shared<MemorySource>(std::move(bytes), std::move(name));
}

std::optional<std::pair<dev_t, ino_t>> file_number(const std::filesystem::path& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return std::pair(info.st_dev, info.st_ino);
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto first = file_number(a);
  return first && first == file_number(b);
}

Identity identity(int descriptor, const std::string& name) {
  struct stat info = {};
  if (fstat(descriptor, &info) != 0)
    throw Error(Code::kIo, fmt::format("cannot be looked at: {}", std::strerror(errno)), {.file = name});
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

void read_fully(int descriptor, uint64_t offset, std::span<std::byte> out, const std::string& name) {
  while (!out.empty()) {
    ssize_t got = pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(Code::kIo, fmt::format("cannot be read: {}", std::strerror(errno)), {.file = name, .offset = offset});
    }
    if (got == 0) throw Error(Code::kIo, "the file became shorter while it was being read", {.file = name});
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

Range next_hole(int descriptor, uint64_t offset, uint64_t end) {
  const Range none = {end, end};
  // Most files have no holes, and the search walks over every fragment of a file.
  struct stat info = {};
  constexpr int64_t kBlock = 512;  // of st_blocks, whatever the filesystem's own are
  if (fstat(descriptor, &info) != 0 || info.st_blocks >= info.st_size / kBlock) return none;
  // Every file has a hole at its end; a filesystem without holes says that all before it is data, or that it cannot
  // tell.
  const off_t hole = lseek(descriptor, static_cast<off_t>(offset), SEEK_HOLE);
  if (hole < 0 || static_cast<uint64_t>(hole) >= end) return none;
  const off_t data = lseek(descriptor, hole, SEEK_DATA);
  if (data < 0 && errno != ENXIO) return none;  // ENXIO: the hole goes on to the end of the file
  return {static_cast<uint64_t>(hole), data < 0 ? end : std::min(static_cast<uint64_t>(data), end)};
}

void check_range(uint64_t offset, uint64_t bytes, uint64_t size, const std::string& name) {
  if (offset > size || bytes > size - offset) {
    throw Error(Code::kMalformed,
                fmt::format("{} wanted, and the file ends at byte {}", counted_are(bytes, "byte"), size),
                {.file = name, .offset = offset});
  }
}

}  // namespace lowtide::stream
