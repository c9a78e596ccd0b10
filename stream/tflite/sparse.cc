// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "stream/error.h"
#include "stream/file/file.h"

namespace lowtide::stream {
namespace {

using tfl::Sparsity;

[[noreturn]] void bad_list(std::string text) { throw Error(Code::kMalformed, std::move(text)); }

// Bytes of a source that are read mostly forwards, in small pieces.
class NearBytes {
 public:
  NearBytes(const Source& source, uint64_t begin, uint64_t size) : source_(source), begin_(begin), size_(size) {}

  void copy(uint64_t at, std::span<std::byte> out) {
    if (at > size_ || out.size() > size_ - at) bad_list("the lists of a sparse tensor changed while they were read");
    if (out.size() > kPiece) return source_.read_at(begin_ + at, out);
    if (at < first_ || at + out.size() > first_ + held_) load(at, out.size());
    std::memcpy(out.data(), piece_.data() + (at - first_), out.size());
  }

 private:
  static constexpr uint64_t kPiece = 4096;

  // Pieces begin at multiples of half of their size, so that a search that goes back finds what it left.
  void load(uint64_t at, uint64_t bytes) {
    first_ = at / (kPiece / 2) * (kPiece / 2);
    if (at + bytes > first_ + kPiece) first_ = at;
    held_ = std::min(kPiece, size_ - first_);
    source_.read_at(begin_ + first_, std::span(piece_).first(held_));
  }

  const Source& source_;
  uint64_t begin_, size_, first_ = 0, held_ = 0;
  std::array<std::byte, kPiece> piece_;
};

// A list of segments or indices.
class NearNumbers {
 public:
  NearNumbers(const Source& source, const Sparsity::Numbers& place)
      : bytes_(source, place.offset, uint64_t{place.count} * static_cast<uint64_t>(place.width)), width_(place.width) {}

  int64_t operator[](uint64_t i) {
    if (width_ == 4) return number<int32_t>(i);
    return width_ == 2 ? number<uint16_t>(i) : number<uint8_t>(i);
  }

 private:
  template <typename T>
  int64_t number(uint64_t i) {
    T out;
    bytes_.copy(i * sizeof(T), std::as_writable_bytes(std::span(&out, 1)));
    return out;
  }
  NearBytes bytes_;
  int width_;
};

// A tensor [rows, places, elements] of which some places of each row are stored, as a source of dense bytes.
class CompressedSource final : public Source {
 public:
  CompressedSource(std::shared_ptr<Source> file, const Sparsity& sparsity, const Sparsity::Level& level, uint64_t rows,
                   uint64_t places, uint64_t place_bytes, uint64_t stored_bytes)
      : file_(std::move(file)),
        segments_(level.segments),
        indices_(level.indices),
        values_(sparsity.values),
        rows_(rows),
        places_(places),
        place_bytes_(place_bytes),
        row_bytes_(checked_mul(places, place_bytes)),
        size_(checked_mul(rows, row_bytes_)),
        stored_bytes_(stored_bytes) {
    check();
  }

  uint64_t size() const override { return size_; }
  const std::string& name() const override { return file_->name(); }
  void check_unchanged() const override { file_->check_unchanged(); }

  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    check_range(offset, out.size(), size_, name());
    std::fill(out.begin(), out.end(), std::byte{0});
    if (out.empty()) return;
    const uint64_t end = offset + out.size();
    NearNumbers segments(*file_, segments_), indices(*file_, indices_);
    NearBytes values(*file_, values_, stored_bytes_);
    for (uint64_t row = offset / row_bytes_; row * row_bytes_ < end; ++row) {
      const auto last = static_cast<uint64_t>(segments[row + 1]);
      const uint64_t begin = row * row_bytes_;
      for (uint64_t i = first_behind(indices, segments[row], last, offset > begin ? offset - begin : 0); i < last;
           ++i) {
        const auto place = static_cast<uint64_t>(indices[i]);
        if (place >= places_) bad_list("an index of a sparse tensor changed while it was read");
        const uint64_t at = begin + place * place_bytes_;
        if (at >= end) break;
        const uint64_t from = std::max(at, offset), to = std::min(at + place_bytes_, end);
        if (from < to) values.copy(i * place_bytes_ + (from - at), out.subspan(from - offset, to - from));
      }
    }
  }

