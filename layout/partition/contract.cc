// SPDX-License-Identifier: Apache-2.0
// The strongly connected components of the graph in which `together` goes both ways, by Tarjan's algorithm without
// recursion: paths are as long as the model.
#include "layout/partition/contract.h"

#include <algorithm>
#include <cstdint>

namespace lowtide::layout {
namespace {

constexpr size_t kNotSeen = SIZE_MAX;

class Components {
 public:
  explicit Components(const std::vector<std::vector<size_t>>& next)
      : next_(next), index_(next.size(), kNotSeen), low_(next.size()), unit_(next.size(), kNotSeen) {}

  Contraction find() {
    for (size_t node = 0; node < next_.size(); ++node)
      if (index_[node] == kNotSeen) visit(node);
    // Components are found from the last to the first.
    for (size_t& unit : unit_) unit = found_ - 1 - unit;
    return {std::move(unit_), found_};
  }

 private:
  struct Frame {
    size_t node, edge;
  };

  void open(size_t node) {
    index_[node] = low_[node] = seen_++;
    stack_.push_back(node);
    frames_.push_back({node, 0});
  }

  void visit(size_t root) {
    open(root);
    while (!frames_.empty()) {
      const size_t node = frames_.back().node;
      if (frames_.back().edge < next_[node].size()) {
        const size_t to = next_[node][frames_.back().edge++];
        if (index_[to] == kNotSeen) {
          open(to);
        } else if (unit_[to] == kNotSeen) {
          low_[node] = std::min(low_[node], index_[to]);
        }
        continue;
      }
      frames_.pop_back();
      if (!frames_.empty()) low_[frames_.back().node] = std::min(low_[frames_.back().node], low_[node]);
      if (low_[node] == index_[node]) close(node);
    }
  }

  void close(size_t node) {
    while (unit_[node] == kNotSeen) {
      unit_[stack_.back()] = found_;
      stack_.pop_back();
    }
    ++found_;
  }

  const std::vector<std::vector<size_t>>& next_;
  std::vector<size_t> index_, low_, unit_, stack_;
  std::vector<Frame> frames_;
  size_t seen_ = 0, found_ = 0;
};

}  // namespace

Contraction contract(size_t nodes, const std::vector<std::pair<size_t, size_t>>& edges,
                     const std::vector<std::pair<size_t, size_t>>& together) {
  std::vector<std::vector<size_t>> next(nodes);
  for (const auto& [from, to] : edges) next[from].push_back(to);
  for (const auto& [a, b] : together) {
    next[a].push_back(b);
    next[b].push_back(a);
  }
  return Components(next).find();
}

}  // namespace lowtide::layout
