// SPDX-License-Identifier: Apache-2.0
#include "layout/partition/by_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "stream/error.h"
#include "stream/shape.h"

namespace lowtide::layout {
namespace {

uint64_t alone(const OrderedUnit& unit) { return stream::checked_add(unit.weight_bytes, unit.activation_bytes); }

}  // namespace

// best[i]: of the order before place i, cut into whole pieces.
std::vector<size_t> cut_by_memory(const std::vector<OrderedUnit>& order, uint64_t limit) {
  using Cost = std::pair<uint64_t, size_t>;  // bytes at the seams, and their number
  uint64_t needed = 0;
  for (const OrderedUnit& unit : order) needed = std::max(needed, alone(unit));
  if (needed > limit)
    throw stream::Error(stream::Code::kBudget,
                        fmt::format("a part that cannot be divided needs {} bytes, and pieces may have {}; a limit of "
                                    "{} bytes would do",
                                    needed, limit, needed));
  constexpr Cost kNone = {std::numeric_limits<uint64_t>::max(), 0};
  std::vector<Cost> best(order.size() + 1, kNone);
  std::vector<size_t> begin(order.size() + 1);  // of the last piece
  best[0] = {0, 0};
  for (size_t end = 1; end <= order.size(); ++end) {
    uint64_t weights = 0, activations = 0;
    for (size_t place = end; place-- > 0;) {
      weights = stream::checked_add(weights, order[place].weight_bytes);
      activations = std::max(activations, order[place].activation_bytes);
      if (stream::checked_add(weights, activations) > limit) break;
      const bool is_first = place == 0;
      const Cost cost = {stream::checked_add(best[place].first, is_first ? 0 : order[place].seam_bytes),
                         best[place].second + (is_first ? 0 : 1)};
      if (cost < best[end]) {
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
