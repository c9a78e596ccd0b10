// SPDX-License-Identifier: Apache-2.0
// TfIdfVectorizer over integers: every n-gram of the pool is compared with every stretch of the input at once, for each
// length and each distance between its items.
//
// The traps: single items are counted once, whatever the skips; n-grams of other lengths than asked for stand in the
// pool and keep their numbers; several n-grams may share a place in the result.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kMostSkips = 256;

// The n-grams of one length, of which there are some in the pool.
struct Grams {
  int64_t length;
  std::vector<int64_t> items;   // one n-gram after the other
  std::vector<int64_t> places;  // of each in the result
  std::vector<float> weights;   // of each; empty: 1

  int64_t count() const { return static_cast<int64_t>(places.size()); }
};

std::vector<int64_t> need_list(Lowering& lo, const char* name) {
  auto list = lo.attr_ints(name);
  if (!list || list->empty()) lo.malformed(fmt::format("'{}' is missing", name));
  return *list;
}

std::vector<Grams> read_pool(Lowering& lo, const std::vector<int64_t>& places, const std::vector<float>& weights) {
  if (lo.has_attr("pool_strings")) lo.unsupported("n-grams of strings: there are no kernels for strings");
  const std::vector<int64_t> pool = need_list(lo, "pool_int64s"), starts = need_list(lo, "ngram_counts");
  const int64_t shortest = lo.need_attr_i("min_gram_length"), longest = lo.need_attr_i("max_gram_length");
  if (shortest < 1 || longest < shortest) lo.malformed("min_gram_length and max_gram_length do not fit");
  std::vector<Grams> all;
  size_t number = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto length = static_cast<int64_t>(i) + 1,
               end = i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(pool.size());
    if (starts[i] < 0 || end < starts[i] || end > static_cast<int64_t>(pool.size()) || (end - starts[i]) % length != 0)
      lo.malformed(fmt::format("ngram_counts do not fit a pool of {} items", pool.size()));
    Grams grams{length, {pool.begin() + starts[i], pool.begin() + end}, {}};
    std::set<std::vector<int64_t>> seen;
    for (int64_t at = starts[i]; at < end; at += length, ++number) {
      if (number >= places.size()) lo.malformed("the pool has more n-grams than ngram_indexes");
      grams.places.push_back(places[number]);
      if (!weights.empty()) grams.weights.push_back(weights[number]);
      if (!seen.emplace(pool.begin() + at, pool.begin() + at + length).second)
        lo.malformed("an n-gram stands twice in the pool");
    }
    if (length >= shortest && length <= longest && !grams.places.empty()) all.push_back(std::move(grams));
  }
  return all;
}

// How often each n-gram stands in x [rows, items], its own items `distance` apart: i32 [rows, n-grams].
Val occurrences(Lowering& lo, Val x, const Grams& grams, int64_t distance, int64_t starts) {
  Builder& b = lo.b;
  Val pool = b.constant(stream::recipe::ints(grams.items, DType::kInt64, {grams.count(), grams.length}));
  Val same;
  for (int64_t i = 0; i < grams.length; ++i) {
    const Dim rows[] = {-1, starts}, column[] = {-1, 1};
    Val item = add_ones(lo, b.slice(x, std::vector<int64_t>{0, i * distance}, rows), {2});
    Val wanted = b.reshape(b.slice(pool, std::vector<int64_t>{0, i}, column), {1, 1, grams.count()});
    Val equal = b.equal(item, wanted);
    same = same ? b.logical_and(same, equal) : equal;
  }
  return b.sum(b.cast(same, DType::kInt32), std::vector<int>{1}, false);
}

// One for each n-gram; empty where they are not asked for.
std::vector<float> read_weights(Lowering& lo, const std::string& mode, const std::vector<int64_t>& places) {
  std::vector<float> weights = lo.attr_floats("weights").value_or(std::vector<float>());
  if (weights.empty() || mode == "TF") return {};
  if (weights.size() != places.size()) lo.malformed("there are not as many weights as n-grams");
  if (mode == "IDF" && std::set<int64_t>(places.begin(), places.end()).size() < places.size())
    lo.unsupported("n-grams that share a place have different weights there: runtimes disagree on which one counts",
                   "give each n-gram a place of its own in ngram_indexes");
  return weights;
}

}  // namespace

void lower_tf_idf_vectorizer(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const std::string mode = lo.attr_s("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") lo.malformed(fmt::format("mode '{}' is not known", mode));
  const std::vector<int64_t> places = need_list(lo, "ngram_indexes");
  const int64_t skips = lo.need_attr_i("max_skip_count");
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  if (*least < 0 || *most >= INT32_MAX) lo.malformed(fmt::format("ngram_indexes from {} to {}", *least, *most));
  if (skips < 0) lo.malformed(fmt::format("a max_skip_count of {}", skips));
  if (skips > kMostSkips) lo.unsupported(fmt::format("{} skips: each is a comparison of its own", skips));
  const int64_t size = *most + 1;
  const std::vector<Grams> pool = read_pool(lo, places, read_weights(lo, mode, places));
  if (lo.rank(x) > 2) lo.malformed(fmt::format("an input of rank {}", lo.rank(x)));
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
  if (counts.empty()) lo.unsupported("an input too short for any n-gram");
  Val by_place = b.op(Kind::kUnsortedSegmentSum, {b.concat(counts, 0), b.i32(segments), b.i32_scalar(size)});
  // Without weights, n-grams that share a place count as one.
  if (mode == "IDF" && !lo.has_attr("weights")) by_place = b.minimum(by_place, b.scalar_like(1, by_place));
  Val y = b.transpose(by_place, {1, 0});
  lo.output(0, batched ? y : b.reshape(y, {size}));
}

}  // namespace lowtide::layout
