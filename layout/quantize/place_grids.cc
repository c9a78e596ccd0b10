// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/place_grids.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "layout/core/builtin.h"
#include "layout/quantize/bias_correction.h"
#include "layout/quantize/calibrated_weights.h"
#include "layout/quantize/conditions.h"
#include "layout/quantize/element_function.h"
#include "layout/quantize/equalize.h"
#include "layout/quantize/fixed_scales.h"
#include "layout/quantize/known_ranges.h"
#include "layout/quantize/made_ranges.h"
#include "layout/quantize/masks.h"
#include "layout/quantize/needed_steps.h"
#include "layout/quantize/placed_products.h"
#include "layout/quantize/value_groups.h"
#include "stream/error.h"
#include "stream/printable.h"

namespace lowtide::layout {
namespace {

using core::Integers;
using stream::Code;
using stream::Error;

// When ops around masks are left in floats, groups become smaller, and masks may be found in others.
constexpr int kMostRounds = 4;
// With fewer steps of its scale, a part of a tensor is nearly constant.
constexpr double kLeastStepsOfPart = 4;
// Weights in floats take four times as much. So ops with weights stay in integers with steps that are so much coarser
// than needed_steps.h says.
constexpr double kCoarserWithWeights = 4;
// Ops in integers that had better be in floats: so many are named.
constexpr size_t kMostNoted = 8;

enum class Part : uint8_t {
  kFloat,
  kChooses,   // gives elements of its data: in integers where its neighbours are
  kComputes,  // in an integer kernel
  kTable,     // of a function that becomes a table
};

class Placing {
 public:
  Placing(Graph& graph, const Calibrated& calibrated, stream::Progress* progress, bool tables,
          const RefusedOps& refused)
      : graph_(graph),
        calibrated_(calibrated),
        constants_(graph),
        weights_(graph, calibrated, constants_),
        products_(graph, calibrated),
        refused_(refused),
        progress_(progress),
        tables_(tables && calibrated.activations == DType::kInt8),
        parts_(graph.ops.size(), Part::kFloat),
        groups_(graph.values.size()) {}

  PlacedGrids run() {
    ranges_ = known_ranges(graph_, calibrated_);
    products_.write([this](ValueId id) { return is_known(id); }, tables_);
    ranges_.resize(graph_.values.size());
    find_parts();
    find_varying();
    leave_without_ranges();
    leave_refused();
    find_groups();
    leave_lone_products();
    find_masks();
    leave_parts_without_steps();
    leave_fixed();
    for (int round = 0; round < kMostRounds && leave_masks(); ++round) {
      find_groups();
      find_masks();
    }
    leave_coarse();
    if (leave_lone_products()) find_masks();
    if (tables_) find_tables();
    choose_grids();
    leave_choices_without_grid();
    note_unseen();
    place();
    note_forced();
    out_.floats = std::move(weights_.floats);
    return std::move(out_);
  }

 private:
  struct Group {
    bool computes = false;  // an integer kernel reads or writes a value of it
    bool is_fixed = true;   // everything in it comes from kernels that give one grid always
    TensorGrid grid;
  };

  size_t op_count() const { return parts_.size(); }
  Part& part(OpId id) { return parts_[static_cast<size_t>(id)]; }
  const Op& op(OpId id) const { return graph_.ops[static_cast<size_t>(id)]; }

  // ---- which ops ----

  // Ops that the user wants in floats.
  std::vector<bool> kept() const {
    std::vector<bool> out(op_count(), false);
    auto matches = [](const std::string& pattern, const std::string& name) {
      return !name.empty() && fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    };
    for (const std::string& pattern : calibrated_.keep_float) {
      bool any = false;
      std::set<uint32_t> origins;
      for (size_t i = 0; i < graph_.origins.size(); ++i)
        if (matches(pattern, graph_.origins[i])) origins.insert(static_cast<uint32_t>(i));
      for (const auto& [removed, into] : graph_.fused_origins)
        if (origins.contains(removed)) origins.insert(into);
      for (size_t i = 0; i < op_count(); ++i) {
        const Op& one = graph_.ops[i];
        const bool chosen =
            origins.contains(one.origin) || std::any_of(one.outputs.begin(), one.outputs.end(), [&](ValueId id) {
              return id != core::kAbsent && matches(pattern, graph_.at(id).name);
            });
        out[i] = out[i] || chosen;
        any = any || chosen;
      }
      if (!any)
        throw Error(Code::kUsage, fmt::format("--keep-float '{}' matches no node and no output of one", pattern));
    }
    return out;
  }

