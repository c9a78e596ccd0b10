// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/batch_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "layout/lower/batch_axes.h"
#include "stream/error.h"
#include "stream/shape.h"

namespace lowtide::layout {
namespace {

using core::Builder;
using core::Dim;
using core::Shape;
using core::Val;
using stream::Unsupported;

constexpr const char* kExportHint = "export the model with this batch, or with a dynamic one";

// Symbols of two lowerings are numbered differently; their fingerprints are the same.
Dim comparable(Dim dim, const core::Symbols& symbols) {
  if (!core::is_symbol(dim)) return dim;
  return core::kSymbolBase - static_cast<Dim>(symbols.fingerprint(dim) >> 3);
}
Shape comparable(const Shape& shape, const core::Symbols& symbols) {
  Shape out;
  for (const Dim dim : shape) out.push_back(comparable(dim, symbols));
  return out;
}

// Of a list, the number of its tensors.
Shape shape_of(const Builder& b, Val v) {
  if (!v) return {};
  const core::Value& value = b.graph.at(v.id);
  if (core::is_tensor_list(b.graph, v.id)) return {static_cast<Dim>(b.graph.op(value.producer).inputs.size())};
  return comparable(value.shape, b.graph.symbols);
}

std::optional<Shape> contents_of(Builder& b, Val v) {
  if (!v) return std::nullopt;
  const std::vector<Dim>* known = b.graph.contents(v.id);
  return known ? std::optional(comparable(*known, b.graph.symbols)) : std::nullopt;
}

std::string shown(Dim comparable) { return core::is_symbol(comparable) ? "?" : fmt::format("{}", comparable); }

[[noreturn]] void holds_batch(const std::string& text) { throw Unsupported(text, kExportHint); }

}  // namespace

// Comparable shapes: their symbols are of no graph, and no extent of one is taken from here.
struct BatchChange::Reading {
  const Shape &before, &now;
  std::vector<size_t> changed() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < std::min(before.size(), now.size()); ++i)
      if (before[i] != now[i]) out.push_back(i);
    return out;
  }
};

std::optional<std::map<std::string, Shape>> shapes_of_file(const onnx::Model& model,
                                                           const std::map<std::string, Shape>& shapes) {
  std::map<std::string, Shape> out = shapes;
  for (const onnx::ValueInfo& input : model.graph.inputs) {
    auto given = out.find(input.name);
    if (given == out.end() || given->second.empty() || input.dims.empty()) continue;
    if (input.dims[0].value >= 0) given->second[0] = input.dims[0].value;
  }
  return out == shapes ? std::nullopt : std::optional(std::move(out));
}

BatchChange::BatchChange(const std::map<std::string, Shape>& before, const std::map<std::string, Shape>& now) {
  for (const auto& [name, shape] : now)
    if (auto found = before.find(name); found != before.end() && found->second != shape)
      batches_.emplace(found->second[0], shape[0]);
}

size_t BatchChange::begin(const onnx::Node& node, Builder& b, std::vector<Val>& inputs) {
  Record record{.node = &node};
  for (const Val v : inputs) {
    record.inputs.push_back(shape_of(b, v));
    record.contents.push_back(contents_of(b, v));
    record.constant.push_back(v && b.is_constant(v));
  }
  if (!following_) {
    records_.push_back(std::move(record));
    return records_.size() - 1;
  }
  const size_t place = next_++;
  if (place >= records_.size() || records_[place].node != &node)
    holds_batch("with the new batch other nodes of the model's branches and loops would run");
  const Record& before = records_[place];
  if (!inputs.empty() && inputs[0]) {
    const Reading x{before.inputs[0], record.inputs[0]};
    const bool is_onnx = node.domain.empty();
    if (!x.changed().empty() && is_onnx && node.op_type == "Reshape") derive_reshape(node, b, before, x, inputs);
    if (!x.changed().empty() && is_onnx && node.op_type == "Resize") derive_resize(node, b, before, x, inputs);
    check_steps(node, x);
    if (is_onnx && node.op_type == "Flatten") {
      const int64_t axis = axis_attribute(node, 1, x.now.size());
      for (const size_t changed : x.changed())
        if (changed > 0 && static_cast<int64_t>(changed) < axis)
          holds_batch(fmt::format("it merges the batch, axis {}, with the axes before it", changed));
    }
  }
  check_groups(node, before, record);
  check_indices(node, before, record);
  now_.push_back(std::move(record));
  return place;
}

// Either 1 of [1,1,C] may be the batch. A larger batch does not add steps to a recurrence.
void BatchChange::check_steps(const onnx::Node& node, const Reading& x) const {
  const std::optional<size_t> steps = axis_of_steps(node);
  if (!steps || !is_guessed_) return;
  for (const size_t changed : x.changed())
    if (changed == *steps)
      holds_batch(
          fmt::format("the batch would become its steps, axis {}: a Reshape before it has a constant shape, "
                      "in which any axis of 1 may be the batch",
                      changed));
}