 private:
  // The first of a row's indices whose place ends behind `bytes` of the row.
  uint64_t first_behind(NearNumbers& indices, int64_t first, uint64_t last, uint64_t bytes) const {
    auto low = static_cast<uint64_t>(first);
    uint64_t high = last;
    if (bytes == 0) return low;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (static_cast<uint64_t>(indices[middle]) < bytes / place_bytes_)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  // Segments cover the indices without gaps, and the indices of a row rise.
  void check() const {
    if (segments_.count != rows_ + 1)
      bad_list(fmt::format("it has {} segments in place of {}", segments_.count, rows_ + 1));
    if (checked_mul(indices_.count, place_bytes_) != stored_bytes_)
      bad_list(fmt::format("{} indices do not fit {} bytes of data", indices_.count, stored_bytes_));
    NearNumbers segments(*file_, segments_), indices(*file_, indices_);
    if (segments[0] != 0) bad_list(fmt::format("its segments begin with {}", segments[0]));
    for (uint64_t row = 0, i = 0; row < rows_; ++row) {
      const int64_t end = segments[row + 1];
      if (end < static_cast<int64_t>(i) || end > static_cast<int64_t>(indices_.count))
        bad_list(fmt::format("segment {} ends at {}, outside of {} to {}", row, end, i, indices_.count));
      for (int64_t before = -1; i < static_cast<uint64_t>(end); ++i) {
        const int64_t index = indices[i];
        if (index <= before || static_cast<uint64_t>(index) >= places_)
          bad_list(fmt::format("index {} is {}: they must rise in a segment, and be below {}", i, index, places_));
        before = index;
      }
    }
    if (segments[rows_] != static_cast<int64_t>(indices_.count))
      bad_list(fmt::format("its segments end at {}, not at its {} indices", segments[rows_], indices_.count));
  }

  std::shared_ptr<Source> file_;
  Sparsity::Numbers segments_, indices_;
  uint64_t values_, rows_, places_, place_bytes_, row_bytes_, size_, stored_bytes_;
};

// The axes of a sparse tensor, level by level.
struct Levels {
  std::vector<Dim> extents;
  std::vector<std::vector<int>> of_axis;  // by axis of the shape: its level, then that of its blocks
  std::optional<size_t> compressed;
};

Levels levels_of(const tfl::Tensor& tensor, const Sparsity& s) {
  const size_t rank = tensor.shape.size(), count = s.levels.size();
  if (rank == 0 || count != rank + s.block_map.size() || s.order.size() != count)
    bad_list(fmt::format("it has {} levels, an order of {}, and {} blocks, which do not fit rank {}", count,
                         s.order.size(), s.block_map.size(), rank));
  Levels out;
  out.of_axis.resize(rank);
  Shape whole = tensor.shape;
  for (size_t i = 0; i < s.block_map.size(); ++i) {
    const int32_t axis = s.block_map[i];
    if (axis < 0 || static_cast<size_t>(axis) >= rank || (i > 0 && axis <= s.block_map[i - 1]))
      bad_list(fmt::format("block {} is along axis {}; they must rise, and be below {}", i, axis, rank));
    if (s.order[rank + i] != static_cast<int32_t>(rank + i))
      throw Unsupported("the places in its blocks are not traversed in the order of the blocks");
    const int64_t size = s.levels[rank + i].size;
    Dim& extent = whole[static_cast<size_t>(axis)];
    if (s.levels[rank + i].is_compressed) throw Unsupported("blocks of which only some places are stored");
    if (size < 1 || extent % size != 0)
      bad_list(fmt::format("an axis of {} elements is no multiple of its blocks of {}", extent, size));
    extent /= size;
  }
  for (size_t level = 0; level < rank; ++level) {
    const int32_t axis = s.order[level];
    if (axis < 0 || static_cast<size_t>(axis) >= rank || !out.of_axis[static_cast<size_t>(axis)].empty())
      bad_list(fmt::format("level {} is axis {}: the first {} must be its axes, each once", level, axis, rank));
    out.of_axis[static_cast<size_t>(axis)].push_back(static_cast<int>(level));
    out.extents.push_back(whole[static_cast<size_t>(axis)]);
    if (!s.levels[level].is_compressed) {
      if (s.levels[level].size != out.extents.back())
        bad_list(fmt::format("level {} has {} places in place of {}", level, s.levels[level].size, out.extents.back()));
    } else if (out.compressed) {
      throw Unsupported("several of its levels are compressed");
    } else {
      out.compressed = level;
    }
  }
  for (size_t i = 0; i < s.block_map.size(); ++i) {
    out.of_axis[static_cast<size_t>(s.block_map[i])].push_back(static_cast<int>(rank + i));
    out.extents.push_back(s.levels[rank + i].size);
  }
  return out;
}

}  // namespace

RecipeRef dense_recipe(const tfl::Tensor& tensor) {
  if (!tensor.sparsity || !tensor.has_data) throw Unsupported("it is sparse in a form that is not known");
  const Sparsity& s = *tensor.sparsity;
  const DType dtype = tensor.dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kInt8)
    throw Unsupported(fmt::format("it is sparse, and {}; FLOAT32, FLOAT16 and INT8 are supported", tensor.type));
  if (element_count(tensor.shape) == 0) throw Unsupported("it is sparse and has no elements");
  const Levels levels = levels_of(tensor, s);
  const uint64_t elements = element_count(tensor.shape), bytes = file_bytes(dtype, elements);
  RecipeRef stored;
  if (!levels.compressed) {
    if (tensor.data_bytes != bytes)
      bad_list(fmt::format("its data has {} bytes in place of {}", tensor.data_bytes, bytes));
    stored = recipe::stored(s.source, {{s.values, bytes, elements}}, dtype, levels.extents);
  } else {
    const size_t level = *levels.compressed;
    const std::span<const Dim> extents = levels.extents;
    auto source = std::make_shared<CompressedSource>(
        s.source, s, s.levels[level], element_count(extents.first(level)), static_cast<uint64_t>(extents[level]),
        file_bytes(dtype, element_count(extents.subspan(level + 1))), tensor.data_bytes);
    stored = recipe::stored(std::move(source), {{0, bytes, elements}}, dtype, levels.extents);
  }
  Perm perm;
  for (const std::vector<int>& axis : levels.of_axis) perm.insert(perm.end(), axis.begin(), axis.end());
  return recipe::reshape(recipe::permute(std::move(stored), perm), tensor.shape);
}

}  // namespace lowtide::stream