  void find_parts() {
    kept_ = kept();
    for (size_t i = 0; i < op_count(); ++i) {
      const auto id = static_cast<OpId>(i);
      parts_[i] = kept_[i] ? Part::kFloat : part_of_kind(id);
      if (kept_[i]) give_reason(id, "--keep-float names it");
      if (parts_[i] == Part::kComputes) weights_.want(id);
    }
    weights_.measure(progress_);
    for (size_t i = 0; i < op_count(); ++i) {
      if (parts_[i] != Part::kComputes) continue;
      std::string reason = weights_.reason_against(static_cast<OpId>(i));
      if (!reason.empty()) leave(static_cast<OpId>(i), std::move(reason));
    }
  }

  Part part_of_kind(OpId id) {
    const Op& one = op(id);
    const core::Builtin& row = core::builtin(one.kind);
    const DType dtype = calibrated_.activations;
    if (one.outputs.empty() || data_inputs(graph_, one).empty() || data_outputs(graph_, one).empty())
      return Part::kFloat;
    // In two steps, on the grid of its result (chosen.cc).
    if (one.kind == Kind::kRelu0To1) return Part::kComputes;
    if (row.integers == Integers::kNone) return Part::kFloat;
    const bool of_8_bits = row.integers == Integers::kRescaled8 || row.integers == Integers::kFixed8;
    if (of_8_bits && dtype != DType::kInt8) {
      give_reason(id, fmt::format("the {} kernel of {} is not exact", dtype_name(dtype), kind_name(one.kind)));
      return Part::kFloat;
    }
    const bool is_choice = chooses(one);
    const bool one_scale = is_choice || row.integers == Integers::kOneScale;
    if (!integer_kernel_takes(graph_, one, dtype, one_scale)) {
      give_reason(id, fmt::format("no kernel of {} takes {} of rank {}", kind_name(one.kind), dtype_name(dtype),
                                  graph_.at(one.outputs[0]).rank()));
      return Part::kFloat;
    }
    if (!is_choice) return one.outputs.size() == 1 ? Part::kComputes : Part::kFloat;
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      if (!is_data_input(one, i) || !graph_.at(one.inputs[i]).is_constant()) continue;
      bool all_finite = true;
      const auto range = constant_range(graph_, one.inputs[i], &all_finite);
      if (range && (all_finite || one.kind == Kind::kPadv2)) continue;
      if (!range && one.kind == Kind::kPadv2) continue;
      give_reason(id, "a constant among its data is large or not finite");
      return Part::kFloat;
    }
    return Part::kChooses;
  }

  bool computes(OpId id) { return part(id) == Part::kComputes; }

  // Whether there were any.
  bool leave_lone_products() {
    const std::vector<OpId> lone =
        products_.lone([this](OpId id) { return computes(id); }, [this](ValueId id) { return groups_.of(id); });
    for (const OpId id : lone) part(id) = Part::kFloat;
    find_groups();
    return !lone.empty();
  }

  void give_reason(OpId id, std::string reason) {
    if (!op(id).outputs.empty()) out_.reasons.emplace(op(id).outputs[0], std::move(reason));
  }
  void leave(OpId id, std::string reason) {
    part(id) = Part::kFloat;
    give_reason(id, std::move(reason));
  }

  // ---- ranges ----

  bool is_known(ValueId id) const { return ranges_[static_cast<size_t>(id)].has_value(); }

  // The name by which the ranges file would know it, or the tensor that its elements come from.
  std::string name_of(ValueId id) const {
    while (graph_.at(id).name.empty() && graph_.at(id).producer >= 0) {
      const std::vector<ValueId> data = data_inputs(graph_, op(graph_.at(id).producer));
      if (!chooses(op(graph_.at(id).producer)) || data.size() != 1) break;
      id = data[0];
    }
    return onnx_name(graph_, id);
  }

