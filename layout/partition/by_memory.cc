// SPDX-License-Identifier: Apache-2.0
#include "layout/partition/by_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "stream/error.h"

namespace lowtide::layout {
namespace {

// Shapes are what a model says: sums stay at the most that there is.
uint64_t capped_sum(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

struct Cost {
  uint64_t bytes = 0, cuts = 0;  // at the seams; their number
};

// The longest piece that ends at a place. What a longer order adds to it moves its begin forward only, so that all
// pieces together take as many steps as the order has weights.
class LongestPiece {
 public:
  explicit LongestPiece(const std::vector<OrderedUnit>& order) : order_(order) {
    size_t numbers = 0;
    for (const OrderedUnit& unit : order)
      for (const PartWeights& part : unit.weights) numbers = std::max(numbers, part.number + 1);
    users_.resize(numbers);
  }

  size_t first() const { return first_; }

  // The next place.
  void add(size_t place) {
    const OrderedUnit& unit = order_[place];
    while (unit.must_cut && first_ < place) drop_first();
    for (const PartWeights& part : unit.weights)
      if (users_[part.number]++ == 0) weights_ += part.bytes;
    while (!largest_.empty() && order_[largest_.back()].activation_bytes <= unit.activation_bytes) largest_.pop_back();
    largest_.push_back(place);
    while (first_ < place && bytes() > unit.limit) drop_first();
  }

 private:
  uint64_t bytes() const {
    const uint64_t weights = weights_ > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(weights_);
    return capped_sum(weights, order_[largest_.front()].activation_bytes);
  }

  void drop_first() {
    for (const PartWeights& part : order_[first_].weights)
      if (--users_[part.number] == 0) weights_ -= part.bytes;
    if (largest_.front() == first_) largest_.pop_front();
    ++first_;
  }

  const std::vector<OrderedUnit>& order_;
  size_t first_ = 0;
  std::vector<size_t> users_;      // of weights, by their number
  unsigned __int128 weights_ = 0;  // bytes
  std::deque<size_t> largest_;     // places with more activations than all after them
};

}  // namespace

uint64_t OrderedUnit::bytes() const {
  uint64_t sum = activation_bytes;
  for (const PartWeights& part : weights) sum = capped_sum(sum, part.bytes);
  return sum;
}

// best[i]: of the order before place i, cut into whole pieces.
std::vector<size_t> cut_by_memory(const std::vector<OrderedUnit>& order, FewestOf what) {
  const OrderedUnit* largest = nullptr;  // of those above their limit
  for (const OrderedUnit& unit : order)
    if (unit.bytes() > unit.limit && (!largest || unit.bytes() > largest->bytes())) largest = &unit;
  if (largest)
    throw stream::Error(stream::Code::kBudget,
                        fmt::format("a part that cannot be divided needs {} bytes, and its piece may have {}; a limit "
                                    "of {} bytes would do",
                                    largest->bytes(), largest->limit, largest->bytes()));
  const auto is_less = [what](const Cost& a, const Cost& b) {
    return what == FewestOf::kBytes ? std::pair(a.bytes, a.cuts) < std::pair(b.bytes, b.cuts)
                                    : std::pair(a.cuts, a.bytes) < std::pair(b.cuts, b.bytes);
  };
  std::vector<Cost> best(order.size() + 1), with_cut(order.size());  // with a cut in front of a place too
  std::vector<size_t> begin(order.size() + 1);                       // of the last piece
  LongestPiece longest(order);
  std::deque<size_t> cheapest;  // places where the last piece may begin, the best first
  for (size_t end = 1; end <= order.size(); ++end) {
    const size_t last = end - 1;
    with_cut[last] =
        last == 0 ? Cost() : Cost{capped_sum(best[last].bytes, order[last].seam_bytes), best[last].cuts + 1};
    longest.add(last);
    while (!cheapest.empty() && !is_less(with_cut[cheapest.back()], with_cut[last])) cheapest.pop_back();
    cheapest.push_back(last);
    while (cheapest.front() < longest.first()) cheapest.pop_front();
    begin[end] = cheapest.front();
    best[end] = with_cut[cheapest.front()];
  }
  std::vector<size_t> cuts;
  for (size_t end = order.size(); end > 0; end = begin[end])
    if (begin[end] > 0) cuts.push_back(begin[end]);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace lowtide::layout
