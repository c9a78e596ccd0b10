// SPDX-License-Identifier: Apache-2.0
#include "emit/recipe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "stream/file/file.h"

namespace lowtide::emit {
namespace {

namespace step = stream::step;
using stream::Recipe;

constexpr size_t kShownSteps = 12;

std::string_view unary_name(stream::Unary op) {
  using stream::Unary;
  switch (op) {
    case Unary::kNeg:
      return "negated";
    case Unary::kSqrt:
      return "square root";
    case Unary::kRsqrt:
      return "reciprocal square root";
    case Unary::kReciprocal:
      return "reciprocal";
    default:
      return "a function of each element";
  }
}

std::string_view binary_name(stream::Binary op) {
  using stream::Binary;
  switch (op) {
    case Binary::kAdd:
      return "added";
    case Binary::kSub:
      return "subtracted";
    case Binary::kMul:
      return "multiplied";
    case Binary::kDiv:
      return "divided";
    default:
      return "combined";
  }
}

// The operand that the words follow: the one with the most elements.
const Recipe& main_operand(const Recipe& recipe) {
  return **std::max_element(recipe.from.begin(), recipe.from.end(),
                            [](const auto& a, const auto& b) { return a->elements() < b->elements(); });
}

std::string scales(size_t count) { return count == 1 ? "one scale" : fmt::format("{} scales", count); }

struct StepText {
  const Recipe& recipe;
  std::string typed() const {
    return fmt::format("{}{}", stream::dtype_name(recipe.dtype), stream::to_string(recipe.dims));
  }
  std::string operator()(const step::Stored& s) const {
    const std::string name = std::filesystem::path(s.source->name()).filename().string();
    if (s.file_runs.size() == 1) return fmt::format("{} from {} at byte {}", typed(), name, s.file_runs[0].offset);
    return fmt::format("{} from {} in {} parts", typed(), name, s.file_runs.size());
  }
  std::string operator()(const step::Inline&) const { return fmt::format("{} computed at conversion", typed()); }
  std::string operator()(const step::Fill&) const { return fmt::format("{} of equal elements", typed()); }
  std::string operator()(const step::Iota&) const { return fmt::format("{} of ascending numbers", typed()); }
  std::string operator()(const step::Permute& s) const {
    return fmt::format("axes permuted to {}", fmt::join(s.perm, ","));
  }
  std::string operator()(const step::Reshape&) const { return "reshaped to " + stream::to_string(recipe.dims); }
  std::string operator()(const step::Cast&) const {
    return fmt::format("cast to {}", stream::dtype_name(recipe.dtype));
  }
  std::string operator()(const step::Slice&) const { return "sliced to " + stream::to_string(recipe.dims); }
  std::string operator()(const step::Concat& s) const {
    return fmt::format("joined with {} others along axis {}", recipe.from.size() - 1, s.axis);
  }
  std::string operator()(const step::Broadcast&) const { return "broadcast to " + stream::to_string(recipe.dims); }
  std::string operator()(const step::Pad&) const { return "padded to " + stream::to_string(recipe.dims); }
  std::string operator()(const step::Gather& s) const {
    return fmt::format("{} indices taken along axis {}", s.indices.size(), s.axis);
  }
  std::string operator()(const step::Unary& s) const { return std::string(unary_name(s.op)); }
  std::string operator()(const step::Binary& s) const {
    const Recipe& main = main_operand(recipe);
    const Recipe& other = recipe.from[0].get() == &main ? *recipe.from[1] : *recipe.from[0];
    return fmt::format("{} with a constant {}", binary_name(s.op), stream::to_string(other.dims));
  }
  std::string operator()(const step::Select&) const { return "selected by a condition"; }
  std::string operator()(const step::Quantize& s) const {
    return fmt::format("quantized to {} with {}", stream::dtype_name(recipe.dtype), scales(s.scale.size()));
  }
  std::string operator()(const step::Dequantize& s) const {
    return fmt::format("dequantized with {}", scales(s.scale.size()));
  }
  std::string operator()(const step::Reduce& s) const {
    return fmt::format("reduced over axes {}", fmt::join(s.axes, ","));
  }
};

}  // namespace

std::string recipe_text(const Recipe& recipe) {
  std::vector<std::string> steps;
  const Recipe* at = &recipe;
  for (;; at = &main_operand(*at)) {
    steps.push_back(std::visit(StepText{*at}, at->step));
    if (at->from.empty()) break;
  }
  std::reverse(steps.begin(), steps.end());
  if (steps.size() > kShownSteps) {
    const size_t hidden = steps.size() - kShownSteps;
    steps.resize(kShownSteps);
    steps.push_back(fmt::format("and {} more steps", hidden));
  }
  if (steps.size() == 1 && std::holds_alternative<step::Stored>(recipe.step)) steps.emplace_back("unchanged");
  return fmt::format("{}", fmt::join(steps, ", "));
}

stream::DType type_in_file(const Recipe& recipe) {
  const Recipe* at = &recipe;
  while (!at->from.empty()) at = &main_operand(*at);
  return std::holds_alternative<step::Stored>(at->step) ? at->dtype : stream::DType::kUndefined;
}

}  // namespace lowtide::emit