  void leave_without_ranges() {
    for (size_t i = 0; i < op_count(); ++i) {
      if (parts_[i] == Part::kFloat) continue;
      std::vector<ValueId> data = data_inputs(graph_, graph_.ops[i]);
      const std::vector<ValueId> results = data_outputs(graph_, graph_.ops[i]);
      data.insert(data.end(), results.begin(), results.end());
      const auto unknown = std::find_if(data.begin(), data.end(), [&](ValueId id) { return !is_known(id); });
      if (unknown == data.end()) continue;
      for (const ValueId id : data)
        if (parts_[i] == Part::kComputes && !is_known(id)) refuse_unseen(id);
      const bool is_result = std::find(results.begin(), results.end(), *unknown) != results.end();
      leave(static_cast<OpId>(i),
            fmt::format("{} is a tensor that the conversion made, of which calibration has no range",
                        is_result ? "its result" : "its data"));
    }
  }

  void leave_refused() {
    if (refused_.empty()) return;
    auto is_among = [](const std::vector<ValueId>& ids, ValueId id) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    for (size_t i = 0; i < op_count(); ++i) {
      const Op& one = graph_.ops[i];
      const auto found = one.outputs.empty() ? refused_.end() : refused_.find(one.outputs[0]);
      if (found == refused_.end()) continue;
      kept_[i] = true;
      leave(static_cast<OpId>(i), found->second);
      if (!calibrated_.only_integers) continue;
      for (const ValueId id : data_inputs(graph_, one))
        if (is_known(id) && is_among(graph_.inputs, id)) border_.insert(id);
      for (const ValueId id : data_outputs(graph_, one))
        if (is_known(id) && is_among(graph_.outputs, id)) border_.insert(id);
    }
  }

  // Values that are computed from constants alone are not observed: they have no samples.
  void find_varying() {
    varies_.assign(graph_.values.size(), false);
    for (const ValueId id : graph_.inputs) varies_[static_cast<size_t>(id)] = true;
    for (const Op& one : graph_.ops) {
      const bool varies = std::any_of(one.inputs.begin(), one.inputs.end(), [&](ValueId id) {
        return id != core::kAbsent && varies_[static_cast<size_t>(id)];
      });
      if (!varies) continue;
      for (const ValueId id : one.outputs)
        if (id != core::kAbsent) varies_[static_cast<size_t>(id)] = true;
    }
  }

  void refuse_unseen(ValueId id) const {
    if (!varies_[static_cast<size_t>(id)]) return;
    const std::string name = name_of(id);
    const bool unseen = calibrated_.unseen.contains(name);
    if (!unseen && !calibrated_.missing.contains(name)) return;
    throw Error(Code::kMalformed,
                fmt::format("the tensor '{}' {}: calibrate with samples that reach it, or give --keep-float",
                            stream::printable(name), unseen ? "had no finite value in any sample" : "has no range"),
                {.file = calibrated_.file});
  }

  // ---- grids ----

  bool shares_one_grid(size_t i) const {
    return parts_[i] == Part::kChooses ||
           (parts_[i] == Part::kComputes && core::builtin(graph_.ops[i].kind).integers == Integers::kOneScale);
  }

  Group& group(ValueId id) { return by_root_[groups_.of(id)]; }

  void find_groups() {
    groups_ = ValueGroups(graph_.values.size());
    by_root_.clear();
    for (size_t i = 0; i < op_count(); ++i) {
      if (!shares_one_grid(i)) continue;
      const std::vector<ValueId> results = data_outputs(graph_, graph_.ops[i]);
      for (const ValueId in : data_inputs(graph_, graph_.ops[i])) groups_.unite(in, results[0]);
      for (const ValueId out : results) groups_.unite(out, results[0]);
    }
    for (size_t i = 0; i < op_count(); ++i) {
      if (parts_[i] != Part::kComputes) continue;
      for (const ValueId in : data_inputs(graph_, graph_.ops[i])) group(in).computes = true;
      for (const ValueId out : data_outputs(graph_, graph_.ops[i])) group(out).computes = true;
    }
    for (const ValueId id : border_) group(id).computes = true;
  }

