// SPDX-License-Identifier: Apache-2.0
// Which interval a grid has to cover: what its tensors have, without what their readers do not need.
//
// Masks of attention are numbers such as -1e4 that are added to some scores, or stand in place of them, so that SOFTMAX
// makes them 0. A grid with such a number in it has no steps left for the scores. SOFTMAX needs no more of a mask than
// that it is well below the largest score of its row: e^-d is 0 in its result. ARG_MAX, the largest of a window and
// others do not need more either. So where only such ops read a value, the grid ends a little below the least score,
// and masks are saturated there. A row of masks alone gives equal numbers then. ADD and the like pass the limit on to
// their operands, and a clip needs nothing beyond its own limits. unmasked.h tells masks from scores that are far below
// 0 themselves. What is above all other numbers is the same with the opposite sign, for ARG_MIN and negative factors.
//
// Samples may be without masks, which padding brings at run time. So a mask that an op chooses in place of scores
// counts as one by its own value, and a tensor that was 0 in all samples may have any. Other constants that no sample
// chose do not widen a grid.
//
// Where something else reads masks, the ops around them stay in floats.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "layout/quantize/calibrated.h"
#include "layout/quantize/unmasked.h"

namespace lowtide::layout {

// What calibration says of a value.
struct CalibratedValue {
  Interval interval;  // chosen, no wider than what was seen; symmetric or not
  Interval seen;      // with 0 inside
  Unmasked unmasked;
  bool is_finite = true;  // in all samples
};

class Masks {
 public:
  // `values`: by value id; nullopt for constants and unknown ones. `group_of`: one of the values that share a grid, as
  // place_grids.cc has them. `constants`: of the graph; kept, so that a large one is read once.
  Masks(Graph& graph, std::vector<std::optional<CalibratedValue>> values, std::function<ValueId(ValueId)> group_of,
        DType dtype, KnownConstants& constants);

  const Interval& seen(ValueId id) const { return value(id).seen; }
  // What the grid of a group of known values has to cover.
  Interval interval_of_group(ValueId root) const { return intervals_.at(root); }
  // What input `i` of an op that gives elements of its data adds to that; nullopt unless it is such a constant. The
  // trap is a limit that nothing reaches, as exporters write them: of a MAXIMUM, which no element makes less, only the
  // upper end counts, and of a MINIMUM the lower one. Saturated to the grid of the result, the rest of it loses every
  // comparison as before.
  std::optional<Interval> constant_in_result(const Op& op, size_t i);
  // A number of such a constant that no sample chose, and that the grid does not have though it is needed.
  std::optional<double> lost_constant(const Op& op, size_t i);
  // What an operand of a plain op without weights needs of its numbers: infinite where that is all of them.
  Interval needed_of_operand(const Op& op, size_t input);
  // Where masks are needed as far as they are, and leave too few steps for the others: values of the group that go
  // beyond this interval have such masks. Infinite at ends without.
  Interval harmless(ValueId root);
  // Whether something reads infinities as such.
  bool needs_infinities(ValueId id) const;
  // Whether the grid saturates numbers that the value has, or may have.
  bool is_limited(ValueId id);
  // Whether it was 0 in all samples, comes from no weights, and something reads it that makes 0 of masks, or the like.
  bool is_unseen_mask(ValueId id) const;
  // The largest magnitude that the value has, or may have.
  double farthest(ValueId id);

 private:
  // At the high end all numbers are negated, so that it is a low end too.
  enum class End : uint8_t { kLow, kHigh };
  struct Score {
    double least = 0;        // infinite: there are masks alone
    bool has_masks = false;  // which are left out
  };
  // Of an end of a value.
  struct Side {
    Score score;
    bool may_have_masks = false;  // that no sample had
    // Numbers below this one may be replaced by it; infinite: none may.
    double needed = -std::numeric_limits<double>::infinity();
    bool hides = false;    // something reads it that makes 0 of masks, or the like
    bool is_read = false;  // and something that does not, or it is an output
    double low = 0;        // of what the value adds to the interval of its group
    bool is_cut = false;   // masks are beyond that
  };
  // The same of a group.
  struct GroupSide {
    double least = std::numeric_limits<double>::infinity();
    bool has_masks = false, may_have_masks = false;
  };
  struct Group {
    std::array<GroupSide, 2> sides;
    bool is_zero = true;  // in all samples
  };

  static Interval from(End end, const Interval& x);
  static End turned(End end, double sign);
  bool is_known(ValueId id) const { return id != core::kAbsent && values_[static_cast<size_t>(id)].has_value(); }
  const CalibratedValue& value(ValueId id) const { return *values_[static_cast<size_t>(id)]; }
  Side& side(ValueId id, End end) { return sides_[static_cast<size_t>(id)][static_cast<size_t>(end)]; }
  const Side& side(ValueId id, End end) const { return sides_[static_cast<size_t>(id)][static_cast<size_t>(end)]; }
  const GroupSide& of_group(ValueId id, End end) const {
    return groups_.at(group_of_(id)).sides[static_cast<size_t>(end)];
  }
  const std::vector<OpId>& users(ValueId id) const { return users_[static_cast<size_t>(id)]; }
  bool is_used(ValueId id) const { return !users(id).empty() || outputs_.contains(id); }
  bool is_zero(ValueId id) const { return value(id).is_finite && value(id).seen == Interval{}; }
  bool has_masks(ValueId id, End end) const;
  // Masks that no sample had are to be kept apart from all other numbers.
  static bool is_open(const Side& side) { return side.may_have_masks && side.hides && !side.is_read; }
  const Op* producer(ValueId id) const;
  std::optional<Interval> range(ValueId id);
  std::optional<double> factor(const Op& op, size_t input);
  double margin(const core::Shape& shape) const;
  double limit_of(const Op& op, size_t data, End end);
  bool has_moving_data(const Op& op) const;
  std::optional<Interval> chosen_constant(const Op& op, size_t i);

  void find_score(ValueId id);
  Score score_of(ValueId id, End end);
  std::optional<Score> chosen_score(const Op& op, double least_seen, End end);
  std::optional<Score> computed_score(const Op& op, End end);
  std::optional<Score> term(ValueId id, End end);
  bool may_have_masks(ValueId id, End end);

  void find_need(ValueId id);
  double needed_anyway(ValueId id, End end) const;
  double needed_by(const Op& reader, ValueId id, End end);
  bool hides(const Op& reader, ValueId id, End end);
  double needed_by_log_softmax(const Op& reader, ValueId id);
  double needed_by_choice(const Op& op, ValueId id, End end);
  double needed_of_operand(const Op& op, size_t input, End end);

  void add_interval(ValueId id);
  double room(ValueId id, End end);

  Graph& graph_;
  const std::vector<std::optional<CalibratedValue>> values_;
  const std::function<ValueId(ValueId)> group_of_;
  const DType dtype_;
  KnownConstants& constants_;
  const std::vector<std::vector<OpId>> users_;
  const std::set<ValueId> outputs_;
  std::vector<std::array<Side, 2>> sides_;  // by value
  std::vector<bool> is_learned_;            // the same: weights are among what it comes from
  std::map<ValueId, Group> groups_;         // by root
  std::map<ValueId, Interval> intervals_;   // the same
};

}  // namespace lowtide::layout
