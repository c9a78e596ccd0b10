// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/recipe_cost.h"

#include <algorithm>
#include <cstddef>
#include <variant>

namespace lowtide::stream::recipe {
namespace {

constexpr uint64_t kMostKept = 64 * 1024;

uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
uint64_t times(uint64_t a, uint64_t b) { return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b; }

uint64_t size_in_lanes(const Recipe& recipe) {
  return times(recipe.elements(), static_cast<uint64_t>(lane_bytes(recipe.dtype)));
}

template <typename S>
bool is(const Recipe& recipe) {
  return std::holds_alternative<S>(recipe.step);
}

bool broadcasts(const Recipe& recipe) {
  return is<step::Binary>(recipe) || is<step::Select>(recipe) || is<step::Broadcast>(recipe);
}

// How many elements of the step, one after the other, take the same element of the input: those of a row share what
// was worked out of the row.
uint64_t shared_by(const Recipe& step, const Recipe& input) {
  uint64_t count = 1;
  for (size_t i = step.dims.size(); i-- > 0 && input.dims[i] == 1;) count *= static_cast<uint64_t>(step.dims[i]);
  return std::max<uint64_t>(count, 1);
}

void add_input(Cost& cost, const Recipe& recipe, const Recipe& input) {
  const Cost& of = input.cost;
  cost.once = plus(cost.once, of.once);
  cost.stored = std::max(cost.stored, of.stored);
  if (is<step::Concat>(recipe)) {  // an element is one of one of them
    cost.each = std::max(cost.each, plus(of.each, 1));
    cost.alone = std::max(cost.alone, plus(of.alone, 1));
  } else if (is_kept(recipe, input)) {
    cost.once = plus(cost.once, times(input.elements(), of.each));
    cost.each = plus(cost.each, 1);
    cost.alone = plus(cost.alone, 1);
  } else if (is<step::Reduce>(recipe)) {
    const uint64_t summed = recipe.elements() == 0 ? 0 : input.elements() / recipe.elements();
    cost.each = plus(cost.each, times(of.each, summed));
    cost.alone = plus(cost.alone, times(of.alone, summed));
  } else {
    const bool is_scattered = is<step::Gather>(recipe) || is<step::Slice>(recipe) || is<step::Permute>(recipe);
    const uint64_t each = is_scattered ? of.alone : of.each;
    cost.each = plus(cost.each, broadcasts(recipe) ? each / shared_by(recipe, input) + 1 : each);
    cost.alone = plus(cost.alone, of.alone);
  }
}

}  // namespace

bool is_kept(const Recipe& step, const Recipe& input) {
  return broadcasts(step) && !input.from.empty() && size_in_lanes(input) <= kMostKept &&
         size_in_lanes(step) > kMostKept;
}

Cost cost_of(const Recipe& recipe) {
  Cost cost;
  if (const auto* stored = std::get_if<step::Stored>(&recipe.step))
    for (const FileRun& run : stored->file_runs) cost.stored = plus(cost.stored, run.bytes);
  if (const auto* known = std::get_if<step::Inline>(&recipe.step)) cost.stored = known->lanes.size();
  for (const RecipeRef& input : recipe.from) add_input(cost, recipe, *input);
  return cost;
}

uint64_t work(const Recipe& recipe) { return plus(recipe.cost.once, times(recipe.elements(), recipe.cost.each)); }

}  // namespace lowtide::stream::recipe