  // Functions of a known value that give a known value, next to ops in integers: between two ops in floats a table
  // would take more than it saves. In the order of computation, so that a table may follow another one.
  void find_tables() {
    auto may_be = [&](OpId id) { return part(id) == Part::kFloat && !kept_[static_cast<size_t>(id)]; };
    for (size_t i = 0; i < op_count(); ++i) {
      if (!may_be(static_cast<OpId>(i)) || graph_.ops[i].outputs.size() != 1) continue;
      const ValueId result = graph_.ops[i].outputs[0];
      if (graph_.at(result).dtype != DType::kFloat32 || !is_known(result)) continue;
      const auto function = element_function(
          graph_, result, [&](ValueId value) { return value != result && is_known(value) ? value : core::kAbsent; });
      if (!function || !std::all_of(function->ops.begin(), function->ops.end(), may_be)) continue;
      const bool is_coarse = step(function->root) > needed_->of(function->root) || step(result) > needed_->of(result);
      if (is_coarse && !calibrated_.only_integers) continue;
      if (!group(function->root).computes && !group(result).computes) continue;
      for (const OpId op_id : function->ops) part(op_id) = Part::kTable;
      group(function->root).computes = group(result).computes = true;
    }
  }

  std::optional<TensorGrid> fixed_of(ValueId id) const {
    const OpId producer = graph_.at(id).producer;
    if (producer < 0 || static_cast<size_t>(producer) >= op_count()) return std::nullopt;
    return parts_[static_cast<size_t>(producer)] == Part::kComputes ? fixed_grid(op(producer).kind) : std::nullopt;
  }

  // Whether numbers of the interval are nearer than a step to some of the grid: LOGISTIC gives 255/256 for 1, too.
  static bool reaches(const TensorGrid& grid, const Interval& interval) {
    const Interval all = interval_of(grid);
    return interval.low >= all.low - grid.scale && interval.high <= all.high + grid.scale;
  }

  void find_masks() {
    std::vector<std::optional<CalibratedValue>> values(ranges_.size());
    for (size_t v = 0; v < values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (!ranges_[v]) continue;
      const CalibratedTensor* tensor = calibrated_tensor(graph_, calibrated_, id);
      const Interval seen = tensor != nullptr ? unite(tensor->seen, {}) : *ranges_[v];
      values[v] = {.interval = cut(*ranges_[v], seen),
                   .seen = seen,
                   .unmasked = tensor != nullptr ? tensor->unmasked : Unmasked(),
                   .is_finite = tensor == nullptr || tensor->is_finite};
    }
    masks_.emplace(
        graph_, std::move(values), [this](ValueId id) { return groups_.of(id); }, calibrated_.activations, constants_);
  }

  // Values that a kernel reads on integers, maybe after ops that give elements of them.
  std::vector<bool> read_on_integers() const {
    std::vector<bool> out(graph_.values.size(), false);
    for (size_t i = op_count(); i-- > 0;) {
      if (parts_[i] == Part::kFloat) continue;
      const Op& one = graph_.ops[i];
      const std::vector<ValueId> results = data_outputs(graph_, one);
      const bool is_read = parts_[i] == Part::kComputes || std::any_of(results.begin(), results.end(), [&](ValueId id) {
                             return out[static_cast<size_t>(id)];
                           });
      for (const ValueId id : data_inputs(graph_, one))
        if (is_read) out[static_cast<size_t>(id)] = true;
    }
    return out;
  }

  // Boxes in pixels and scores from 0 to 1 in one tensor, as heads of detectors give them: on one scale the scores
  // would be 0. In floats nothing is lost, unless integers are read.
  void leave_parts_without_steps() {
    std::vector<bool> is_read;
    const double steps = calibrated_.activations == DType::kInt8 ? 255 : 65534;
    bool any = false;
    for (size_t i = 0; i < op_count(); ++i) {
      const Op& one = graph_.ops[i];
      if (parts_[i] != Part::kChooses || (one.kind != Kind::kConcatenation && one.kind != Kind::kPack)) continue;
      const std::vector<ValueId> parts = data_inputs(graph_, one);
      auto extent = [&](ValueId id) {
        const Interval& own = *ranges_[static_cast<size_t>(id)];
        return own.high - own.low;
      };
      const auto least =
          std::min_element(parts.begin(), parts.end(), [&](ValueId a, ValueId b) { return extent(a) < extent(b); });
      const double own = extent(*least) / extent(one.outputs[0]) * steps;
      if (!(extent(*least) > 0 && own < kLeastStepsOfPart)) continue;
      if (is_read.empty()) is_read = read_on_integers();
      if (is_read[static_cast<size_t>(one.outputs[0])]) continue;
      const std::string name = name_of(*least);
      const std::string part = name.empty() ? "a part" : fmt::format("'{}'", stream::printable(name));
      const std::string reason = fmt::format("the common scale of its parts has {:.1f} steps for {}", own, part);
      any = leave_if_allowed(static_cast<OpId>(i), reason) || any;
    }
    if (!any) return;
    find_groups();
    find_masks();
  }

