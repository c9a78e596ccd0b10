// SPDX-License-Identifier: Apache-2.0
#include "stream/file/seekable_source.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include "stream/error.h"
#include "stream/file/seekable.h"
#include "stream/shape.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kFramesPerSum = 64;

struct Frame {
  uint32_t compressed, bytes;
};
// Where a frame begins, compressed and decompressed.
struct Place {
  uint64_t compressed = 0, offset = 0;
};

template <typename T>
T number(std::span<const std::byte> bytes, size_t at) {
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

class SeekableSource final : public Source {
 public:
  SeekableSource(std::shared_ptr<Source> from, uint64_t frames, uint64_t entry_bytes, uint64_t table, Budget& budget)
      : from_(std::move(from)), context_(ZSTD_createDCtx()), count_(frames) {
    if (context_ == nullptr) throw Error(Code::kBudget, "the system has no memory for the decompression");
    table_ = budget.take(checked_mul(frames, sizeof(Frame)), "the table of the zstd frames");
    sums_ = budget.take(checked_mul(frames / kFramesPerSum + 1, sizeof(Place)), "the table of the zstd frames");
    read_table(entry_bytes, table);
    for (Slot& slot : slots_) slot.bytes = budget.take(largest_.bytes, "a zstd frame");
    packed_ = budget.take(largest_.compressed, "a zstd frame");
  }
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return from_->name(); }
  void check_unchanged() const override { from_->check_unchanged(); }

  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    check_range(offset, out.size(), size_, name());
    std::lock_guard lock(mutex_);
    auto [frame, place] = find(offset);
    while (!out.empty()) {
      const uint64_t skip = offset - place.offset, bytes = frames()[frame].bytes;
      const uint64_t part = std::min<uint64_t>(bytes - std::min(skip, bytes), out.size());
      if (part > 0) std::memcpy(out.data(), decompressed(frame, place) + skip, part);
      out = out.subspan(part);
      offset += part;
      place = behind(frame++, place);
    }
  }

 private:
  struct Slot {
    Budget::Lease bytes;
    uint64_t frame = UINT64_MAX;
  };
  Frame* frames() const { return reinterpret_cast<Frame*>(table_.data()); }
  Place* sums() const { return reinterpret_cast<Place*>(sums_.data()); }
  Place behind(uint64_t frame, Place place) const {
    return {place.compressed + frames()[frame].compressed, place.offset + frames()[frame].bytes};
  }
  [[noreturn]] void malformed(const std::string& text) const {
    throw Error(Code::kMalformed, text, {.file = from_->name()});
  }

  // `table` is where the entries begin; the frames end in front of the header of the skippable frame.
  void read_table(uint64_t entry_bytes, uint64_t table) {
    std::array<std::byte, 12 * 1024> window;
    const uint64_t per_window = window.size() / entry_bytes;
    Place place;
    for (uint64_t first = 0; first < count_; first += per_window) {
      const uint64_t part = std::min(per_window, count_ - first);
      from_->read_at(table + first * entry_bytes, std::span(window).first(part * entry_bytes));
      for (uint64_t i = 0; i < part; ++i) {
        if ((first + i) % kFramesPerSum == 0) sums()[(first + i) / kFramesPerSum] = place;
        Frame& frame = frames()[first + i];
        frame = {number<uint32_t>(window, i * entry_bytes), number<uint32_t>(window, i * entry_bytes + 4)};
        largest_.compressed = std::max(largest_.compressed, frame.compressed);
        largest_.bytes = std::max(largest_.bytes, frame.bytes);
        place = behind(first + i, place);
      }
    }
    if (place.compressed != table - seekable::kSkippableHeaderBytes)
      malformed("the table of the zstd frames does not add up to the file");
    size_ = place.offset;
  }

  // The frame with the byte at `offset` (or the end), and where it begins.
  std::pair<uint64_t, Place> find(uint64_t offset) const {
    const Place* end = sums() + (count_ + kFramesPerSum - 1) / kFramesPerSum;
    const Place* begin = sums();
    const Place* sum =
        std::upper_bound(begin, end, offset, [](uint64_t wanted, const Place& place) { return wanted < place.offset; });
    if (sum != begin) --sum;
    uint64_t frame = static_cast<uint64_t>(sum - begin) * kFramesPerSum;
    Place place = count_ > 0 ? *sum : Place();
    while (frame < count_ && place.offset + frames()[frame].bytes <= offset) place = behind(frame++, place);
    return {frame, place};
  }

  const std::byte* decompressed(uint64_t frame, Place place) const {
    for (Slot& slot : slots_)
      if (slot.frame == frame) return slot.bytes.data();
    Slot& slot = slots_[older_];
    older_ = 1 - older_;
    slot.frame = UINT64_MAX;
    const Frame& sizes = frames()[frame];
    from_->read_at(place.compressed, packed_.span().first(sizes.compressed));
    const size_t made =
        ZSTD_decompressDCtx(context_.get(), slot.bytes.data(), sizes.bytes, packed_.data(), sizes.compressed);
    if (ZSTD_isError(made)) malformed(fmt::format("damaged zstd data: {}", ZSTD_getErrorName(made)));
    if (made != sizes.bytes) malformed("a zstd frame is shorter than its table says");
    slot.frame = frame;
    return slot.bytes.data();
  }

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::shared_ptr<Source> from_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  uint64_t count_, size_ = 0;
  Frame largest_ = {};
  Budget::Lease table_, sums_, packed_;
  mutable std::mutex mutex_;  // guards the context, packed_, and the slots
  mutable std::array<Slot, 2> slots_;
  mutable size_t older_ = 0;
};

}  // namespace