// Weights of each sample are those of a group; a batch of 1 has one group.
void BatchChange::check_groups(const onnx::Node& node, const Record& before, const Record& now) {
  for (size_t k = 0; k < std::min(before.inputs.size(), now.inputs.size()); ++k) {
    const Reading w{before.inputs[k], now.inputs[k]};
    for (const size_t changed : w.changed())
      if (is_of_channels(node, k, changed, w.now.size()))
        holds_batch(fmt::format("its groups are the batch, which its weights follow at axis {}: {}, and {} before",
                                changed, stream::to_string(w.now), stream::to_string(w.before)));
  }
}

// Indices count samples, and with another batch there are others.
void BatchChange::check_indices(const onnx::Node& node, const Record& before, const Record& now) {
  if (now.inputs.empty() || before.inputs.size() != now.inputs.size()) return;
  const Reading x{before.inputs[0], now.inputs[0]};
  const auto indices = indices_of(node, x.now.size(), now.inputs);
  if (!indices || indices->operand >= now.inputs.size()) return;
  const size_t k = indices->operand;
  const bool is_same = now.constant[k] && before.inputs[k] == now.inputs[k] && before.contents[k] == now.contents[k];
  for (const size_t changed : x.changed()) {
    if (is_same && indices->has(static_cast<int64_t>(changed)))
      holds_batch(fmt::format("it takes constant indices along the batch, axis {}", changed));
    // The elements of ScatterElements are placed for each sample that the indices have.
    const Reading i{before.inputs[k], now.inputs[k]};
    if (node.op_type.starts_with("Scatter") && node.op_type != "ScatterND" && i.before.size() > changed &&
        i.before[changed] == x.before[changed] && i.now[changed] == i.before[changed])
      holds_batch(fmt::format("its indices stay {} along the batch, axis {}, which is {} now", shown(i.now[changed]),
                              changed, shown(x.now[changed])));
  }
}

void BatchChange::derive_reshape(const onnx::Node& node, Builder& b, const Record& before, const Reading& x,
                                 std::vector<Val>& inputs) {
  const bool has_input = before.contents.size() > 1;
  if (has_input && (!before.contents[1] || contents_of(b, inputs[1]) != before.contents[1])) return;  // it is computed
  if (!has_input) holds_batch("its shape is an attribute, which cannot follow the batch");
  Shape target = *b.graph.contents(inputs[1].id);
  const bool allow_zero = int_attribute(node, "allowzero") == 1;
  // The extents that the target stood for.
  Shape stood_for = before.outputs[0];
  const std::vector<size_t> changed = x.changed();
  const size_t last = changed.back();
  // The axes up to the batch are the input's own: the batch is one of them.
  bool same_front = target.size() > last && stood_for.size() == target.size();
  for (size_t i = 0; same_front && i <= last; ++i) same_front = stood_for[i] == x.before[i];
  const auto is_one = [](const Shape& shape, size_t axis) { return axis < shape.size() && shape[axis] == 1; };
  if (same_front) {
    if (is_one(x.before, last) && is_one(stood_for, last + 1) && !is_one(x.before, last + 1)) is_guessed_ = true;
    for (const size_t i : changed)
      if (target[i] != -1 && (target[i] != 0 || allow_zero)) target[i] = b.shape(inputs[0])[i];
    inputs[1] = b.dims(target, core::DType::kInt64);
    return;
  }
  if (changed.size() == 1) {
    const BatchReshape reshape{x.before, x.now, last, target, stood_for};
    if (const auto reading = reshape_for(reshape, batches_)) {
      if (target[0] == 1 && (*reading)[0] != 1) is_guessed_ = true;
      if (*reading != target) inputs[1] = b.dims(*reading, core::DType::kInt64);
      return;
    }
  }
  std::vector<std::string> extents;
  for (const Dim extent : target) extents.push_back(b.graph.symbols.to_string(extent));
  holds_batch(fmt::format("its shape [{}] is constant and holds the batch: its input is {}, and was {}",
                          fmt::join(extents, ","), stream::to_string(x.now), stream::to_string(x.before)));
}

void BatchChange::derive_resize(const onnx::Node& node, Builder& b, const Record& before, const Reading& x,
                                std::vector<Val>& inputs) const {
  constexpr size_t kSizes = 3;
  if (before.contents.size() <= kSizes || !before.contents[kSizes] || before.contents[kSizes]->empty()) return;
  if (contents_of(b, inputs[kSizes]) != before.contents[kSizes]) return;
  Shape sizes = *b.graph.contents(inputs[kSizes].id);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < x.now.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (const onnx::Attribute* given = node.find("axes")) axes = given->ints;
  for (const size_t changed : x.changed())
    for (size_t i = 0; i < std::min(axes.size(), sizes.size()); ++i) {
      const int64_t axis = axes[i] < 0 ? axes[i] + static_cast<int64_t>(x.now.size()) : axes[i];
      if (static_cast<size_t>(axis) != changed) continue;
      if (sizes[i] != x.before[changed])
        holds_batch(fmt::format("it resizes the batch, axis {}, to {}", changed, b.graph.symbols.to_string(sizes[i])));
      sizes[i] = b.shape(inputs[0])[changed];
    }
  inputs[kSizes] = b.dims(sizes, core::DType::kInt64);
}

