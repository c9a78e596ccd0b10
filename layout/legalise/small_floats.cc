// SPDX-License-Identifier: Apache-2.0
// From bits to floats: a GATHER from the table of all numbers.
//
// From floats to bits, in two steps. Rounding to the small float's numbers needs no integers (m mantissa bits):
//
//     c = x kept within the largest number        g = max((2^(23 - m) - 1) |c|, 1.5 * 2^23 * the least distance)
//     r = g - (g - c)
//
// The last place of g - c is the distance of the small float's numbers around x, and the subtraction rounds to it, half
// to even. That it is exact was tested for each f32 (tests/stream/recipe/small_floats_test.cc has the same formula).
// Where a value is rounded and read again, as QuantizeLinear and DequantizeLinear in a row do, that is all. (A zero
// loses its sign there.) The bits of r are those of an f32 with fewer digits; below the smallest normal number, where
// an f32 has no denormals to compare with, they count the distance.
//
// The trap: kernels give a constant for MINIMUM of NaN and the constant, but NaN where NaN is the second operand and
// no constant.
#include "layout/legalise/small_floats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/recipe/small_floats.h"

namespace lowtide::layout {

using core::DType;
using core::kAbsent;
using core::Kind;
using core::Op;
using core::OpId;
using core::Role;
using core::Val;
using core::ValueId;
using stream::is_small_float;
using stream::RecipeRef;
using stream::SmallFloat;
using stream::Unsupported;

namespace {

constexpr int kDigits = 23;  // of f32, after the first

// The same bits as u8; null where a step makes the elements from others.
RecipeRef retyped(const RecipeRef& recipe) {
  namespace step = stream::step;
  const stream::Step& made = recipe->step;
  const bool moves = std::holds_alternative<step::Stored>(made) || std::holds_alternative<step::Inline>(made) ||
                     std::holds_alternative<step::Fill>(made) || std::holds_alternative<step::Permute>(made) ||
                     std::holds_alternative<step::Reshape>(made) || std::holds_alternative<step::Slice>(made) ||
                     std::holds_alternative<step::Concat>(made) || std::holds_alternative<step::Broadcast>(made) ||
                     std::holds_alternative<step::Pad>(made) || std::holds_alternative<step::Gather>(made);
  if (!moves || stream::bits(recipe->dtype) != 8) return nullptr;
  auto out = std::make_shared<stream::Recipe>(*recipe);
  out->dtype = DType::kUint8;
  for (RecipeRef& from : out->from)
    if (!(from = retyped(from))) return nullptr;
  return out;
}

class SmallFloats {
 public:
  explicit SmallFloats(core::Graph& graph) : graph_(graph), b_(graph) {}

  std::vector<Unsupported> run() {
    check_ops();
    if (!refused_.empty()) return std::move(refused_);
    // First what reads floats: where they were rounded in the graph, nobody may ask for their bits.
    const size_t op_count = graph_.ops.size();  // behind them come those of indices
    for (size_t i = 0; i < op_count; ++i)
      if (graph_.ops[i].kind == Kind::kCast && is_small(graph_.ops[i].inputs[0])) replace(i, read(graph_.ops[i]));
    graph_.tidy();
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      if (graph_.ops[i].kind == Kind::kCast && is_small(graph_.ops[i].outputs[0])) replace(i, written(graph_.ops[i]));
      if (graph_.ops[i].kind == Kind::kBitcast &&
          (is_small(graph_.ops[i].inputs[0]) || is_small(graph_.ops[i].outputs[0])))
        replace(i, {graph_.ops[i].inputs[0]});
    }
    graph_.tidy();
    retype();
    return std::move(refused_);
  }

 private:
  bool is_small(ValueId id) const { return id != kAbsent && is_small_float(graph_.at(id).dtype); }

  void check_ops() {
    for (const Op& op : graph_.ops) {
      if (op.kind == Kind::kDead || op.kind == Kind::kBitcast || op.kind == Kind::kShape) continue;
      const core::Builtin& row = core::builtin(op.kind);
      const bool to_powers = op.kind == Kind::kCast && graph_.at(op.outputs[0]).dtype == DType::kFloat8E8M0;
      if ((op.kind == Kind::kCast && !to_powers) || row.numbers == core::Numbers::kMoved) continue;
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (to_powers || (is_small(op.inputs[i]) && row.inputs[i] == Role::kData)) {
          const DType dtype = graph_.at(to_powers ? op.outputs[0] : op.inputs[i]).dtype;
          refuse(op, fmt::format("no kernel of {} takes {}", kind_name(op.kind), dtype_name(dtype)));
          break;
        }
    }
  }

