// SPDX-License-Identifier: Apache-2.0
// Reads boxes of a tensor that is stored in a file.
//
// A large box that is one run of the file is seen through a mapped window. Otherwise rows that follow one another
// become one read, and short rows that are apart are read as one span when the bytes between them cost less than a
// system call each: mapping them would keep pages resident of which little is needed.
//
// The traps: varints have no positions. A sparse index of checkpoints, filled as decoding proceeds, bounds how far back
// a random read must start. And a boolean byte of a file may be any number, where in C++ only 0 and 1 are booleans.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/recipe/elementwise.h"
#include "stream/recipe/step_readers.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kLeastMapped = 64 * 1024;       // to map and unmap fewer bytes costs more than to copy them
constexpr uint64_t kMostAhead = 32 * 1024 * 1024;  // that scattered rows are asked for at once
constexpr uint64_t kMaxGapBytes = 4096;            // copying these takes about as long as another read call
constexpr uint64_t kCheckpointWords = 16 * 1024;   // words between two checkpoints,
constexpr uint64_t kMaxCheckpoints = 4096;         // or more, so that an index stays below 32 KiB
constexpr size_t kMaxRuns = 1024;                  // runs gathered into one span

// Bytes of a run, in order from `offset`, through a small window.
class Bytes {
 public:
  Bytes(const Source& source, const FileRun& file_run, std::byte* window, uint64_t window_bytes)
      : source_(source), file_run_(file_run), window_(window), capacity_(window_bytes) {}
  void seek(uint64_t offset) {
    next_ = offset;
    filled_ = used_ = 0;
  }
  uint64_t offset() const { return next_ - (filled_ - used_); }
  uint8_t next() {
    if (used_ == filled_) fill();
    return static_cast<uint8_t>(window_[used_++]);
  }
  [[noreturn]] void malformed(const char* text) const {
    Where where;
    where.file = source_.name();
    where.offset = file_run_.offset + offset();
    throw Error(Code::kMalformed, text, where);
  }

 private:
  void fill() {
    uint64_t rest = file_run_.bytes - next_;
    if (rest == 0) malformed("tensor data end in the middle of an element");
    used_ = 0;
    filled_ = std::min(rest, capacity_);
    source_.read_at(file_run_.offset + next_, {window_, filled_});
    next_ += filled_;
  }

  const Source& source_;
  const FileRun& file_run_;
  std::byte* window_;
  uint64_t capacity_;
  uint64_t next_ = 0, filled_ = 0, used_ = 0;  // offset behind the window; bytes in it; bytes of it used
};

uint64_t varint(Bytes& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    uint64_t byte = bytes.next();
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  bytes.malformed("a number of more than ten bytes in tensor data");
}

// Where decoding of a run of varints can start.
struct Index {
  uint64_t interval = 0;
  std::vector<uint64_t> offsets;            // of words 0, interval, 2 * interval, ...
  uint64_t next_word = 0, next_offset = 0;  // where the last read ended
};

class StoredReader : public StepReader {
 public:
  StoredReader(const Recipe& recipe, const step::Stored& stored, Scratch& scratch)
      : StepReader(recipe),
        source_(*stored.source),
        file_runs_(stored.file_runs),
        indexes_(file_runs_.size()),
        scratch_(scratch),
        per_word_(bits(dtype_) < 8 ? 8 / static_cast<uint64_t>(bits(dtype_)) : 1) {
    uint64_t first = 0;
    bool varints = false;
    for (const FileRun& file_run : file_runs_) {
      firsts_.push_back(first);
      first += file_run.elements;
      varints = varints || is_varint(file_run);
    }
    max_gap_ = varints ? kCheckpointWords : kMaxGapBytes / static_cast<uint64_t>(lane_);
  }

  const std::byte* view(const Box& box) override {
    if (bits(dtype_) < 8 || dtype_ == DType::kBool) return nullptr;  // their bytes are not their lanes
    const std::optional<Run> run = one_run(box, dims_);
    if (!run) return nullptr;
    const size_t index = file_run_of(run->first);
    const FileRun& file_run = file_runs_[index];
    const uint64_t skip = run->first - firsts_[index], lane = static_cast<uint64_t>(lane_);
    const uint64_t offset = file_run.offset + skip * lane, bytes = run->count * lane;
    if (file_run.encoding != Encoding::kRaw || run->count > file_run.elements - skip || bytes < kLeastMapped)
      return nullptr;
    source_.will_read(offset, bytes);
    return scratch_.window(source_, offset, bytes);
  }

