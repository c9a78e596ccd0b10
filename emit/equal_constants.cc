// SPDX-License-Identifier: Apache-2.0
#include "emit/equal_constants.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emit/verify.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::emit {
namespace {

using stream::RecipeRef;

// Recipes of one type and number of elements, where there are several: each once, in the order of the graphs.
std::vector<std::vector<RecipeRef>> candidates(const core::Model& model) {
  std::map<std::pair<stream::DType, uint64_t>, std::vector<RecipeRef>> groups;
  std::unordered_set<const stream::Recipe*> seen;
  for (const auto& graph : model.graphs)
    for (const core::Value& value : graph->values)
      if (value.constant && value.constant->bytes() > 0 && seen.insert(value.constant.get()).second)
        groups[{value.constant->dtype, value.constant->elements()}].push_back(value.constant);
  std::vector<std::vector<RecipeRef>> out;
  for (auto& [type, group] : groups)
    if (group.size() > 1) out.push_back(std::move(group));
  return out;
}

}  // namespace

uint64_t least_for_equal_constants(const core::Model& model) {
  uint64_t scratch = 0;
  for (const auto& group : candidates(model))
    for (const RecipeRef& recipe : group) scratch = std::max(scratch, stream::least_scratch(*recipe));
  return least_for_comparing(2 * scratch);
}

EqualConstants find_equal_constants(core::Model& model, stream::Budget& budget, stream::Progress* progress) {
  const auto groups = candidates(model);
  uint64_t bytes = 0;
  for (const auto& group : groups) bytes += group.size() * group[0]->bytes();
  if (progress) progress->begin("comparing", bytes);
  EqualConstants out;
  for (const auto& group : groups) {
    std::map<std::string, std::vector<RecipeRef>> with_digest;  // constants that differ from each other
    for (const RecipeRef& recipe : group) {
      std::vector<RecipeRef>& others = with_digest[digest_of(recipe, budget, progress)];
      auto equal = std::find_if(others.begin(), others.end(), [&](const RecipeRef& other) {
        return !compare_constants(other, recipe, budget, nullptr).difference;
      });
      if (equal == others.end()) {
        others.push_back(recipe);
        continue;
      }
      model.stored_with.emplace(recipe.get(), equal->get());
      ++out.constants;
      out.bytes += recipe->bytes();
    }
  }
  return out;
}

}  // namespace lowtide::emit