  void refuse(const Op& op, std::string reason) {
    Unsupported refused(std::move(reason), "cast its inputs to float in the model");
    refused.add_place({.node = graph_.origins[op.origin], .op = std::string(kind_name(op.kind))});
    refused_.push_back(std::move(refused));
  }

  // The op gives `made` from now on.
  void replace(size_t op_index, Val made) {
    Op& op = graph_.ops[op_index];
    const ValueId out = op.outputs[0];
    op.kind = Kind::kDead;
    if (graph_.at(made.id).name.empty() && !graph_.at(made.id).is_constant())
      graph_.at(made.id).name = std::exchange(graph_.at(out).name, {});
    graph_.replace_uses(out, made.id);
  }

  Val read(const Op& op) {
    b_.origin = op.origin;
    const DType to = graph_.at(op.outputs[0]).dtype;
    return b_.cast(floats(op.inputs[0]), to);
  }

  // ---- from bits ----

  Val floats(ValueId id) {
    if (const auto known = floats_.find(id); known != floats_.end()) return known->second;
    const Val made = is_rounded_here(id) ? floats_of_rounded(id) : from_table(id);
    floats_.emplace(id, made);
    return made;
  }

  Val from_table(ValueId id) {
    const std::vector<float> values = stream::small_float_values(graph_.at(id).dtype);
    const Val table = b_.constant(stream::recipe::floats(values, {static_cast<core::Dim>(values.size())}));
    return b_.gather(table, b_.cast({id}, DType::kInt32), 0);
  }

