// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/recipe_key.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "stream/file/file.h"
#include "stream/recipe/recipe_step.h"

namespace lowtide::stream {
namespace {

// A serialisation in which different recipes differ; only equality matters, so native byte order will do.
class Text {
 public:
  template <typename T>
  Text& number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  template <typename T>
  Text& list(const std::vector<T>& values) {
    number(values.size());
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return *this;
  }
  std::string text;
};

struct Writer {
  Text& out;
  void operator()(const step::Stored& s) const {
    out.number(reinterpret_cast<uintptr_t>(s.source.get()));
    for (const FileRun& file_run : s.file_runs)
      out.number(file_run.offset)
          .number(file_run.bytes)
          .number(file_run.elements)
          .number(file_run.encoding)
          .number(file_run.width);
  }
  void operator()(const step::Inline& s) const { out.list(s.lanes); }
  void operator()(const step::Fill& s) const { out.list(s.lane); }
  void operator()(const step::Iota& s) const { out.number(s.start).number(s.delta); }
  void operator()(const step::Permute& s) const { out.list(s.perm); }
  void operator()(const step::Reshape&) const {}
  void operator()(const step::Cast&) const {}
  void operator()(const step::Slice& s) const { out.list(s.begin).list(s.stride); }
  void operator()(const step::Concat& s) const { out.number(s.axis); }
  void operator()(const step::Broadcast&) const {}
  void operator()(const step::Pad& s) const { out.list(s.before).list(s.lane); }
  void operator()(const step::Gather& s) const { out.number(s.axis).list(s.indices); }
  void operator()(const step::Unary& s) const { out.number(s.op); }
  void operator()(const step::Binary& s) const { out.number(s.op); }
  void operator()(const step::Select&) const {}
  void operator()(const step::Quantize& s) const { out.list(s.scale).list(s.zero).number(s.axis); }
  void operator()(const step::Dequantize& s) const { out.list(s.scale).list(s.zero).number(s.axis); }
  void operator()(const step::Reduce& s) const { out.number(s.op).list(s.axes); }
};

}  // namespace

bool RecipeKeys::same_bytes(const Recipe& a, const Recipe& b) {
  const step::Stored &x = *recipe::raw_stored(a), &y = *recipe::raw_stored(b);
  constexpr uint64_t kTile = 64 << 10;
  const uint64_t total = a.bytes();
  Budget::Lease lease = budget_.take(2 * kTile, "comparing constants");
  for (uint64_t at = 0; at < total; at += kTile) {
    const uint64_t count = std::min(kTile, total - at);
    std::span<std::byte> left = lease.span().subspan(0, count), right = lease.span().subspan(kTile, count);
    x.source->read_at(x.file_runs[0].offset + at, left);
    y.source->read_at(y.file_runs[0].offset + at, right);
    if (std::memcmp(left.data(), right.data(), count) != 0) return false;
  }
  return true;
}

int RecipeKeys::stored_number(const RecipeRef& recipe) {
  const step::Stored& stored = *recipe::raw_stored(*recipe);
  const uint64_t bytes = recipe->bytes();
  std::vector<std::byte> begin(std::min<uint64_t>(bytes, 1024));
  stored.source->read_at(stored.file_runs[0].offset, begin);
  std::vector<Place>& alike = places_[{bytes, XXH3_64bits(begin.data(), begin.size())}];
  // Bounds for files made to be compared for ever: what lies beyond them is merely stored twice.
  constexpr size_t kMostCompared = 8;
  constexpr uint64_t kLargestCompared = uint64_t{1} << 30;
  const bool worth = bytes <= kLargestCompared;
  for (size_t i = 0; i < std::min(alike.size(), kMostCompared); ++i) {
    const step::Stored& other = *recipe::raw_stored(*alike[i].recipe);
    const bool same_place = other.source == stored.source && other.file_runs[0].offset == stored.file_runs[0].offset;
    if (same_place || (worth && same_bytes(*alike[i].recipe, *recipe))) return alike[i].number;
  }
  alike.push_back({recipe, next_number_});
  return next_number_++;
}

int RecipeKeys::key(const RecipeRef& recipe) {
  if (auto it = known_.find(recipe.get()); it != known_.end()) return it->second;
  Text out;
  out.number(recipe->dtype).list(recipe->dims).number(recipe->step.index());
  if (recipe::raw_stored(*recipe)) {
    out.number(stored_number(recipe));
  } else {
    std::visit(Writer{out}, recipe->step);
  }
  for (const RecipeRef& from : recipe->from) out.number(key(from));
  const int number = keys_.try_emplace(std::move(out.text), static_cast<int>(keys_.size())).first->second;
  known_.emplace(recipe.get(), number);
  kept_.push_back(recipe);
  return number;
}

}  // namespace lowtide::stream