  // Leaves the op in floats; where only integers are wanted, it is only noted.
  bool leave_if_allowed(OpId id, std::string reason) {
    if (!calibrated_.only_integers) {
      leave(id, std::move(reason));
      return true;
    }
    forced_.push_back(fmt::format("{} '{}': {}; without --io and --require-integer it stays in floats",
                                  kind_name(op(id).kind), stream::printable(name_of(op(id).outputs[0])), reason));
    return false;
  }

  void note_forced() {
    const size_t named = std::min(forced_.size(), kMostNoted);
    out_.notes.insert(out_.notes.end(), forced_.begin(), forced_.begin() + static_cast<ptrdiff_t>(named));
    if (named < forced_.size())
      out_.notes.push_back(fmt::format("{} more operators are in integers only because of --io or --require-integer",
                                       forced_.size() - named));
  }

  // LOGISTIC, SOFTMAX and LOG_SOFTMAX, whose kernels have one scale whatever their results are.
  void leave_fixed() {
    const FixedScales scales(graph_, calibrated_);
    bool any = false;
    for (size_t i = 0; i < op_count(); ++i) {
      const auto fixed = parts_[i] == Part::kComputes ? fixed_grid(graph_.ops[i].kind) : std::nullopt;
      if (!fixed) continue;
      const ValueId result = graph_.ops[i].outputs[0];
      // Without what no reader needs.
      const double least =
          std::max(ranges_[static_cast<size_t>(result)]->low, masks_->interval_of_group(groups_.of(result)).low);
      std::string reason = scales.reason_against(result, *fixed, least);
      if (!reason.empty()) any = leave_if_allowed(static_cast<OpId>(i), std::move(reason)) || any;
    }
    if (!any) return;
    find_groups();
    find_masks();
  }

  // The step of the value's grid, and, where that is not chosen yet, the least that it can have.
  double step(ValueId id) {
    const Group& own = group(id);
    if (own.computes && own.grid.dtype != DType::kUndefined) return grid_of_result(id).scale;
    return grid_over(*ranges_[static_cast<size_t>(id)], calibrated_.activations).scale;
  }

  // Why the op's data or its result need floats; empty: they do not.
  std::string reason_against_steps(const Op& one) {
    const bool has_weights = core::weights_of(one.kind) != nullptr;
    const double allowed = has_weights ? kCoarserWithWeights : 1;
    auto reason = [&](const char* what, ValueId id, double needed) {
      return fmt::format("{} would have steps of {:.3g}, and a divisor, logarithm, sine or rounding needs {:.3g}", what,
                         step(id), needed);
    };
    for (const ValueId id : data_outputs(graph_, one))
      if (const double needed = needed_->of(id, !has_weights); step(id) > allowed * needed)
        return reason("its result", id, needed);
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      if (!is_data_input(one, i) || graph_.at(one.inputs[i]).is_constant()) continue;
      const double needed = needed_->of_operand(one, i);
      if (needed < std::numeric_limits<double>::infinity() && is_known(one.inputs[i]) && step(one.inputs[i]) > needed)
        return reason("its data", one.inputs[i], needed);
    }
    return {};
  }

  // Ops whose integers would be too coarse for what reads them.
  void leave_coarse() {
    needed_.emplace(graph_, calibrated_);
    choose_grids();
    bool any = false;
    for (size_t i = 0; i < op_count(); ++i) {
      if (parts_[i] == Part::kFloat) continue;
      if (parts_[i] == Part::kChooses && !group(data_outputs(graph_, graph_.ops[i])[0]).computes) continue;
      std::string reason = reason_against_steps(graph_.ops[i]);
      if (reason.empty() || !leave_if_allowed(static_cast<OpId>(i), std::move(reason))) continue;
      kept_[i] = any = true;
    }
    find_groups();
    if (any) find_masks();
  }