  // The one input that an op moves; kAbsent where it has several.
  ValueId moved_input(const Op& op) const {
    const core::Builtin& row = core::builtin(op.kind);
    if (row.numbers != core::Numbers::kMoved || op.outputs.size() != 1) return kAbsent;
    ValueId found = kAbsent;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kAbsent || row.inputs[i] != Role::kData) continue;
      if (found != kAbsent) return kAbsent;
      found = op.inputs[i];
    }
    return found;
  }

  // Whether a CAST of this graph rounds the elements, which were only moved since.
  bool is_rounded_here(ValueId id) const {
    for (;;) {
      const OpId producer = graph_.at(id).producer;
      if (producer < 0) return false;
      const Op& op = graph_.ops[static_cast<size_t>(producer)];
      if (op.kind == Kind::kCast) return true;
      id = moved_input(op);
      if (id == kAbsent || !is_small(id)) return false;
    }
  }

  Val floats_of_rounded(ValueId id) {
    const DType dtype = graph_.at(id).dtype;
    const Op op = graph_.ops[static_cast<size_t>(graph_.at(id).producer)];
    if (op.kind == Kind::kCast) return rounded(input_of_cast(op), dtype);
    const ValueId moved = moved_input(op);
    std::vector<Val> inputs;
    for (const ValueId input : op.inputs) inputs.push_back(input == moved ? floats(moved) : Val{input});
    return b_.op(op.kind, inputs, op.options);
  }

  // ---- from floats ----

  Val input_of_cast(const Op& op) {
    if (is_small(op.inputs[0])) return floats(op.inputs[0]);
    return b_.cast({op.inputs[0]}, DType::kFloat32);
  }

  Val rounded(Val x, DType to) {
    if (const auto known = rounded_.find({x.id, to}); known != rounded_.end()) return known->second;
    const SmallFloat& format = stream::small_float(to);
    const auto f32 = [&](double value) { return b_.scalar(value, DType::kFloat32); };
    // NaN gets through as the second operand of the last MINIMUM.
    const Val within = b_.minimum(b_.maximum(x, f32(-format.largest)), f32(format.largest));
    const Val kept = to == DType::kFloat4E2M1 ? within : b_.minimum(within, b_.abs(x));
    const double factor = std::ldexp(1.0, kDigits - format.mantissa_bits) - 1;
    const double least = std::ldexp(1.5, format.smallest_exponent - format.mantissa_bits + kDigits);
    const Val larger = b_.maximum(b_.mul(b_.abs(kept), factor), f32(least));
    Val made = b_.sub(larger, b_.sub(larger, kept));
    if (to == DType::kFloat4E2M1) made = b_.select(b_.not_equal(x, x), f32(0), made);
    rounded_.emplace(std::pair(x.id, to), made);
    return made;
  }

  Val written(const Op& op) {
    b_.origin = op.origin;
    const DType to = graph_.at(op.outputs[0]).dtype;
    const SmallFloat& format = stream::small_float(to);
    const auto i32 = [&](double value) { return b_.scalar(value, DType::kInt32); };
    const auto as_integer = [&](Val v) { return b_.op(Kind::kBitcast, {v}, core::IndexOptions{DType::kInt32}); };
    const Val x = input_of_cast(op), size = b_.abs(rounded(x, to));
    const Val smallest_normal = b_.scalar(std::ldexp(1.0, format.smallest_exponent), DType::kFloat32);
    const Val steps = b_.cast(
        b_.mul(b_.minimum(size, smallest_normal), std::ldexp(1.0, format.mantissa_bits - format.smallest_exponent)),
        DType::kInt32);
    constexpr int kBias = 127;
    const Val above =
        b_.sub(b_.right_shift(as_integer(b_.maximum(size, smallest_normal)), i32(kDigits - format.mantissa_bits)),
               std::ldexp(format.smallest_exponent + kBias, format.mantissa_bits));
    const Val is_nan = b_.not_equal(x, x);
    Val bits = b_.add(steps, above);
    const bool nan_has_sign = format.has_minus_zero && to != DType::kFloat4E2M1;
    if (nan_has_sign) bits = b_.select(is_nan, i32(format.nan), bits);
    const double sign = 1 << format.sign_bit;
    const Val is_negative = b_.less(as_integer(x), i32(0));
    bits = b_.select(is_negative, b_.add(bits, sign), bits);
    if (!format.has_minus_zero) bits = b_.select(b_.equal(bits, i32(sign)), i32(0), bits);
    if (!nan_has_sign) bits = b_.select(is_nan, i32(format.nan), bits);
    return b_.cast(bits, DType::kUint8);
  }

  // ---- types ----

  void retype() {
    std::vector<char> is_used(graph_.values.size());
    for (const Op& op : graph_.ops)
      for (const ValueId input : op.inputs)
        if (input != kAbsent) is_used[static_cast<size_t>(input)] = 1;
    for (const ValueId output : graph_.outputs) is_used[static_cast<size_t>(output)] = 1;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      core::Value& value = graph_.values[i];
      if (!is_small_float(value.dtype)) continue;
      if (value.constant && is_used[i]) value.constant = bits_of(value);
      value.dtype = DType::kUint8;
    }
    for (Op& op : graph_.ops)
      if (auto* index = std::get_if<core::IndexOptions>(&op.options); index && is_small_float(index->dtype))
        index->dtype = DType::kUint8;
  }

  RecipeRef bits_of(const core::Value& value) {
    if (stream::is_small(*value.constant))
      return stream::recipe::inline_lanes(stream::evaluate(value.constant, graph_.budget), DType::kUint8, value.shape);
    if (RecipeRef made = retyped(value.constant)) return made;
    refused_.push_back(Unsupported(
        fmt::format("the constant '{}' of {} is used without a cast to float", value.name, dtype_name(value.dtype)),
        "cast it to float in the model"));
    return value.constant;
  }

  core::Graph& graph_;
  core::Builder b_;
  std::vector<Unsupported> refused_;
  std::map<ValueId, Val> floats_;
  std::map<std::pair<ValueId, DType>, Val> rounded_;
};

}  // namespace

std::vector<Unsupported> small_floats_as_bits(core::Graph& graph) {
  const bool has_any = std::any_of(graph.values.begin(), graph.values.end(),
                                   [](const core::Value& value) { return is_small_float(value.dtype); });
  return has_any ? SmallFloats(graph).run() : std::vector<Unsupported>();
}

std::vector<std::string> notes_on_small_floats(const core::Graph& graph) {
  std::vector<std::string> notes;
  const auto note = [&](const char* what, const std::vector<ValueId>& ids, const std::vector<std::string>& names) {
    for (size_t i = 0; i < ids.size(); ++i)
      if (const DType dtype = graph.at(ids[i]).dtype; is_small_float(dtype))
        notes.push_back(
            fmt::format("{} '{}' is u8 with the bits of {}, one element a byte: TFLite has no kernel for that type",
                        what, names[i], dtype_name(dtype)));
  };
  note("input", graph.inputs, graph.input_names);
  note("output", graph.outputs, graph.output_names);
  return notes;
}

}  // namespace lowtide::layout
