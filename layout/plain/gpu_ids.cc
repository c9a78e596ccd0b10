// SPDX-License-Identifier: Apache-2.0
// Ids of 64 bits: indices that inputs, ARG_MAX or narrower integers give, made positive and looked up, become i32
// together with the inputs that give them. An index into a table is less than 2^31. The delegate: "Tensor type(INT64)
// is not supported.", and "Only accept INT32 indices".
#include "layout/plain/gpu_ids.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "layout/core/builder.h"
#include "layout/core/replacements.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Graph;
using core::Kind;
using core::Op;
using core::ValueId;

constexpr double kMostOfI32 = std::numeric_limits<int32_t>::max();

bool fits_i32(Graph& graph, ValueId id) {
  if (!graph.at(id).is_constant()) return false;
  const auto elements = graph.ints(id);
  return elements &&
         std::all_of(elements->begin(), elements->end(), [](int64_t e) { return e >= INT32_MIN && e <= INT32_MAX; });
}

// The values of 64 bits that only carry ids: made from ids of inputs or found as places, and used by ids, by look-ups
// and by casts.
class Ids {
 public:
  explicit Ids(Graph& graph) : graph_(graph), users_(graph.users()) {
    for (size_t id = 0; id < graph.values.size(); ++id)
      if (graph.values[id].dtype == DType::kInt64 && !graph.values[id].is_constant() && !graph.values[id].quantization)
        ids_.insert(static_cast<ValueId>(id));
    for (ValueId out : graph.outputs) ids_.erase(out);
    // In the order of the ops, which is topological.
    most_.assign(graph.values.size(), kMostOfI32);
    for (const Op& op : graph.ops)
      if (is_carried(op.kind) || op.kind == Kind::kCast || finds_places(op.kind))
        most_[static_cast<size_t>(op.outputs[0])] = most_of(op);
    for (bool changed = true; changed;) {
      changed = false;
      for (auto at = ids_.begin(); at != ids_.end();) {
        const bool stays = is_made_of_ids(*at) && is_used_as_id(*at);
        changed = changed || !stays;
        at = stays ? std::next(at) : ids_.erase(at);
      }
    }
  }

  void narrow() {
    core::Builder b(graph_);
    for (ValueId id : ids_) graph_.at(id).dtype = DType::kInt32;
    const size_t count = graph_.ops.size();
    for (Op& op : graph_.ops)
      if (finds_places(op.kind) && ids_.contains(op.outputs[0]))
        std::get<core::IndexOptions>(op.options).dtype = DType::kInt32;
    for (size_t i = 0; i < count; ++i) {
      const bool has_ids = std::any_of(graph_.ops[i].inputs.begin(), graph_.ops[i].inputs.end(),
                                       [&](ValueId in) { return ids_.contains(in); });
      if (graph_.ops[i].kind == Kind::kDead || !has_ids || graph_.ops[i].kind == Kind::kGather) continue;
      b.origin = graph_.ops[i].origin;
      for (size_t slot = 0; slot < graph_.ops[i].inputs.size(); ++slot) {
        const ValueId in = graph_.ops[i].inputs[slot];
        if (in == core::kAbsent || graph_.at(in).dtype != DType::kInt64 || !graph_.at(in).is_constant()) continue;
        const ValueId narrow = b.cast({in}, DType::kInt32).id;
        graph_.ops[i].inputs[slot] = narrow;
      }
    }
    // Casts that change nothing now.
    core::Replacements replacements(graph_);
    for (size_t i = 0; i < count; ++i) {
      Op& op = graph_.ops[i];
      if (op.kind != Kind::kCast || graph_.at(op.inputs[0]).dtype != DType::kInt32 ||
          graph_.at(op.outputs[0]).dtype != DType::kInt32)
        continue;
      if (std::find(graph_.outputs.begin(), graph_.outputs.end(), op.outputs[0]) != graph_.outputs.end()) continue;
      op.kind = Kind::kDead;
      replacements.note(op.outputs[0], op.inputs[0]);
    }
    replacements.apply();
  }