  // Whether ops were left in floats because of masks in what they read or give.
  bool leave_masks() {
    std::map<ValueId, Interval> harmless;
    for (const auto& [root, own] : by_root_)
      if (own.computes) harmless.emplace(root, masks_->harmless(root));
    bool any = false;
    for (size_t i = 0; i < op_count(); ++i) {
      if (parts_[i] == Part::kFloat) continue;
      std::string reason = reason_by_infinities(static_cast<OpId>(i));
      if (reason.empty()) reason = reason_by_masks(static_cast<OpId>(i), harmless);
      if (reason.empty()) continue;
      any = true;
      leave(static_cast<OpId>(i), std::move(reason));
    }
    return any;
  }

  std::string reason_by_masks(OpId op_id, const std::map<ValueId, Interval>& harmless) {
    const Op& one = op(op_id);
    std::vector<ValueId> data = data_inputs(graph_, one);
    const std::vector<ValueId> results = data_outputs(graph_, one);
    data.insert(data.end(), results.begin(), results.end());
    for (const ValueId id : data) {
      const auto inside = harmless.find(groups_.of(id));
      if (inside == harmless.end()) continue;
      const Interval& seen = masks_->seen(id);
      const bool is_low = seen.low < inside->second.low;
      if (!is_low && seen.high <= inside->second.high) continue;
      const bool is_result = std::find(results.begin(), results.end(), id) != results.end();
      std::string reason =
          fmt::format("{} has masks {} to {}, which leave too few steps for other numbers",
                      is_result ? "its result" : "its data", is_low ? "down" : "up", is_low ? seen.low : seen.high);
      if (is_low || !calibrated_.only_integers) return reason;
      // Layers may have a few numbers that are as large.
      if (above_.empty())
        first_above_ = fmt::format("{} '{}': {}", kind_name(one.kind), stream::printable(name_of(id)), reason);
      above_.insert(id);
    }
    return {};
  }

  // Integers have none: masks are saturated where that is enough.
  std::string reason_by_infinities(OpId id) {
    const Op& one = op(id);
    if (part(id) == Part::kComputes &&
        !weights_.has_finite_operands(id, [&](size_t input) { return masks_->needed_of_operand(one, input); }))
      return "its weights have infinite or NaN elements";
    if (one.kind == Kind::kLogSoftmax && masks_->needs_infinities(one.outputs[0]))
      return "its result has infinite elements";
    return {};
  }

  void choose_grids() {
    for (size_t v = 0; v < ranges_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (!ranges_[v]) continue;
      Group& own = group(id);
      if (!own.computes) continue;
      const OpId producer = graph_.at(id).producer;
      if (producer >= 0 && shares_one_grid(static_cast<size_t>(producer))) continue;
      const auto fixed = fixed_of(id);
      own.is_fixed = own.is_fixed && fixed && (own.grid.dtype == DType::kUndefined || own.grid == *fixed);
      if (fixed) own.grid = *fixed;
    }
    for (size_t i = 0; i < op_count(); ++i) {
      if (parts_[i] != Part::kChooses) continue;
      Group& own = group(data_outputs(graph_, graph_.ops[i])[0]);
      for (size_t slot = 0; own.computes && slot < graph_.ops[i].inputs.size(); ++slot)
        if (const auto chosen = masks_->constant_in_result(graph_.ops[i], slot))
          own.is_fixed = own.is_fixed && reaches(own.grid, *chosen);
    }
    for (auto& [root, own] : by_root_)
      if (own.computes && !own.is_fixed) own.grid = grid_over(masks_->interval_of_group(root), calibrated_.activations);
  }

  void leave_choices_without_grid() {
    for (size_t i = 0; i < op_count(); ++i)
      if (parts_[i] == Part::kChooses && !group(data_outputs(graph_, graph_.ops[i])[0]).computes)
        parts_[i] = Part::kFloat;
  }

