// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {

using stream::Code;
using stream::Error;
using stream::Unsupported;
using Type = onnx::Attribute::Type;

namespace {

// Sizes, axes and counts are never numbers that Symbols uses for symbolic dimensions.
const onnx::Attribute* countable(const Lowering& lo, const onnx::Attribute* found) {
  if (found && (core::is_symbol(found->i) || std::any_of(found->ints.begin(), found->ints.end(), core::is_symbol)))
    lo.malformed(fmt::format("attribute '{}' has a number below {}", found->name, core::kSymbolBase));
  return found;
}

}  // namespace

Lowering::Lowering(Builder& builder, const onnx::Node& onnx_node, int64_t version, std::vector<Val> inputs,
                   Surroundings& surroundings)
    : b(builder),
      node(onnx_node),
      around(surroundings),
      opset_(version),
      inputs_(std::move(inputs)),
      outputs_(onnx_node.outputs.size()) {}

Val Lowering::input(size_t i) const {
  if (!has_input(i)) malformed(fmt::format("required input {} is missing", i));
  return inputs_[i];
}

DType Lowering::onnx_dtype(size_t i) const {
  const DType here = dtype(input(i)), half = around.half_of(node.inputs[i]);
  return here == DType::kFloat32 && half != DType::kUndefined ? half : here;
}

std::optional<std::vector<Dim>> Lowering::dims(Val v) const {
  b.known(v);
  const std::vector<Dim>* known = b.graph.contents(v.id);
  return known ? std::optional(*known) : std::nullopt;
}
std::optional<std::vector<int64_t>> Lowering::ints(Val v) const {
  b.known(v);
  return b.graph.ints(v.id);
}
std::optional<std::vector<double>> Lowering::numbers(Val v) const {
  b.known(v);
  return b.graph.numbers(v.id);
}

std::vector<Dim> Lowering::need_dims(Val v, const char* what) const {
  if (auto known = dims(v)) return *known;
  unsupported(fmt::format("'{}' is computed at run time", what),
              "it must be known at conversion: make it an initializer");
}
std::vector<int64_t> Lowering::need_ints(Val v, const char* what) const {
  if (auto known = ints(v)) return *known;
  if (dims(v))
    unsupported(fmt::format("'{}' depends on a dynamic dimension", what),
                "fix the inputs' shapes with --shape INPUT=...");
  unsupported(fmt::format("'{}' is computed at run time", what),
              "it must be known at conversion: make it an initializer");
}
std::vector<double> Lowering::need_numbers(Val v, const char* what) const {
  if (auto known = numbers(v)) return *known;
  unsupported(fmt::format("'{}' is computed at run time", what),
              "it must be known at conversion: make it an initializer");
}

int64_t Lowering::need_static(Dim dim, const char* what) const {
  if (!stream::is_static(dim))
    unsupported(fmt::format("{} is dynamic ({})", what, b.graph.symbols.to_string(dim)),
                "fix the inputs' shapes with --shape INPUT=...");
  return dim;
}
std::vector<int64_t> Lowering::need_static(const Shape& shape, const char* what) const {
  for (Dim dim : shape) need_static(dim, what);
  return shape;
}

