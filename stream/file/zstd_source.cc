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
#include "stream/file/known_formats.h"
#include "stream/file/system_call.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kInputBytes = 64 * 1024;
constexpr uint64_t kOutputBytes = 128 * 1024;
// Memory of the decoder beside the window: input and output blocks, tables.
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

// How many more bytes a file may decompress to.
struct Room {
  uint64_t declared = UINT64_MAX, undeclared = UINT64_MAX;  // of the disk, for frames that declare their size or do not
  uint64_t by_ratio = UINT64_MAX;
};

// Receives decompressed data piece by piece; returns false to stop.
using Sink = std::function<bool(std::span<const std::byte>)>;

class Decoder {
 public:
  Decoder(const Source& from, Budget& budget)
      : from_(from),
        budget_(budget),
        context_(ZSTD_createDCtx()),
        in_(budget.take(kInputBytes, "the input of the decompression")),
        out_(budget.take(kOutputBytes, "the output of the decompression")) {
    if (context_ == nullptr) throw Error(Code::kBudget, "the system has no memory for the decompression");
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, ZSTD_WINDOWLOG_MAX);  // the budget is the limit
  }

  void run(Room room, const Sink& sink) {
    if (from_.size() == 0) fail("the file is empty");
    while (true) {
      if (available() < kMostHeaderBytes && fill() == 0) return;
      ZSTD_frameHeader header = {};
      const size_t result = ZSTD_getFrameHeader(&header, in_.data() + taken_, available());
      if (ZSTD_isError(result)) fail(fmt::format("not zstd data: {}", ZSTD_getErrorName(result)));
      if (result != 0) fail("the zstd data are cut");
      if (header.frameType == ZSTD_skippableFrame) {
        skip(kSkippableHeaderBytes + header.frameContentSize);
      } else if (!frame(header, room, sink)) {
        return;
      }
    }
  }

 private:
  static constexpr uint64_t kMostHeaderBytes = ZSTD_FRAMEHEADERSIZE_MAX;
  static constexpr uint64_t kSkippableHeaderBytes = ZSTD_SKIPPABLEHEADERSIZE;

  [[noreturn]] void fail(const std::string& text) const {
    throw Error(Code::kMalformed, text, {.file = from_.name(), .offset = read_ - available()});
  }

  uint64_t available() const { return filled_ - taken_; }

  // Fills the input buffer; returns the bytes in it.
  uint64_t fill() {
    if (taken_ != 0) std::memmove(in_.data(), in_.data() + taken_, available());
    filled_ -= std::exchange(taken_, 0);
    const uint64_t more = std::min(in_.size() - filled_, from_.size() - read_);
    from_.read_at(read_, in_.span().subspan(filled_, more));
    read_ += more;
    filled_ += more;
    return filled_;
  }

  void skip(uint64_t bytes) {
    const uint64_t here = std::min(bytes, available());
    if (bytes - here > from_.size() - read_) fail("the zstd data are cut");
    taken_ += here;
    read_ += bytes - here;
  }

  // False when the sink has stopped.
  bool frame(const ZSTD_frameHeader& header, Room& room, const Sink& sink) {
    const bool declares = header.frameContentSize != ZSTD_CONTENTSIZE_UNKNOWN;
    const uint64_t declared = header.frameContentSize;
    if (declares && declared > room.by_ratio) beyond_ratio(room);
    if (declares && declared > room.declared) no_space(declared, room.declared);
    take_window(header.windowSize);
    uint64_t made = 0;
    for (size_t left = 1; left != 0;) {
      if (available() == 0 && fill() == 0) fail("the zstd data are cut");
      ZSTD_inBuffer in = {in_.data(), filled_, taken_};
      ZSTD_outBuffer out = {out_.data(), out_.size(), 0};
      left = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_isError(left)) fail(fmt::format("damaged zstd data: {}", ZSTD_getErrorName(left)));
      taken_ = in.pos;
      made += out.pos;
      if (declares && made > declared) fail("the zstd data are longer than they declare");
      if (made > room.by_ratio) beyond_ratio(room);
      if (!declares && made > room.undeclared) no_space(made, room.undeclared);
      if (out.pos > 0 && !sink(out_.span().first(out.pos))) return false;
      if (left != 0 && out.pos == 0 && available() == 0 && read_ == from_.size()) fail("the zstd data are cut");
    }
    made_before_ += made;
    for (uint64_t* bytes : {&room.declared, &room.undeclared, &room.by_ratio}) *bytes -= std::min(*bytes, made);
    return true;
  }

  // Charged, not used: the decoder allocates its window itself, and keeps it for the next frame.
  void take_window(uint64_t bytes) {
    const uint64_t needed = bytes > UINT64_MAX - kDecoderBytes ? UINT64_MAX : bytes + kDecoderBytes;
    if (needed <= window_.size()) return;
    window_ = {};
    window_ = budget_.take(needed, "the window of the zstd data");
  }

  [[noreturn]] void no_space(uint64_t wanted, uint64_t room) const {
    throw Error(
        Code::kNoSpace,
        fmt::format("decompressing takes {} bytes of temporary space, and {} may be used (see TMPDIR)", wanted, room),
        {.file = from_.name()});
  }

  [[noreturn]] void beyond_ratio(const Room& room) const {
    const uint64_t most = made_before_ + room.by_ratio;
    throw Error(
        Code::kBudget,
        fmt::format("decompresses to more than {} bytes, {} times its own {}, as a decompression bomb does; if you "
                    "trust the file, give --max-zstd-ratio 0",
                    most, most / from_.size(), from_.size()),
        {.file = from_.name()});
  }

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  const Source& from_;
  Budget& budget_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  Budget::Lease in_, out_, window_;
  uint64_t filled_ = 0, taken_ = 0;  // of in_
  uint64_t read_ = 0;                // of from_
  uint64_t made_before_ = 0;         // by the frames before this one
};

