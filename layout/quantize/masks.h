// SPDX-License-Identifier: Apache-2.0
// Masks of attention: numbers such as -1e4 that are added to some scores, or stand in place of them, so that SOFTMAX
// makes them 0. A grid with such a number in it has no steps left for the scores.
//
// SOFTMAX needs no more of a mask than that it is well below the largest score of its row: e^-d is 0 in its result.
// ARG_MAX, the largest of a window and others do not need more either. So where only such ops read a value, the grid
// ends a little below the least score, and masks are saturated there. A row of masks alone gives equal numbers then.
// ADD and the like pass the limit on to their operands. unmasked.h tells masks from scores that are far below 0
// themselves.
//
// Where something else reads masks, the ops around them stay in floats.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "layout/quantize/calibrated.h"
#include "layout/quantize/unmasked.h"

namespace lowtide::layout {

// Values that share a grid, by one of them, as place_grids.cc has them.
struct GridGroups {
  std::function<ValueId(ValueId)> of;
  std::function<bool(OpId)> chooses;  // whether the op's result has elements of its data, so that all share a group
};

// What calibration says of a value.
struct CalibratedValue {
  Interval interval;  // chosen, no wider than what was seen; symmetric or not
  Interval seen;      // with 0 inside
  Unmasked unmasked;
};

class Masks {
 public:
  // `values`: by value id; nullopt for constants and unknown ones.
  Masks(Graph& graph, std::vector<std::optional<CalibratedValue>> values, GridGroups groups, DType dtype);

  // The least that was seen.
  double low(ValueId id) const { return value(id).seen.low; }
  // Whether there are masks in the group that `root` stands for.
  bool has_masks(ValueId root);
  // Numbers of the group below this one may be replaced by it without a change of the result.
  double least_of_group(ValueId root);
  // What an operand of a plain op without weights needs of its numbers: infinite where that is all of them.
  Interval needed_of_operand(const Op& op, size_t input);
  // Where masks are needed as far as they are, and leave too few steps for the others: values of the group that go
  // below this number have such masks. nullopt: there are none.
  std::optional<double> harmful_below(ValueId root);

 private:
  struct Score {
    double least;
    bool has_masks;  // which are left out
  };
  template <typename Result>
  using Found = std::map<ValueId, std::optional<Result>>;

  template <typename Result>
  std::optional<Result> found_once(Found<Result>& found, ValueId root, std::optional<Result> (Masks::*find)(ValueId));
  const CalibratedValue& value(ValueId id) const { return *values_[static_cast<size_t>(id)]; }
  const ConstantNumbers& constant(ValueId id);
  std::optional<Interval> range(ValueId id);
  std::optional<double> factor(const Op& op, size_t input);
  double margin(const core::Shape& shape) const;
  double needed_anyway(ValueId id);
  std::optional<double> find_least(ValueId root);
  double needed_by(const Op& reader, ValueId id);
  std::optional<Score> score(ValueId root);
  std::optional<Score> find_score(ValueId root);
  std::optional<Score> score_of(ValueId id);
  std::optional<Score> computed_score(const Op& op);
  std::optional<Score> term(ValueId id, double sign);

  Graph& graph_;
  const std::vector<std::optional<CalibratedValue>> values_;
  const GridGroups groups_;
  const DType dtype_;
  const std::vector<std::vector<OpId>> users_;
  const std::set<ValueId> outputs_;
  std::map<ValueId, std::vector<ValueId>> members_;
  std::map<const stream::Recipe*, ConstantNumbers> constants_;
  int depth_ = 0;
  // Found so far; what is being found, or too far away, is nullopt.
  Found<double> leasts_;
  Found<Score> scores_;
};

}  // namespace lowtide::layout
