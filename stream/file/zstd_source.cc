// SPDX-License-Identifier: Apache-2.0
#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_getFrameHeader: window and size of a frame before it is begun
#include "stream/file/zstd_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "stream/error.h"
#include "stream/file/system_call.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kInputBytes = 64 * 1024;
constexpr uint64_t kOutputBytes = 128 * 1024;
// What the decoder holds beside the window: a block on either side, tables.
constexpr uint64_t kDecoderBytes = 512 * 1024;

class SpilledSource final : public Source {
 public:
  SpilledSource(std::shared_ptr<const Descriptor> file, uint64_t begin, uint64_t size, std::string name)
      : file_(std::move(file)), begin_(begin), size_(size), name_(std::move(name)) {}
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    check_range(offset, out.size(), size_, name_);
    read_fully(file_->number(), begin_ + offset, out, name_);
  }

 private:
  std::shared_ptr<const Descriptor> file_;
  uint64_t begin_, size_;
  std::string name_;
};

class Decoder {
 public:
  Decoder(const Source& from, Spill& spill, Budget& budget)
      : from_(from),
        spill_(spill),
        budget_(budget),
        context_(ZSTD_createDCtx()),
        in_(budget.take(kInputBytes, "the input of the decompression")),
        out_(budget.take(kOutputBytes, "the output of the decompression")) {
    if (context_ == nullptr) throw Error(Code::kBudget, "the system has no memory for the decompression");
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, ZSTD_WINDOWLOG_MAX);  // the budget is the limit
  }

  void run() {
    const uint64_t room = spill_.free_bytes();
    const uint64_t begin = spill_.size();
    if (from_.size() == 0) fail("is empty");
    while (fill() != 0) {
      const uint64_t used = spill_.size() - begin;
      frame(room - std::min(room, used), room / 2 - std::min(room / 2, used));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw Error(Code::kMalformed, text, {.file = from_.name(), .offset = read_ - (filled_ - taken_)});
  }

  // Tops the input up; how many bytes there are.
  uint64_t fill() {
    if (taken_ != 0) std::memmove(in_.data(), in_.data() + taken_, filled_ - taken_);
    filled_ -= taken_;
    taken_ = 0;
    const uint64_t more = std::min(in_.size() - filled_, from_.size() - read_);
    from_.read_at(read_, in_.span().subspan(filled_, more));
    read_ += more;
    filled_ += more;
    return filled_;
  }

  // One frame of at most `declared_room` bytes, or `room` when it does not declare its size.
  void frame(uint64_t declared_room, uint64_t room) {
    ZSTD_frameHeader header = {};
    const size_t result = ZSTD_getFrameHeader(&header, in_.data(), filled_);
    if (ZSTD_isError(result)) fail(fmt::format("not zstd data: {}", ZSTD_getErrorName(result)));
    if (result != 0) fail("the zstd data are cut");
    const bool declares = header.frameType == ZSTD_frame && header.frameContentSize != ZSTD_CONTENTSIZE_UNKNOWN;
    if (declares && header.frameContentSize > declared_room) no_space(header.frameContentSize, declared_room);
    const uint64_t limit = declares ? header.frameContentSize : room;
    // Charged, not used: the decoder allocates its window itself.
    Budget::Lease window;
    if (header.frameType == ZSTD_frame) {
      window = budget_.take(checked_window(header.windowSize), "the window of the zstd data");
    }

    uint64_t made = 0;
    for (size_t left = 1; left != 0;) {
      if (taken_ == filled_ && fill() == 0) fail("the zstd data are cut");
      ZSTD_inBuffer in = {in_.data(), filled_, taken_};
      ZSTD_outBuffer out = {out_.data(), out_.size(), 0};
      left = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_isError(left)) fail(fmt::format("damaged zstd data: {}", ZSTD_getErrorName(left)));
      taken_ = in.pos;
      made += out.pos;
      if (made > limit && declares) fail("the zstd data are longer than they declare");
      if (made > limit) no_space(made, limit);
      spill_.append(out_.span().first(out.pos));
      if (left != 0 && out.pos == 0 && taken_ == filled_ && read_ == from_.size()) fail("the zstd data are cut");
    }
  }

  static uint64_t checked_window(uint64_t window) {
    return window > UINT64_MAX - kDecoderBytes ? UINT64_MAX : window + kDecoderBytes;
  }

  [[noreturn]] void no_space(uint64_t wanted, uint64_t room) const {
    throw Error(
        Code::kNoSpace,
        fmt::format("decompressing takes {} bytes of temporary space, and {} may be used (see TMPDIR)", wanted, room),
        {.file = from_.name()});
  }

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  const Source& from_;
  Spill& spill_;
  Budget& budget_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  Budget::Lease in_, out_;
  uint64_t filled_ = 0, taken_ = 0;  // of in_
  uint64_t read_ = 0;                // of from_
};

}  // namespace

std::shared_ptr<const Descriptor> Spill::file() {
  if (file_ != nullptr) return file_;
  const char* named = std::getenv("TMPDIR");
  if (named != nullptr && *named != '\0') folder_ = named;
  if (folder_.empty()) folder_ = "/var/tmp";
  int number = uninterrupted([&] { return open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
  if (number < 0) {  // not every file system has O_TMPFILE
    std::string name = (folder_ / ".lowtide-spill-XXXXXX").string();
    number = mkostemp(name.data(), O_CLOEXEC);
    if (number >= 0) unlink(name.c_str());
  }
  if (number < 0) {
    throw Error(Code::kIo, fmt::format("no temporary file can be made: {} (see TMPDIR)", std::strerror(errno)),
                {.file = folder_.string()});
  }
  file_ = std::make_shared<Descriptor>(number);
  return file_;
}

uint64_t Spill::free_bytes() {
  struct statvfs info = {};
  if (fstatvfs(file()->number(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

void Spill::append(std::span<const std::byte> bytes) {
  const int number = file()->number();
  while (!bytes.empty()) {
    ssize_t done = pwrite(number, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      throw Error(is_no_space(errno) ? Code::kNoSpace : Code::kIo,
                  fmt::format("writing decompressed data failed: {} (see TMPDIR)", std::strerror(errno)),
                  {.file = folder_.string()});
    }
    bytes = bytes.subspan(static_cast<size_t>(done));
    size_ += static_cast<uint64_t>(done);
  }
}

std::shared_ptr<Source> decompress(const Source& compressed, Spill& spill, Budget& budget) {
  const uint64_t begin = spill.size();
  Decoder(compressed, spill, budget).run();
  compressed.check_unchanged();
  return std::make_shared<SpilledSource>(spill.file(), begin, spill.size() - begin, compressed.name());
}

}  // namespace lowtide::stream
