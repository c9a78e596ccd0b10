// SPDX-License-Identifier: Apache-2.0
// The output file, see file.h.
//
// The traps: pwrite may write less than it was given; a limit on file sizes (ulimit -f) is a signal that kills, so it
// is asked for beforehand; where fallocate is not supported, a full disk shows only at some later write.
//
// A writer that is faster than the disk is stopped by the kernel once the data that wait to be written reach a limit
// (dirty_limit.h), and is then slower than the disk could be. So an output above that limit is handed to the disk as it
// is made (5 GB, in turns on a busy machine with a slow disk: 2 to 17 s against 17 to 85 s, cp 20 to 65 s). For an
// output below it that is work for nothing. An output that is larger than half of the page cache is also dropped from
// it some way behind, so that it does not replace everything else there.
#include "stream/file/out_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stream/counted.h"
#include "stream/error.h"
#include "stream/file/dirty_limit.h"
#include "stream/file/system_call.h"

namespace lowtide::stream {
namespace {

// Smaller writes are left to the kernel; larger ones are gathered until so many bytes are worth a call.
constexpr uint64_t kLeastHandedOver = 256 * 1024;
constexpr uint64_t kHandOverBytes = 8 * 1024 * 1024;
// A piece of a copy. It is read into a buffer that stays in the processor's cache, and written from there: to map it
// costs as much as that copy, and the write then reads from memory (docs/decisions/reading-and-writing.md).
constexpr uint64_t kCopyPiece = 1024 * 1024;
// How much stays cached, so that the disk is done with a range before it is dropped.
constexpr uint64_t kCachedBytes = 256 * 1024 * 1024;

// With what the file itself has taken.
uint64_t free_bytes(int descriptor) {
  struct statvfs system = {};
  struct stat file = {};
  constexpr uint64_t kBlock = 512;  // of st_blocks, whatever the filesystem's own are
  const uint64_t taken = fstat(descriptor, &file) == 0 ? static_cast<uint64_t>(file.st_blocks) * kBlock : 0;
  return fstatvfs(descriptor, &system) == 0 ? static_cast<uint64_t>(system.f_bavail) * system.f_frsize + taken : taken;
}

// Free bytes, with those that are kept back for root; no limit where the file system does not count blocks.
uint64_t unused_bytes(int descriptor) {
  struct statvfs info = {};
  if (fstatvfs(descriptor, &info) != 0 || info.f_blocks == 0) return UINT64_MAX;
  return static_cast<uint64_t>(info.f_bfree) * info.f_frsize;
}

int cut(int descriptor, uint64_t size) {
  return uninterrupted([&] { return ftruncate(descriptor, static_cast<off_t>(size)); });
}

}  // namespace

void check_output_path(const std::filesystem::path& path) {
  if (!path.has_filename()) throw Error(Code::kUnsafePath, "the output needs a file name", {.file = path.string()});
  struct stat info = {};
  const int result = stat(path.c_str(), &info);
  if (result != 0 && errno == ENAMETOOLONG)
    throw Error(Code::kNotFound, "the name of the output is too long", {.file = path.string()});
  if (result == 0 && !S_ISREG(info.st_mode)) {
    throw Error(Code::kUnsafePath,
                S_ISDIR(info.st_mode) ? "the output is a folder" : "the output exists and is not a regular file",
                {.file = path.string()});
  }
}

OutFile::OutFile(const std::filesystem::path& path, uint64_t size) : OutFile(path, size, size) {
  if (size > 0) reserve({0, size});
}

OutFile::OutFile(const std::filesystem::path& path, uint64_t size, uint64_t data)
    : path_(path), size_(size), data_(data) {
  const WriteBack system = stream::write_back();
  is_handed_over_ = data > system.dirty_bytes;
  cache_bytes_ = system.available_bytes;
  is_dropped_ = data > cache_bytes_ / 2;
  check_output_path(path_);
  temporary_.emplace(path_);
  set_size();
}

void OutFile::set_size() {
  if (size_ > INT64_MAX)
    throw Error(Code::kNoSpace, fmt::format("{} needed", counted_are(size_, "byte")), {.file = path_.string()});
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size_) {
    throw Error(Code::kNoSpace,
                fmt::format("{} needed, and files are limited to {} (ulimit -f)", counted_are(size_, "byte"),
                            counted(static_cast<uint64_t>(limit.rlim_cur), "byte")),
                {.file = path_.string()});
  }
  if (cut(temporary_->descriptor(), size_) != 0) fail("setting its size", errno);
}

void OutFile::check_alone() const {
  if (!temporary_->is_alone())
    throw Error(Code::kIo, "another run is writing this output: wait for its end, or give another name",
                {.file = path_.string()});
}

void OutFile::reserve(Range range) {
  check_inside("reservation", range.begin, range.bytes());
  // Checked beforehand, because fallocate takes all space of the disk before it fails, and other processes need some.
  if (unused_bytes(temporary_->descriptor()) < data_ - std::min(reserved_, data_)) fail("reserving its space", ENOSPC);
  const int result = uninterrupted([&] {
    return fallocate(temporary_->descriptor(), 0, static_cast<off_t>(range.begin), static_cast<off_t>(range.bytes()));
  });
  reserved_ += range.bytes();
  if (result == 0) return;
  int error = errno;
  if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL) {
    if (free_bytes(temporary_->descriptor()) >= data_) return;
    error = ENOSPC;
  }
  fail("reserving its space", error);
}

void OutFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  write_for_now(offset, bytes);
  hand_over({offset, offset + bytes.size()});
}

void OutFile::write_for_now(uint64_t offset, std::span<const std::byte> bytes) {
  check_inside("write", offset, bytes.size());
  while (!bytes.empty()) {
    const ssize_t done = pwrite(temporary_->descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("writing", done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
}

// Joins what was written to a range that it touches, and gives what is large enough to the disk.
void OutFile::hand_over(Range range) {
  if (!is_handed_over_ || range.bytes() < kLeastHandedOver) return;
  std::unique_lock lock(mutex_);
  auto place = std::find_if(written_.begin(), written_.end(), [&](const Range& other) {
    return other.bytes() > 0 && (other.end == range.begin || other.begin == range.end);
  });
  if (place == written_.end()) {  // a new one, where the shortest was
    place = std::min_element(written_.begin(), written_.end(),
                             [](const Range& a, const Range& b) { return a.bytes() < b.bytes(); });
    std::swap(*place, range);
  } else {
    place->begin = std::min(place->begin, range.begin);
    place->end = std::max(place->end, range.end);
    range = {};
  }
  if (place->bytes() >= kHandOverBytes) std::swap(*place, range);
  lock.unlock();
  if (range.bytes() > 0) write_back(range);
}

// Only advice, so nothing is lost when the kernel refuses it.
void OutFile::write_back(Range range) {
  sync_file_range(temporary_->descriptor(), static_cast<off64_t>(range.begin), static_cast<off64_t>(range.bytes()),
                  SYNC_FILE_RANGE_WRITE);
  if (!is_dropped_) return;
  std::lock_guard lock(mutex_);
  cached_.push_back(range);
  cached_bytes_ += range.bytes();
  while (cached_bytes_ > kCachedBytes) {
    const Range oldest = cached_.front();
    cached_.pop_front();
    cached_bytes_ -= oldest.bytes();
    posix_fadvise(temporary_->descriptor(), static_cast<off_t>(oldest.begin), static_cast<off_t>(oldest.bytes()),
                  POSIX_FADV_DONTNEED);
  }
}

void OutFile::copy_from(const Source& source, uint64_t source_offset, uint64_t offset, uint64_t bytes,
                        std::span<std::byte> scratch) {
  check_range(source_offset, bytes, source.size(), source.name());
  check_inside("copy", offset, bytes);
  for (uint64_t done = 0; done < bytes;) {
    const Range hole = source.next_hole(source_offset + done, source_offset + bytes);
    copy_data(source, source_offset + done, offset + done, hole.begin - source_offset - done, scratch);
    done = hole.end - source_offset;
  }
}

void OutFile::copy_data(const Source& source, uint64_t source_offset, uint64_t offset, uint64_t bytes,
                        std::span<std::byte> scratch) {
  while (bytes > 0) {
    const uint64_t end = source_offset + bytes, most = std::min<uint64_t>(scratch.size(), kCopyPiece);
    const auto piece = scratch.first(end - std::max((end - 1) / most * most, source_offset));
    source.will_read(end - piece.size(), piece.size());
    source.read_at(end - piece.size(), piece);
    bytes -= piece.size();
    write_at(offset + bytes, piece);
  }
}

void OutFile::read_at(uint64_t offset, std::span<std::byte> bytes) const {
  check_inside("read", offset, bytes.size());
  read_fully(temporary_->descriptor(), offset, bytes, path_.string());
}

void OutFile::to_disk() {
  if (uninterrupted([&] { return fdatasync(temporary_->descriptor()); }) != 0) fail("writing to the disk", errno);
  posix_fadvise(temporary_->descriptor(), 0, 0, POSIX_FADV_DONTNEED);
}

void OutFile::shorten(uint64_t size) {
  if (size > size_) throw Error(Code::kInternal, "a file is shortened to more", {.file = path_.string()});
  if (cut(temporary_->descriptor(), size) != 0) fail("setting its size", errno);
  size_ = size;
}

void OutFile::commit() {
  if (const int error = temporary_->close()) fail("closing", error);
  if (const int error = temporary_->rename()) fail("renaming the finished file", error);
}

void OutFile::check_inside(const char* what, uint64_t offset, uint64_t bytes) const {
  if (offset <= size_ && bytes <= size_ - offset) return;
  throw Error(Code::kInternal,
              fmt::format("{} of {} bytes at {} beyond the planned size {}", what, bytes, offset, size_),
              {.file = path_.string()});
}

void OutFile::fail(const char* doing, int error) const {
  if (!is_no_space(error)) {
    throw Error(Code::kIo, fmt::format("{} failed: {}", doing, std::strerror(error)), {.file = path_.string()});
  }
  throw Error(Code::kNoSpace,
              fmt::format("{} needed, and the disk has {} free ({}: {})", counted_are(data_, "byte"),
                          counted(free_bytes(temporary_->descriptor()), "byte"), doing, std::strerror(error)),
              {.file = path_.string()});
}

}  // namespace lowtide::stream
