// SPDX-License-Identifier: Apache-2.0
#include "layout/partition/by_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stream/error.h"

namespace lowtide::layout {
namespace {

// Shapes are what a model says: sums stay at the most that there is.
uint64_t capped_sum(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

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
  struct Cost {
    uint64_t bytes, cuts;  // at the seams; their number
  };
  constexpr Cost kNone = {UINT64_MAX, UINT64_MAX};
  auto is_less = [&](const Cost& a, const Cost& b) {
    return what == FewestOf::kBytes ? std::pair(a.bytes, a.cuts) < std::pair(b.bytes, b.cuts)
                                    : std::pair(a.cuts, a.bytes) < std::pair(b.cuts, b.bytes);
  };
  std::vector<Cost> best(order.size() + 1, kNone);
  std::vector<size_t> begin(order.size() + 1);  // of the last piece
  best[0] = {0, 0};
  size_t numbers = 0;
  for (const OrderedUnit& unit : order)
    for (const PartWeights& part : unit.weights) numbers = std::max(numbers, part.number + 1);
  std::vector<size_t> counted_for(numbers);  // the last end for which the weights were counted
  for (size_t end = 1; end <= order.size(); ++end) {
    uint64_t weights = 0, activations = 0;
    for (size_t place = end; place-- > 0;) {
      for (const PartWeights& part : order[place].weights)
        if (std::exchange(counted_for[part.number], end) != end) weights = capped_sum(weights, part.bytes);
      activations = std::max(activations, order[place].activation_bytes);
      if (capped_sum(weights, activations) > order[place].limit) break;
      const bool is_first = place == 0;
      const Cost cost = {capped_sum(best[place].bytes, is_first ? 0 : order[place].seam_bytes),
                         best[place].cuts + (is_first ? 0 : 1)};
      if (is_less(cost, best[end])) {
        best[end] = cost;
        begin[end] = place;
      }
      if (order[place].must_cut) break;
    }
  }
  std::vector<size_t> cuts;
  for (size_t end = order.size(); end > 0; end = begin[end])
    if (begin[end] > 0) cuts.push_back(begin[end]);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace lowtide::layout