  // What samples should have shown.
  void note_unseen() {
    for (size_t i = 0; i < op_count(); ++i)
      for (size_t slot = 0; parts_[i] == Part::kChooses && slot < graph_.ops[i].inputs.size(); ++slot)
        if (const auto lost = masks_->lost_constant(graph_.ops[i], slot))
          out_.notes.push_back(fmt::format(
              "{} '{}': no sample chose its constant {:.6g}, which is outside of the range of all others, and "
              "is saturated; calibrate with samples that choose it, or give --keep-float",
              kind_name(graph_.ops[i].kind), stream::printable(name_of(graph_.ops[i].outputs[0])), *lost));
    if (!above_.empty())
      out_.notes.push_back(fmt::format("{}{}; without --io and --require-integer this stays in floats", first_above_,
                                       above_.size() > 1 ? fmt::format(", as in {} more", above_.size() - 1) : ""));
    std::string first;
    size_t count = 0;
    for (size_t v = 0; v < ranges_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (!ranges_[v] || !varies_[v] || !group(id).computes || !masks_->is_unseen_mask(id)) continue;
      const std::string name = name_of(id);
      if (name.empty()) continue;
      if (count++ == 0) first = name;
    }
    if (count > 0)
      out_.notes.push_back(fmt::format(
          "'{}'{} 0 in all samples. Masks in {} are saturated where readers need no more", stream::printable(first),
          count > 1 ? fmt::format(" and {} more were", count - 1) : " was", count > 1 ? "them" : "it"));
  }

  // That of the integers that the producer gives: a kernel with a fixed grid gives its own.
  TensorGrid grid_of_result(ValueId id) {
    const auto fixed = fixed_of(id);
    return fixed ? *fixed : group(id).grid;
  }

  // ---- the graph ----

  ValueId push(Kind kind, ValueId from, DType dtype, uint32_t origin) {
    const core::Shape shape = graph_.at(from).shape;
    const ValueId made = graph_.add_value(dtype, shape);
    graph_.at(made).producer = static_cast<OpId>(graph_.ops.size());
    graph_.add_op(
        {.kind = kind, .inputs = {from}, .outputs = {made}, .options = core::IndexOptions{dtype}, .origin = origin});
    return made;
  }

  // The value, rounded to the grid, as floats again.
  ValueId rounded(ValueId floats, const TensorGrid& grid, uint32_t origin, std::string name) {
    const ValueId integers = push(Kind::kQuantize, floats, grid.dtype, origin);
    graph_.at(integers).quantization = quantization_of(grid);
    graph_.at(integers).name = std::move(name);
    return push(Kind::kDequantize, integers, DType::kFloat32, origin);
  }

  // Integers on both sides of an op would draw it in. Of ops that give elements of their data, only those that the user
  // wants in floats: the others give the same in integers.
  void mark_floats() {
    for (size_t i = 0; i < op_count(); ++i) {
      graph_.ops[i].stays_float = kept_[i] || (parts_[i] == Part::kFloat && !chooses(graph_.ops[i]));
      if (parts_[i] == Part::kComputes || parts_[i] == Part::kTable) out_.computing.push_back(graph_.ops[i].outputs[0]);
    }
  }

  void place() {
    products_.restore([this](OpId id) { return computes(id); });
    mark_floats();
    BiasCorrection correction(graph_, calibrated_, weights_.floats);
    for (size_t i = 0; i < op_count(); ++i) {
      if (parts_[i] != Part::kComputes) continue;
      const Op& one = graph_.ops[i];
      weights_.replace(static_cast<OpId>(i), grid_of_result(data_inputs(graph_, one)[0]),
                       grid_of_result(data_outputs(graph_, one)[0]),
                       [&](size_t input) { return masks_->needed_of_operand(one, input); });
      if (calibrated_.correct_biases) correction.correct(static_cast<OpId>(i));
      weights_.round_bias(static_cast<OpId>(i), grid_of_result(data_inputs(graph_, one)[0]));
    }
    const auto users = graph_.users();
    for (size_t v = 0; v < ranges_.size(); ++v)
      if (ranges_[v] && group(static_cast<ValueId>(v)).computes) place_on(static_cast<ValueId>(v), users[v]);
    graph_.tidy();
  }

