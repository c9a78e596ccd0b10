// SPDX-License-Identifier: Apache-2.0
// What the operators of a graph require of dimensions that only the run knows, gathered to find out whether any run can
// fulfil all of it: a dimension that one operator needs to be 5 and another one to be 6 never fits.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::core {

class DimRequirements {
 public:
  // A dimension that two axes of the graph's inputs have by name is left out: models in circulation give one name to
  // dimensions that differ, and run.
  explicit DimRequirements(const Graph& graph);

  // The operator whose requirements follow.
  void begin(const Op& op) { origin_ = op.origin; }
  void equal(Dim a, Dim b);
  void broadcast(Dim a, Dim b);  // numpy's rule: equal, or one of them 1
  // A RESHAPE: both shapes have the same number of elements.
  void same_elements(const Shape& a, const Shape& b);

  // Throws stream::Error(kMalformed) when no run can fulfil all requirements; it names a node and both numbers.
  void check();

 private:
  struct Known {
    std::set<int64_t> allowed;
    uint32_t origin = 0;  // of the operator that left only these
  };
  struct Pair {
    Dim a, b;
    bool broadcasts;
    uint32_t origin;
  };
  struct Elements {
    int64_t count;
    Shape shape;
    uint32_t origin;
  };
  // One unknown number, that is, neither a formula nor a name that may stand for several dimensions.
  bool is_single(Dim dim) const;
  void restrict(Dim dim, const std::set<int64_t>& allowed);
  bool narrow(const Pair& pair);
  void check(const Elements& elements) const;
  [[noreturn]] void contradiction(const std::string& text, uint32_t origin) const;

  const Graph& graph_;
  std::set<Dim> ambiguous_;
  std::map<Dim, Known> known_;
  std::vector<Pair> pairs_;
  std::vector<Elements> elements_;
  uint32_t origin_ = 0;
};

}  // namespace lowtide::core
