// SPDX-License-Identifier: Apache-2.0
// TfIdfVectorizer of integers: all n-grams of the pool are compared with all sections of the input at once, for each
// length and each distance between items.
//
// The traps: 1-grams are counted once, whatever the skips; the pool may contain n-grams of lengths that are not
// counted, but they count for ngram_indexes; several n-grams may have the same index in the result.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kMostSkips = 256;

// The pool's n-grams of one length.
struct Grams {
  int64_t length;
  std::vector<int64_t> items;   // one n-gram after the other
  std::vector<int64_t> places;  // index of each in the result
  std::vector<float> weights;   // of each; empty: 1

  int64_t count() const { return static_cast<int64_t>(places.size()); }
};

std::vector<int64_t> need_list(Lowering& lo, const char* name) {
  auto list = lo.attr_ints(name);
  if (!list || list->empty()) lo.malformed(fmt::format("attribute '{}' is missing or empty", name));
  return *list;
}

std::vector<Grams> read_grams(Lowering& lo, const std::vector<int64_t>& places, const std::vector<float>& weights) {
  if (lo.has_attr("pool_strings"))
    lo.unsupported("n-grams of strings are not supported: TFLite has no kernels for strings");
  const std::vector<int64_t> pool = need_list(lo, "pool_int64s"), starts = need_list(lo, "ngram_counts");
  const int64_t shortest = lo.need_attr_i("min_gram_length"), longest = lo.need_attr_i("max_gram_length");
  if (shortest < 1 || longest < shortest)
    lo.malformed(
        fmt::format("min_gram_length must be from 1 to max_gram_length; they are {} and {}", shortest, longest));
  std::vector<Grams> all;
  size_t number = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto length = static_cast<int64_t>(i) + 1,
               end = i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(pool.size());
    if (starts[i] < 0 || end < starts[i] || end > static_cast<int64_t>(pool.size()) || (end - starts[i]) % length != 0)
      lo.malformed(fmt::format("attribute 'ngram_counts' does not fit a pool of {} items", pool.size()));
    Grams grams{length, {pool.begin() + starts[i], pool.begin() + end}, {}};
    std::set<std::vector<int64_t>> seen;
    for (int64_t at = starts[i]; at < end; at += length, ++number) {
      if (number >= places.size())
        lo.malformed(fmt::format("the pool has more n-grams than ngram_indexes has elements ({})", places.size()));
      grams.places.push_back(places[number]);
      if (!weights.empty()) grams.weights.push_back(weights[number]);
      if (!seen.emplace(pool.begin() + at, pool.begin() + at + length).second)
        lo.malformed("the pool contains an n-gram twice");
    }
    if (length >= shortest && length <= longest && !grams.places.empty()) all.push_back(std::move(grams));
  }
  return all;
}

// How often each n-gram occurs in x [rows, items] with items `distance` apart: i32 [rows, n-grams].
Val occurrences(Lowering& lo, Val x, const Grams& grams, int64_t distance, int64_t starts) {
  Builder& b = lo.b;
  Val pool = b.constant(stream::recipe::ints(grams.items, DType::kInt64, {grams.count(), grams.length}));
  Val same;
  for (int64_t i = 0; i < grams.length; ++i) {
    const Dim rows[] = {-1, starts}, column[] = {-1, 1};
    Val item = unsqueeze_axes(lo, b.slice(x, std::vector<int64_t>{0, i * distance}, rows), {2});
    Val wanted = b.reshape(b.slice(pool, std::vector<int64_t>{0, i}, column), {1, 1, grams.count()});
    Val equal = b.equal(item, wanted);
    same = same ? b.logical_and(same, equal) : equal;
  }
  return b.sum(b.cast(same, DType::kInt32), std::vector<int>{1}, false);
}