uint64_t least_for_seekable(uint64_t frames, uint64_t frame_bytes) {
  constexpr uint64_t kPages = 5 * 4096;  // leases are whole pages
  const uint64_t tables = checked_add(checked_mul(frames, sizeof(Frame)), (frames / kFramesPerSum + 1) * sizeof(Place));
  return checked_add(tables, checked_mul(2, frame_bytes) + ZSTD_compressBound(frame_bytes) + kPages);
}

std::shared_ptr<Source> open_seekable(std::shared_ptr<Source> compressed, Budget& budget) {
  constexpr uint64_t kFrameless = seekable::kSkippableHeaderBytes + seekable::kFooterBytes;
  const uint64_t bytes = compressed->size();
  if (bytes < kFrameless) return nullptr;
  std::array<std::byte, seekable::kFooterBytes> footer;
  compressed->read_at(bytes - footer.size(), footer);
  if (number<uint32_t>(footer, 5) != seekable::kMagic) return nullptr;
  const auto frames = number<uint32_t>(footer, 0);
  const auto flags = number<uint8_t>(footer, 4);
  auto malformed = [&](const char* text) { throw Error(Code::kMalformed, text, {.file = compressed->name()}); };
  if (flags & seekable::kReservedFlags || frames > seekable::kMaxFrames)
    malformed("the table of the zstd frames is of an unknown form");
  const uint64_t entry = seekable::kEntryBytes + (flags & seekable::kHasChecksums ? seekable::kChecksumBytes : 0);
  const uint64_t table = frames * entry;
  if (table > bytes - kFrameless) malformed("the table of the zstd frames is longer than the file");
  const uint64_t begin = bytes - seekable::kFooterBytes - table;
  std::array<std::byte, seekable::kSkippableHeaderBytes> header;
  compressed->read_at(begin - header.size(), header);
  if (number<uint32_t>(header, 0) != seekable::kSkippableMagic ||
      number<uint32_t>(header, 4) != table + seekable::kFooterBytes)
    malformed("the table of the zstd frames has no beginning");
  return std::make_shared<SeekableSource>(std::move(compressed), frames, entry, begin, budget);
}

std::shared_ptr<Source> open_decompressed(const std::filesystem::path& path, Spill& spill, Budget& budget,
                                          const LookAtFirst& look) {
  std::shared_ptr<Source> file = open_file(path);
  if (path.extension() != ".zst") return file;
  if (std::shared_ptr<Source> seekable = open_seekable(file, budget)) return seekable;
  return decompress(*file, spill, budget, look);
}

}  // namespace lowtide::stream
