// SPDX-License-Identifier: Apache-2.0
// Masks of attention: numbers such as -1e4 that are added to some scores, or stand in place of them, so that SOFTMAX
// makes them 0. A grid with such a number in it has no steps left for the scores.
//
// SOFTMAX needs no more of a mask than that it is well below the largest score of its row: e^-d is 0 in its result.
// So where SOFTMAX alone reads a value, the grid ends a little below the least score, and masks are saturated there.
// Masks are told from scores that are far below 0 themselves, such as negative distances, by the gap between both.
// A row of masks alone gives equal numbers then. ADD passes the limit on to what is added.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "layout/quantize/calibrated.h"

namespace lowtide::layout {

// Values that share a grid, by one of them, as place_grids.cc has them.
struct GridGroups {
  std::function<ValueId(ValueId)> of;
  std::function<bool(OpId)> chooses;  // whether the op's result has elements of its data, so that all share a group
};

class Masks {
 public:
  // `ranges`: by value id; no wider than what was seen, symmetric or not. `with_gap`: CalibratedTensor::has_gap.
  Masks(Graph& graph, std::vector<std::optional<Interval>> ranges, std::set<ValueId> with_gap, GridGroups groups,
        DType dtype);

  // Numbers of the group below this one may be replaced by it without a change of the result; nullopt: not known.
  std::optional<double> least_of_group(ValueId root);
  // The same for operands of an ADD.
  std::optional<double> least_of_operand(const Op& add, size_t input);

 private:
  using Found = std::map<ValueId, std::optional<double>>;
  using Find = std::optional<double> (Masks::*)(ValueId);

  std::optional<double> found_once(Found& found, ValueId root, Find find);
  std::optional<Interval> range(ValueId id);
  std::optional<double> find_least(ValueId root);
  std::optional<double> needed_by(const Op& reader, ValueId id);
  std::optional<double> least_score(ValueId root);
  std::optional<double> find_least_score(ValueId root);
  std::optional<double> least_score_of(ValueId id);
  std::optional<double> least_term(ValueId id, double sign);

  Graph& graph_;
  const std::vector<std::optional<Interval>> ranges_;
  const std::set<ValueId> with_gap_;
  const GridGroups groups_;
  const double margin_;
  const std::vector<std::vector<OpId>> users_;
  std::map<ValueId, std::vector<ValueId>> members_;
  int depth_ = 0;
  // Found so far; what is being found, or too far away, is nullopt.
  Found leasts_, scores_;
};

}  // namespace lowtide::layout
