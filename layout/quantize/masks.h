// SPDX-License-Identifier: Apache-2.0
// Masks of attention: numbers such as -1e4 that are added to some scores, or stand in place of them, so that SOFTMAX
// makes them 0. A grid with such a number in it has no steps left for the scores.
//
// SOFTMAX needs no more of a mask than that it is well below the largest score of its row: e^-d is 0 in its result.
// So where SOFTMAX alone reads a value, the grid ends a little below the least score, and masks are saturated there.
// unmasked.h tells masks from scores that are far below 0 themselves. A row of masks alone gives equal numbers then.
// ADD passes the limit on to what is added.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "layout/quantize/calibrated.h"
#include "layout/quantize/unmasked.h"

namespace lowtide::layout {

// Values that share a grid, by one of them, as place_grids.cc has them.
struct GridGroups {
  std::function<ValueId(ValueId)> of;
  std::function<bool(OpId)> chooses;  // whether the op's result has elements of its data, so that all share a group
};

class Masks {
 public:
  // By value id. `ranges`: no wider than what was seen, symmetric or not.
  Masks(Graph& graph, std::vector<std::optional<Interval>> ranges, std::vector<Unmasked> unmasked, GridGroups groups,
        DType dtype);

  // Numbers of the group below this one may be replaced by it without a change of the result; nullopt: not known.
  std::optional<double> least_of_group(ValueId root);
  // The same for operands of an ADD.
  std::optional<double> least_of_operand(const Op& add, size_t input);

 private:
  struct Score {
    double least;
    bool has_masks;  // which are left out
  };
  template <typename Result>
  using Found = std::map<ValueId, std::optional<Result>>;

  template <typename Result>
  std::optional<Result> found_once(Found<Result>& found, ValueId root, std::optional<Result> (Masks::*find)(ValueId));
  const ConstantNumbers& constant(ValueId id);
  std::optional<Interval> range(ValueId id);
  std::optional<double> find_least(ValueId root);
  std::optional<double> needed_by(const Op& reader, ValueId id);
  std::optional<Score> score(ValueId root);
  std::optional<Score> find_score(ValueId root);
  std::optional<Score> score_of(ValueId id);
  std::optional<Score> score_of_sum(const Op& sum);
  std::optional<Score> term(ValueId id, double sign);

  Graph& graph_;
  const std::vector<std::optional<Interval>> ranges_;
  const std::vector<Unmasked> unmasked_;
  const GridGroups groups_;
  const double margin_;
  const std::vector<std::vector<OpId>> users_;
  std::map<ValueId, std::vector<ValueId>> members_;
  std::map<const stream::Recipe*, ConstantNumbers> constants_;
  int depth_ = 0;
  // Found so far; what is being found, or too far away, is nullopt.
  Found<double> leasts_;
  Found<Score> scores_;
};

}  // namespace lowtide::layout