 private:
  // A place is less than an axis is long, which is below 2^31 in TFLite.
  static bool finds_places(Kind kind) { return kind == Kind::kArgMax || kind == Kind::kArgMin; }
  static bool is_carried(Kind kind) {
    return kind == Kind::kReshape || kind == Kind::kSelectV2 || kind == Kind::kConcatenation || is_ordered(kind) ||
           is_computed(kind);
  }
  // These compare numbers, so of numbers that do not fit 32 bits they choose others there.
  static bool is_ordered(Kind kind) { return kind == Kind::kMaximum || kind == Kind::kMinimum; }
  static bool is_comparison(Kind kind) {
    return kind == Kind::kLess || kind == Kind::kLessEqual || kind == Kind::kGreater || kind == Kind::kGreaterEqual ||
           kind == Kind::kEqual || kind == Kind::kNotEqual;
  }
  // As positions are counted in a mask. The number may not fit 32 bits.
  static bool is_computed(Kind kind) {
    return kind == Kind::kAdd || kind == Kind::kMul || kind == Kind::kSub || kind == Kind::kCumsum;
  }

  // The largest magnitude that the numbers may have. Those of inputs fit 32 bits: they become i32.
  double most_of(ValueId id) {
    if (!graph_.at(id).is_constant()) return most_[static_cast<size_t>(id)];
    const auto elements = graph_.ints(id);
    double most = elements ? 0 : std::numeric_limits<double>::infinity();
    for (const int64_t element : elements.value_or(std::vector<int64_t>{}))
      most = std::max(most, std::abs(static_cast<double>(element)));
    return most;
  }
  double most_of(const Op& op) {
    switch (op.kind) {
      case Kind::kCast: {
        const DType dtype = graph_.at(op.inputs[0]).dtype;
        return dtype == DType::kBool ? 1 : std::min(kMostOfI32, std::ldexp(1.0, stream::bits(dtype)));
      }
      case Kind::kArgMax:
      case Kind::kArgMin: {
        const auto axis = graph_.ints(op.inputs[1]);
        const core::Shape& shape = graph_.at(op.inputs[0]).shape;
        if (!axis || axis->size() != 1) return kMostOfI32;
        const auto at = static_cast<size_t>((*axis)[0]) + ((*axis)[0] < 0 ? shape.size() : 0);
        const bool is_known = at < shape.size() && !core::is_symbol(shape[at]);
        return is_known ? static_cast<double>(shape[at]) : kMostOfI32;
      }
      case Kind::kReshape:
        return most_of(op.inputs[0]);
      case Kind::kSelectV2:
        return std::max(most_of(op.inputs[1]), most_of(op.inputs[2]));
      case Kind::kMaximum:
      case Kind::kMinimum:
      case Kind::kConcatenation: {
        double most = 0;
        for (const ValueId in : op.inputs) most = std::max(most, most_of(in));
        return most;
      }
      case Kind::kAdd:
      case Kind::kSub:
        return most_of(op.inputs[0]) + most_of(op.inputs[1]);
      case Kind::kMul:
        return most_of(op.inputs[0]) * most_of(op.inputs[1]);
      case Kind::kCumsum:
        return std::numeric_limits<double>::infinity();
      default:
        return kMostOfI32;
    }
  }

  // All numbers of the type are numbers of i32.
  static bool is_narrow(DType dtype) {
    return dtype == DType::kBool || dtype == DType::kInt8 || dtype == DType::kUint8 || dtype == DType::kInt16 ||
           dtype == DType::kUint16 || dtype == DType::kInt32;
  }

  bool is_id(ValueId id) const { return id != core::kAbsent && (ids_.contains(id) || fits_i32(graph_, id)); }