int Lowering::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    malformed(fmt::format("axis {} is out of range for a tensor of rank {}", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
std::vector<int> Lowering::axes(const std::vector<int64_t>& axes, int rank) const {
  std::vector<int> out;
  for (int64_t one : axes) {
    int normal = axis(one, rank);
    if (std::count(out.begin(), out.end(), normal)) malformed(fmt::format("axis {} is given twice", one));
    out.push_back(normal);
  }
  return out;
}
std::vector<int> Lowering::axis_set(const std::vector<int64_t>& axes, int rank) const {
  std::vector<int> out;
  for (int64_t one : axes)
    if (const int normal = axis(one, rank); std::count(out.begin(), out.end(), normal) == 0) out.push_back(normal);
  return out;
}

const onnx::Attribute* Lowering::typed(std::string_view name, Type type) {
  read_.emplace(name);
  const onnx::Attribute* found = node.find(name);
  if (found && found->type != type)
    malformed(fmt::format("attribute '{}' has type {}, expected {}", name, static_cast<int>(found->type),
                          static_cast<int>(type)));
  return found;
}
int64_t Lowering::attr_i(std::string_view name, int64_t otherwise) {
  const auto* found = countable(*this, typed(name, Type::kInt));
  return found ? found->i : otherwise;
}
int64_t Lowering::need_attr_i(std::string_view name) {
  const auto* found = countable(*this, typed(name, Type::kInt));
  if (!found) malformed(fmt::format("required attribute '{}' is missing", name));
  return found->i;
}
int64_t Lowering::attr_count(std::string_view name, int64_t otherwise) {
  return has_attr(name) ? need_attr_count(name) : otherwise;
}
int64_t Lowering::need_attr_count(std::string_view name) {
  const int64_t count = need_attr_i(name);
  if (count > std::numeric_limits<int32_t>::max() || count < std::numeric_limits<int32_t>::min())
    malformed(fmt::format("attribute '{}' must fit 32 bits; it is {}", name, count));
  return count;
}
float Lowering::attr_f(std::string_view name, float otherwise) {
  const auto* found = typed(name, Type::kFloat);
  return found ? found->f : otherwise;
}
float Lowering::need_attr_f(std::string_view name) {
  const auto* found = typed(name, Type::kFloat);
  if (!found) malformed(fmt::format("required attribute '{}' is missing", name));
  return found->f;
}
DType Lowering::attr_dtype(std::string_view name, DType otherwise) {
  const auto* found = typed(name, Type::kInt);
  if (!found) return otherwise;
  auto dtype = stream::onnx_dtype(found->i);
  if (!dtype || *dtype == DType::kUndefined)
    malformed(fmt::format("attribute '{}': data type {} is not known", name, found->i));
  return *dtype;
}
std::string Lowering::attr_s(std::string_view name, std::string otherwise) {
  const auto* found = typed(name, Type::kString);
  if (!found) return otherwise;
  return found->s;
}
std::optional<std::vector<int64_t>> Lowering::attr_ints(std::string_view name) {
  const auto* found = countable(*this, typed(name, Type::kInts));
  return found ? std::optional(found->ints) : std::nullopt;
}
std::optional<std::vector<int64_t>> Lowering::attr_places(std::string_view name) {
  const auto* found = typed(name, Type::kInts);
  if (!found) return std::nullopt;
  std::vector<int64_t> places = found->ints;
  for (int64_t& place : places) place = std::max(place, core::kSymbolBase + 1);
  return places;
}
std::optional<std::vector<float>> Lowering::attr_floats(std::string_view name) {
  const auto* found = typed(name, Type::kFloats);
  return found ? std::optional(found->floats) : std::nullopt;
}
const onnx::Attribute* Lowering::attr(std::string_view name) {
  read_.emplace(name);
  return node.find(name);
}
void Lowering::ignore_attr(std::string_view name) { read_.emplace(name); }

void Lowering::output(size_t i, Val v) {
  if (i < outputs_.size()) outputs_[i] = v;
}

void Lowering::unsupported(std::string reason, std::string hint) const {
  throw Unsupported(std::move(reason), std::move(hint));
}
void Lowering::malformed(std::string text) const { throw Error(Code::kMalformed, std::move(text)); }

void Lowering::misfit(std::string text) const {
  const bool known =
      std::all_of(inputs_.begin(), inputs_.end(), [&](Val v) { return !v || stream::is_static(shape(v)); });
  if (known) malformed(std::move(text));
  unsupported(std::move(text) + ", as far as the dimensions are known",
              "fix the inputs' shapes with --shape INPUT=...");
}

void Lowering::finish() const {
  for (const onnx::Attribute& attribute : node.attributes)
    if (!read_.contains(attribute.name))
      unsupported(fmt::format("attribute '{}' is not known for this operator at opset {}", attribute.name, opset_));
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (wants_output(i) && !outputs_[i])
      unsupported(fmt::format("its output {} ('{}') cannot be expressed", i, node.outputs[i]));
}

}  // namespace lowtide::layout