  // LiteRT's built-in QUANTIZE is right for as many steps as fit 32 bits; infinities and other numbers wrap around.
  void note_far(ValueId id, const TensorGrid& grid) {
    constexpr double kMostSteps = 0x1p30;
    // Integers are read: an input without masks in the samples is quantized outside.
    const bool is_input = graph_.at(id).producer < 0;
    if (is_input && calibrated_.only_integers && masks_->is_unseen_mask(id)) return;
    if (masks_->farthest(id) > kMostSteps * grid.scale) out_.far.insert(id);
  }

  void place_on(ValueId id, const std::vector<OpId>& users) {
    const OpId producer = graph_.at(id).producer;
    const bool is_integer = producer >= 0 && part(producer) != Part::kFloat;
    auto reads_integers = [&](OpId user) { return part(user) != Part::kFloat; };
    // Whether all users get the rounded value.
    const bool for_all = is_integer || border_.contains(id);
    if (!for_all && std::none_of(users.begin(), users.end(), reads_integers)) return;
    const uint32_t origin = producer >= 0 ? op(producer).origin : op(users[0]).origin;
    const TensorGrid grid = grid_of_result(id), shared = group(id).grid;
    // The name goes to the integers: they are what the kernel gives.
    std::string name = is_integer ? std::exchange(graph_.at(id).name, {}) : std::string();
    // A name of ONNX says that a tensor has that value, which tools compare.
    if (!name.empty() && !group(id).is_fixed && masks_->is_limited(id)) name += "/limited";
    if (!is_integer) note_far(id, grid);
    const ValueId own = rounded(id, grid, origin, std::move(name));
    ValueId other = core::kAbsent;
    for (const OpId user : users) {
      if (!for_all && !reads_integers(user)) continue;
      const bool needs_shared = grid != shared && shares_one_grid(static_cast<size_t>(user));
      if (needs_shared && other == core::kAbsent) other = rounded(own, shared, origin, {});
      Op& reader = graph_.ops[static_cast<size_t>(user)];
      for (size_t i = 0; i < reader.inputs.size(); ++i)
        if (reader.inputs[i] == id && (for_all || is_data_input(reader, i)))
          reader.inputs[i] = needs_shared ? other : own;
    }
    if (for_all) std::replace(graph_.outputs.begin(), graph_.outputs.end(), id, own);
  }

  Graph& graph_;
  const Calibrated& calibrated_;
  KnownConstants constants_;
  CalibratedWeights weights_;
  PlacedProducts products_;
  const RefusedOps& refused_;
  stream::Progress* progress_;
  bool tables_;
  std::vector<Part> parts_;   // of the ops that the graph had
  std::vector<bool> kept_;    // of them, those that may not even become tables
  std::set<ValueId> border_;  // inputs and outputs of the model that have a grid whatever reads them
  ValueGroups groups_;
  std::map<ValueId, Group> by_root_;
  std::vector<std::optional<Interval>> ranges_;
  std::vector<bool> varies_;  // by value
  std::optional<Masks> masks_;
  std::set<ValueId> above_;  // tensors that stay in integers though numbers above all others leave too few steps
  std::string first_above_;
  std::optional<NeededSteps> needed_;
  std::vector<std::string> forced_;  // notes on ops that are in integers because nothing else is allowed
  PlacedGrids out_;
};

void refuse_quantized(const Graph& graph) {
  for (const Op& one : graph.ops)
    if (one.kind == Kind::kQuantize || one.kind == Kind::kDequantize)
      throw Error(Code::kUsage, fmt::format("--quantize: the model is quantized already, at the node '{}'",
                                            stream::printable(graph.origins[one.origin])));
}

}  // namespace

PlacedGrids place_grids(core::Graph& graph, Calibrated calibrated, stream::Progress* progress, bool tables,
                        const RefusedOps& refused) {
  graph.tidy();
  refuse_quantized(graph);
  add_ranges_of_multiples(graph, calibrated);
  if (calibrated.equalize) equalize(graph, calibrated, progress);
  PlacedGrids placed = Placing(graph, calibrated, progress, tables, refused).run();
  forget_made_names(graph);
  name_scaled(graph, calibrated);
  return placed;
}

}  // namespace lowtide::layout