  // Operands of 64 bits are ids too; shapes and conditions have other types.
  bool operands_are_ids(const Op& op) const {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool is_shape = op.kind == Kind::kReshape && i == 1;
      if (!is_shape && op.inputs[i] != core::kAbsent && graph_.at(op.inputs[i]).dtype == DType::kInt64 &&
          !is_id(op.inputs[i]))
        return false;
    }
    return true;
  }

  bool is_made_of_ids(ValueId id) const {
    const core::OpId producer = graph_.at(id).producer;
    if (producer < 0) return std::find(graph_.inputs.begin(), graph_.inputs.end(), id) != graph_.inputs.end();
    const Op& op = graph_.op(producer);
    if (op.kind == Kind::kCast) return is_narrow(graph_.at(op.inputs[0]).dtype);
    return finds_places(op.kind) || (is_carried(op.kind) && operands_are_ids(op));
  }

  // x + n, where n may be the length of an axis.
  bool is_shifted(ValueId id, ValueId x) {
    const core::OpId producer = graph_.at(id).producer;
    if (producer < 0 || graph_.op(producer).kind != Kind::kAdd) return false;
    const std::vector<ValueId>& terms = graph_.op(producer).inputs;
    const ValueId other = terms[0] == x ? terms[1] : terms[0];
    constexpr double kLongest = 1 << 30;
    return (terms[0] == x || terms[1] == x) && graph_.at(other).is_constant() && most_of(other) <= kLongest;
  }

  // Whether LESS finds out if an index is to be made positive, SELECT(x < 0, x + n, x), and nothing else. Either the
  // result is no index, or x fits 32 bits.
  bool makes_positive(const Op& less) {
    if (less.kind != Kind::kLess || !graph_.at(less.inputs[1]).is_constant() || most_of(less.inputs[1]) != 0)
      return false;
    const auto& users = users_[static_cast<size_t>(less.outputs[0])];
    const bool is_output =
        std::find(graph_.outputs.begin(), graph_.outputs.end(), less.outputs[0]) != graph_.outputs.end();
    return !is_output && std::all_of(users.begin(), users.end(), [&](core::OpId user) {
      const Op& op = graph_.op(user);
      return op.kind == Kind::kSelectV2 && op.inputs[0] == less.outputs[0] && op.inputs[2] == less.inputs[0] &&
             is_shifted(op.inputs[1], less.inputs[0]) && ids_.contains(op.outputs[0]);
    });
  }

  // A cast to integers keeps the low bits, which are right.
  bool keeps_low_bits(const Op& cast) const {
    const DType dtype = graph_.at(cast.outputs[0]).dtype;
    return stream::is_integer(dtype) && stream::bits(dtype) <= 32;
  }

  bool is_used_as_id(ValueId id) {
    const auto& users = users_[static_cast<size_t>(id)];
    const bool is_index_only = !(most_[static_cast<size_t>(id)] <= kMostOfI32);  // NaN too
    return std::all_of(users.begin(), users.end(), [&](core::OpId user) {
      const Op& op = graph_.op(user);
      if (op.kind == Kind::kDead) return true;
      if (op.kind == Kind::kGather) return op.inputs[1] == id && op.inputs[0] != id;
      if (op.kind == Kind::kCast) return !is_index_only || keeps_low_bits(op);
      if (is_comparison(op.kind)) return operands_are_ids(op) && (!is_index_only || makes_positive(op));
      if (is_ordered(op.kind) && is_index_only) return false;
      return is_carried(op.kind) && ids_.contains(op.outputs[0]) && operands_are_ids(op);
    });
  }

  Graph& graph_;
  std::vector<std::vector<core::OpId>> users_;
  std::set<ValueId> ids_;
  // By value: the largest magnitude that it may have. Numbers that do not fit 32 bits are wrong there, but an index
  // that follows from them is right, because all is computed modulo 2^32: so such a value may only be an index.
  std::vector<double> most_;
};

}  // namespace

std::vector<std::string> narrow_ids(Graph& graph) {
  std::vector<bool> was_wide;
  for (ValueId in : graph.inputs) was_wide.push_back(graph.at(in).dtype == DType::kInt64);
  Ids(graph).narrow();
  graph.tidy();
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (was_wide[i] && graph.at(graph.inputs[i]).dtype == DType::kInt32) names.push_back(graph.input_names[i]);
  return names;
}

}  // namespace lowtide::layout