void BatchChange::end(size_t place, Builder& b, const std::vector<Val>& outputs) {
  std::vector<Shape> shapes;
  for (const Val v : outputs) shapes.push_back(shape_of(b, v));
  if (!following_) {
    records_[place].outputs = std::move(shapes);
    return;
  }
  // Nodes that were begun inside this one and refused were not ended.
  const Record& before = records_[place];
  while (now_.back().node != before.node) now_.pop_back();
  const Record now = std::move(now_.back());
  now_.pop_back();
  for (size_t i = 0; i < std::min(shapes.size(), before.outputs.size()); ++i) {
    if (shapes[i].size() != before.outputs[i].size())
      holds_batch(fmt::format("its output has the shape {}, and {} with the batch of the file",
                              stream::to_string(shapes[i]), stream::to_string(before.outputs[i])));
    for (size_t k = 0; k < std::min(before.inputs.size(), now.inputs.size()); ++k)
      check_follows(before, now, k, {before.outputs[i], shapes[i]});
    if (i == 0) check_slice(before, now, {before.outputs[0], shapes[0]});
  }
}

// Refuses a Slice that gives the same samples as before: the new batch has others as well, or fewer. Starts that count
// from the end follow the batch.
void BatchChange::check_slice(const Record& before, const Record& now, const Reading& y) {
  if (now.inputs.empty() || now.inputs[0].size() != y.now.size()) return;
  const Reading x{before.inputs[0], now.inputs[0]};
  const auto starts = slice_starts(*now.node, x.now.size(), now.contents);
  if (starts.empty() || starts != slice_starts(*before.node, x.before.size(), before.contents)) return;
  for (const size_t changed : x.changed()) {
    const auto start = starts.find(static_cast<int64_t>(changed));
    if (start == starts.end() || y.now[changed] == 0 || y.now[changed] != y.before[changed]) continue;
    // Beyond either end of both extents it stands for that end.
    const Dim most = std::max(x.before[changed], x.now[changed]);
    const bool is_known = x.before[changed] >= 0 && x.now[changed] >= 0;
    const bool is_from_end =
        is_known ? start->second >= most || (start->second < 0 && start->second >= -most) : start->second < 0;
    if (!is_from_end)
      holds_batch(fmt::format("it takes constant places along the batch, axis {}: {} from {}", changed,
                              shown(y.now[changed]), start->second));
  }
}

// An einsum's sum over the batch has no axis of it, but another operand has.
void BatchChange::check_labels(const Record& before, const Record& now, size_t k, size_t axis) {
  const std::optional<int> label = einsum_label(*before.node, k, axis, now.inputs[k].size());
  if (!label) return;
  const Reading x{before.inputs[k], now.inputs[k]};
  for (size_t i = 0; i < now.inputs.size(); ++i)
    for (size_t j = 0; j < now.inputs[i].size(); ++j)
      if (before.inputs[i] == now.inputs[i] && now.inputs[i][j] == x.before[axis] &&
          einsum_label(*before.node, i, j, now.inputs[i].size()) == label)
        holds_batch(fmt::format("its operand {} stays {} along the batch, axis {}, which is {} now", i,
                                shown(x.before[axis]), j, shown(x.now[axis])));
}

// Another operand that only the run knows has extents of its own.
bool BatchChange::other_decides(const Record& before, const Record& now, size_t k) {
  for (size_t i = 0; i < std::min(before.inputs.size(), now.inputs.size()); ++i)
    if (i != k && !now.inputs[i].empty() && !now.constant[i] && before.inputs[i] == now.inputs[i]) return true;
  return false;
}

void BatchChange::check_follows(const Record& before, const Record& now, size_t k, const Reading& y) {
  const Reading x{before.inputs[k], now.inputs[k]};
  const std::vector<size_t> changed = x.changed();
  // What changed is somewhere in the output, if only at another axis.
  if (changed.empty() || y.changed().size() >= changed.size()) return;
  for (const size_t axis : changed) {
    check_labels(before, now, k, axis);
    const size_t place = axis + y.now.size();  // numpy's rule: the last axes are aligned
    if (place < x.now.size() || vanishes(*before.node, k, axis, x.now.size())) continue;
    const Dim extent = y.now[place - x.now.size()];
    if (extent != y.before[place - x.now.size()]) continue;
    // Of a batch of 1, a constant made as many as the new batch has.
    const bool is_repeated = x.before[axis] == 1 && extent == x.now[axis] && !other_decides(before, now, k);
    if (extent == x.before[axis] || is_repeated)
      holds_batch(fmt::format("its output stays {} along the batch, axis {}, which was {} and is {} now", shown(extent),
                              axis, shown(x.before[axis]), shown(x.now[axis])));
  }
}

}  // namespace lowtide::layout