// One weight for each n-gram; empty when there are none or `mode` does not use them.
std::vector<float> read_weights(Lowering& lo, const std::string& mode, const std::vector<int64_t>& places) {
  std::vector<float> weights = lo.attr_floats("weights").value_or(std::vector<float>());
  if (weights.empty() || mode == "TF") return {};
  if (weights.size() != places.size())
    lo.malformed(fmt::format("attribute 'weights' must have {} elements, one for each n-gram; it has {}", places.size(),
                             weights.size()));
  if (mode == "IDF" && std::set<int64_t>(places.begin(), places.end()).size() < places.size())
    lo.unsupported(
        "n-grams that share an index with weights are not supported in mode IDF: runtimes disagree on which weight is "
        "used",
        "give each n-gram a different index in ngram_indexes");
  return weights;
}

}  // namespace

void lower_tf_idf_vectorizer(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const std::string mode = lo.attr_s("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    lo.malformed(fmt::format("attribute 'mode' must be 'TF', 'IDF' or 'TFIDF'; it is '{}'", mode));
  const std::vector<int64_t> places = need_list(lo, "ngram_indexes");
  const int64_t skips = lo.need_attr_i("max_skip_count");
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  if (*least < 0 || *most >= INT32_MAX)
    lo.malformed(
        fmt::format("attribute 'ngram_indexes' must be from 0 to 2^31 - 2; it is from {} to {}", *least, *most));
  if (skips < 0) lo.malformed(fmt::format("attribute 'max_skip_count' must not be negative; it is {}", skips));
  if (skips > kMostSkips)
    lo.unsupported(fmt::format("max_skip_count {} is not supported: the most is {}", skips, kMostSkips));
  const int64_t size = *most + 1;
  const std::vector<Grams> pool = read_grams(lo, places, read_weights(lo, mode, places));
  if (lo.rank(x) > 2) lo.malformed(fmt::format("the input must have rank 2 or less; it has rank {}", lo.rank(x)));
  const bool batched = lo.rank(x) == 2;
  const Dim rows = batched ? b.dim(x, 0) : 1;
  const int64_t items = lo.rank(x) == 0 ? 1 : lo.need_static(b.dim(x, -1), "the number of items");
  x = b.cast(reshape_to(lo, x, std::vector<Dim>{rows, items}), DType::kInt64);

  std::vector<Val> counts;  // [n-grams of one length, rows]
  std::vector<int64_t> segments;
  for (const Grams& grams : pool) {
    Val sum;
    for (int64_t distance = 1; distance <= (grams.length == 1 ? 1 : skips + 1); ++distance) {
      const int64_t starts = items - distance * (grams.length - 1);
      if (starts < 1) break;
      Val found = occurrences(lo, x, grams, distance, starts);
      sum = sum ? b.add(sum, found) : found;
    }
    if (!sum) continue;
    if (mode == "IDF") sum = b.minimum(sum, b.scalar_like(1, sum));
    sum = b.cast(b.transpose(sum, {1, 0}), DType::kFloat32);
    if (!grams.weights.empty()) sum = b.mul(sum, b.constant(stream::recipe::floats(grams.weights, {grams.count(), 1})));
    counts.push_back(sum);
    segments.insert(segments.end(), grams.places.begin(), grams.places.end());
  }
  if (counts.empty()) {  // the input is too short for any n-gram
    const Shape shape = batched ? Shape{rows, size} : Shape{size};
    return lo.output(0, filled_with(lo, shape, b.scalar(0, DType::kFloat32)));
  }
  Val by_place = b.op(Kind::kUnsortedSegmentSum, {b.concat(counts, 0), b.i32(segments), b.i32_scalar(size)});
  // Without weights, n-grams with the same index count as one.
  if (mode == "IDF" && !lo.has_attr("weights")) by_place = b.minimum(by_place, b.scalar_like(1, by_place));
  Val y = b.transpose(by_place, {1, 0});
  lo.output(0, batched ? y : b.reshape(y, {size}));
}

}  // namespace lowtide::layout