Room room_for(const Source& compressed, Spill& spill) {
  Room room;
  room.declared = spill.free_bytes();
  room.undeclared = room.declared / 2;
  const uint64_t ratio = spill.max_ratio(), bytes = compressed.size();
  if (ratio != 0)
    room.by_ratio = std::max(kAlwaysDecompressed, bytes > UINT64_MAX / ratio ? UINT64_MAX : bytes * ratio);
  return room;
}

// Shows the first bytes to `look` as soon as they are complete.
class FirstBytes {
 public:
  explicit FirstBytes(const LookAtFirst& look) : look_(look), has_looked_(!look) {}
  void add(std::span<const std::byte> bytes) {
    if (has_looked_) return;
    const std::span<const std::byte> part = bytes.first(std::min<uint64_t>(bytes.size(), kFirstBytes - first_.size()));
    first_.insert(first_.end(), part.begin(), part.end());
    if (first_.size() == kFirstBytes) end();
  }
  // The data end here, or there are enough.
  void end() {
    if (!std::exchange(has_looked_, true)) look_(first_);
  }

 private:
  const LookAtFirst& look_;
  bool has_looked_;
  std::vector<std::byte> first_;
};

}  // namespace

std::shared_ptr<const Descriptor> Spill::file() {
  if (file_ != nullptr) return file_;
  const char* named = std::getenv("TMPDIR");
  std::filesystem::path& folder = options_.folder;
  if (named != nullptr && *named != '\0') folder = named;
  if (folder.empty()) folder = "/var/tmp";
  int number = uninterrupted([&] { return open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
  if (number < 0) {  // not every file system has O_TMPFILE
    std::string name = (folder / ".lowtide-spill-XXXXXX").string();
    number = mkostemp(name.data(), O_CLOEXEC);
    if (number >= 0) unlink(name.c_str());
  }
  if (number < 0) {
    throw Error(Code::kIo, fmt::format("no temporary file can be made: {} (see TMPDIR)", std::strerror(errno)),
                {.file = folder.string()});
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
                  {.file = options_.folder.string()});
    }
    bytes = bytes.subspan(static_cast<size_t>(done));
    size_ += static_cast<uint64_t>(done);
  }
}

std::shared_ptr<Source> decompress(const Source& compressed, Spill& spill, Budget& budget, const LookAtFirst& look) {
  const uint64_t begin = spill.size();
  FirstBytes first(look);
  Decoder(compressed, budget).run(room_for(compressed, spill), [&](std::span<const std::byte> bytes) {
    first.add(bytes);
    spill.append(bytes);
    return true;
  });
  first.end();
  compressed.check_unchanged();
  return std::make_shared<SpilledSource>(spill.file(), begin, spill.size() - begin, compressed.name());
}

std::vector<std::byte> first_decompressed_bytes(const Source& compressed, Budget& budget) {
  std::vector<std::byte> out;
  Decoder(compressed, budget).run({}, [&](std::span<const std::byte> bytes) {
    const uint64_t part = std::min<uint64_t>(bytes.size(), kFirstBytes - out.size());
    out.insert(out.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(part));
    return out.size() < kFirstBytes;
  });
  return out;
}

}  // namespace lowtide::stream
