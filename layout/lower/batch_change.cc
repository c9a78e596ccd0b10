// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/batch_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

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

Shape shape_of(const Builder& b, Val v) { return v ? comparable(b.graph.at(v.id).shape, b.graph.symbols) : Shape(); }

std::optional<Shape> contents_of(Builder& b, Val v) {
  if (!v) return std::nullopt;
  const std::vector<Dim>* known = b.graph.contents(v.id);
  return known ? std::optional(comparable(*known, b.graph.symbols)) : std::nullopt;
}

std::string shown(Dim comparable) { return core::is_symbol(comparable) ? "?" : fmt::format("{}", comparable); }

[[noreturn]] void holds_batch(const std::string& text) { throw Unsupported(text, kExportHint); }

int64_t int_attribute(const onnx::Node& node, std::string_view name) {
  const onnx::Attribute* found = node.find(name);
  return found ? found->i : 0;
}

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

size_t BatchChange::begin(const onnx::Node& node, Builder& b, std::vector<Val>& inputs) {
  Record record{.node = &node};
  for (const Val v : inputs) {
    record.inputs.push_back(shape_of(b, v));
    record.contents.push_back(contents_of(b, v));
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
    if (is_onnx && node.op_type == "Gather" && before.contents.size() > 1 && before.contents[1]) {
      int64_t axis = int_attribute(node, "axis");
      if (axis < 0) axis += static_cast<int64_t>(x.now.size());
      for (const size_t changed : x.changed())
        if (static_cast<int64_t>(changed) == axis)
          holds_batch(fmt::format("it takes constant indices along the batch, axis {}", axis));
    }
    if (is_onnx && node.op_type == "Flatten") {
      int64_t axis = node.find("axis") ? int_attribute(node, "axis") : 1;
      if (axis < 0) axis += static_cast<int64_t>(x.now.size());
      for (const size_t changed : x.changed())
        if (changed > 0 && static_cast<int64_t>(changed) < axis)
          holds_batch(fmt::format("it merges the batch, axis {}, with the axes before it", changed));
    }
  }
  now_.push_back(std::move(record));
  return place;
}

void BatchChange::derive_reshape(const onnx::Node& node, Builder& b, const Record& before, const Reading& x,
                                 std::vector<Val>& inputs) const {
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
  if (same_front) {
    for (const size_t i : changed)
      if (target[i] != -1 && (target[i] != 0 || allow_zero)) target[i] = b.shape(inputs[0])[i];
    inputs[1] = b.dims(target, core::DType::kInt64);
    return;
  }
  const bool divides = x.before[0] > 0 && x.now[0] > 0 && last == 0 && !target.empty();
  if (divides && target[0] == -1) {
    // The batch is the first part of a larger axis. An extent of 1 behind it might be the batch instead.
    if (std::find(target.begin() + 1, target.end(), Dim{1}) == target.end()) return;
  } else if (divides && target[0] > 0 && x.before[0] % target[0] == 0 && x.now[0] > x.before[0]) {
    // A larger axis whose first part is the batch is divided again: [4*T, D] -> [4, T, D].
    const Dim parts = x.before[0] / target[0];
    Dim product = 1;
    size_t i = 1;
    while (i < stood_for.size() && stood_for[i] > 0 && product < parts) product *= stood_for[i++];
    if (target[0] == 1 && product == parts && x.now[0] % parts == 0) {
      target[0] = x.now[0] / parts;
      inputs[1] = b.dims(target, core::DType::kInt64);
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
  static const std::set<std::string_view> kParts = {"Slice", "Split", "Pad", "Resize", "Upsample"};
  for (size_t i = 0; i < std::min(shapes.size(), before.outputs.size()); ++i) {
    if (shapes[i].size() != before.outputs[i].size())
      holds_batch(fmt::format("its output has the shape {}, and {} with the batch of the file",
                              stream::to_string(shapes[i]), stream::to_string(before.outputs[i])));
    if (!before.node->domain.empty() || !kParts.contains(before.node->op_type) || now.inputs.empty()) continue;
    const Reading x{before.inputs[0], now.inputs[0]};
    for (const size_t axis : x.changed())
      if (axis < shapes[i].size() && shapes[i][axis] == x.before[axis] && before.outputs[i][axis] == x.before[axis])
        holds_batch(fmt::format("its output stays {} along the batch, axis {}, which is {} now", shown(x.before[axis]),
                                axis, shown(x.now[axis])));
  }
}

}  // namespace lowtide::layout