  void read(const Box& box, std::byte* out) override {
    expect(box);
    uint64_t done = 0;
    runs_.clear();
    for_each_run(box, dims_, [&](uint64_t first, uint64_t count) {
      if (!runs_.empty() && !joins(first, count)) flush(out, done);
      run_ = count;
      runs_.push_back(first);
    });
    flush(out, done);
  }

 private:
  static bool is_varint(const FileRun& file_run) {
    return file_run.encoding == Encoding::kVarint || (file_run.encoding == Encoding::kTagged && file_run.width == 0);
  }

  size_t file_run_of(uint64_t element) const {
    return static_cast<size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), element) - firsts_.begin()) - 1;
  }

  // Asks for a large box, rows apart included, before it is read piece by piece.
  void expect(const Box& box) const {
    const auto lane = static_cast<uint64_t>(lane_);
    if (file_runs_.size() != 1 || file_runs_[0].encoding != Encoding::kRaw || box.elements() * lane < kLeastMapped)
      return;
    const Shape strides = dense_strides(dims_);
    uint64_t first = 0, last = 0;
    for (size_t i = 0; i < dims_.size(); ++i) {
      first += static_cast<uint64_t>(box.begin[i] * strides[i]);
      last += static_cast<uint64_t>((box.begin[i] + box.size[i] - 1) * strides[i]);
    }
    const uint64_t bytes = file_bytes(dtype_, last + 1 - first);
    if (bytes <= kMostAhead) source_.will_read(file_runs_[0].offset + file_bytes(dtype_, first), bytes);
  }

  bool joins(uint64_t first, uint64_t count) const {
    uint64_t gap = first - (runs_.back() + run_);
    return runs_.size() < kMaxRuns && gap <= max_gap_ && first + count - runs_.front() <= scratch_.fits(lane_);
  }

  // Reads the gathered runs as one span and copies them to `out` behind the elements already done.
  void flush(std::byte* out, uint64_t& done) {
    std::byte* to = at(out, done);
    done += runs_.size() * run_;
    if (runs_.size() == 1) {
      read_flat(runs_[0], run_, to);
    } else {
      Tile span(scratch_);
      read_flat(runs_.front(), runs_.back() + run_ - runs_.front(), span);
      uint64_t bytes = run_ * static_cast<uint64_t>(lane_);
      switch (bytes) {
        case 1:
          pick<1>(span, to);
          break;
        case 2:
          pick<2>(span, to);
          break;
        case 4:
          pick<4>(span, to);
          break;
        case 8:
          pick<8>(span, to);
          break;
        case 16:
          pick<16>(span, to);
          break;
        case 32:
          pick<32>(span, to);
          break;
        default:
          for (size_t i = 0; i < runs_.size(); ++i) std::memcpy(to + i * bytes, at(span, runs_[i] - runs_[0]), bytes);
      }
    }
    runs_.clear();
  }
  template <size_t kBytes>
  void pick(std::byte* span, std::byte* to) const {
    for (size_t i = 0; i < runs_.size(); ++i) std::memcpy(to + i * kBytes, at(span, runs_[i] - runs_[0]), kBytes);
  }

  void read_flat(uint64_t first, uint64_t count, std::byte* out) {
    for (size_t index = file_run_of(first); count > 0; ++index) {
      const FileRun& file_run = file_runs_[index];
      uint64_t skip = first - firsts_[index], part = std::min(count, file_run.elements - skip);
      read_file_run(index, skip, part, out);
      first += part;
      count -= part;
      out = at(out, part);
    }
  }

  void read_file_run(size_t index, uint64_t first, uint64_t count, std::byte* out) {
    const FileRun& file_run = file_runs_[index];
    if (file_run.encoding == Encoding::kRaw) {
      if (bits(dtype_) < 8) return read_packed(file_run, first, count, out);
      auto lane = static_cast<uint64_t>(lane_);
      source_.read_at(file_run.offset + first * lane, {out, count * lane});
      if (dtype_ == DType::kBool)
        std::transform(out, out + count, out, [](std::byte b) { return b != std::byte{} ? std::byte{1} : b; });
      return;
    }
    if (is_varint(file_run)) return read_varints(index, first, count, out);
    read_words(file_run, first, count, out);
  }

  void read_packed(const FileRun& file_run, uint64_t first, uint64_t count, std::byte* out) {
    Tile packed(scratch_);
    while (count > 0) {
      uint64_t skip = first % per_word_;
      uint64_t part = std::min(count, scratch_.tile_bytes() * per_word_ - skip);
      uint64_t bytes = (skip + part + per_word_ - 1) / per_word_;
      source_.read_at(file_run.offset + first / per_word_, {packed.data(), bytes});
      elementwise::unpack(dtype_, packed, skip, out, part);
      first += part;
      count -= part;
      out += part;
    }
  }

  // Words of fixed width, each behind a tag.
  void read_words(const FileRun& file_run, uint64_t first, uint64_t count, std::byte* out) {
    constexpr uint64_t kTag = 1;
    uint64_t width = kTag + file_run.width;
    Tile words(scratch_);
    uint64_t most = scratch_.tile_bytes() / width, end = first + count;
    for (uint64_t word = first / per_word_; word * per_word_ < end;) {
      uint64_t part = std::min(most, (end + per_word_ - 1) / per_word_ - word);
      source_.read_at(file_run.offset + word * width, {words.data(), part * width});
      for (uint64_t i = 0; i < part; ++i, ++word) put(words + i * width + kTag, word, first, end, out);
    }
  }

  void read_varints(size_t index, uint64_t first, uint64_t count, std::byte* out) {
    const FileRun& file_run = file_runs_[index];
    bool tagged = file_run.encoding == Encoding::kTagged;
    uint64_t words = (file_run.elements + per_word_ - 1) / per_word_, end = first + count;
    Tile window(scratch_);
    Bytes bytes(source_, file_run, window, scratch_.tile_bytes());
    Index& known = indexes_[index];
    uint64_t word = start(known, words, first / per_word_);
    bytes.seek(known.next_offset);
    for (; word * per_word_ < end; ++word) {
      if (word == known.interval * known.offsets.size()) known.offsets.push_back(bytes.offset());
      if (tagged) bytes.next();
      uint64_t value = varint(bytes);
      if (dtype_ == DType::kBool) value = value != 0;
      put(reinterpret_cast<const std::byte*>(&value), word, first, end, out);
    }
    known.next_word = word;
    known.next_offset = bytes.offset();
    if (word == words && known.next_offset != file_run.bytes)
      bytes.malformed("tensor data continue after their last element");
  }

  // The nearest known word at or before `wanted`; leaves its offset in next_offset.
  static uint64_t start(Index& known, uint64_t words, uint64_t wanted) {
    if (known.interval == 0) {
      known.interval = std::max(kCheckpointWords, words / kMaxCheckpoints);
      known.offsets.push_back(0);
    }
    uint64_t checkpoint = std::min<uint64_t>(wanted / known.interval, known.offsets.size() - 1);
    if (known.next_word > wanted || known.next_word < checkpoint * known.interval) {
      known.next_word = checkpoint * known.interval;
      known.next_offset = known.offsets[checkpoint];
    }
    return known.next_word;
  }

  // Writes the elements of one word that lie in [first, end).
  void put(const std::byte* word, uint64_t number, uint64_t first, uint64_t end, std::byte* out) {
    if (per_word_ == 1) {
      if (number >= first) std::memcpy(at(out, number - first), word, static_cast<size_t>(lane_));
      return;
    }
    uint64_t from = std::max(first, number * per_word_), to = std::min(end, (number + 1) * per_word_);
    if (from < to) elementwise::unpack(dtype_, word, from - number * per_word_, out + (from - first), to - from);
  }

  const Source& source_;
  const std::vector<FileRun>& file_runs_;
  std::vector<uint64_t> firsts_;  // element at which each run begins
  std::vector<Index> indexes_;
  Scratch& scratch_;
  uint64_t per_word_, max_gap_;
  std::vector<uint64_t> runs_;  // first elements of the runs of the span being gathered, each of run_ elements
  uint64_t run_ = 0;
};

}  // namespace

StepReaderRef make_step_reader(const Recipe& recipe, const step::Stored& step, const StepReaders&, Scratch& scratch) {
  return std::make_shared<StoredReader>(recipe, step, scratch);
}

}  // namespace lowtide::stream
