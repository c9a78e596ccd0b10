// SPDX-License-Identifier: Apache-2.0
#include "layout/weights/stored_halves.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "stream/recipe/elementwise.h"

namespace lowtide::layout {
namespace {

using stream::DType;
using stream::Recipe;
using stream::RecipeRef;
namespace recipe = stream::recipe;
namespace step = stream::step;

bool is_widened_half(const Recipe& r) {
  return std::holds_alternative<step::Cast>(r.step) && r.dtype == DType::kFloat32 &&
         r.from[0]->dtype == DType::kFloat16;
}

// f32 lanes as f16 lanes; empty when one of them is no f16 number.
std::vector<std::byte> exact_halves(const std::vector<std::byte>& floats) {
  const size_t count = floats.size() / sizeof(float);
  std::vector<std::byte> halves(count * 2), back(floats.size());
  stream::elementwise::cast(DType::kFloat32, DType::kFloat16, floats.data(), halves.data(), count);
  stream::elementwise::cast(DType::kFloat16, DType::kFloat32, halves.data(), back.data(), count);
  if (back != floats) halves.clear();
  return halves;
}

// Rebuilds an f32 recipe on f16 elements. A recipe that is used twice is rebuilt once.
class OnHalves {
 public:
  // Null when the elements are not exact in f16.
  RecipeRef rebuilt(const RecipeRef& r) {
    if (auto known = known_.find(r.get()); known != known_.end()) return known->second;
    RecipeRef made = is_widened_half(*r) ? r->from[0] : moved(r);
    known_.emplace(r.get(), made);
    return made;
  }

 private:
  RecipeRef moved(const RecipeRef& r) {
    if (r->from.empty()) return leaf(*r);
    if (const auto* s = std::get_if<step::Concat>(&r->step)) {
      std::vector<RecipeRef> parts;
      for (const RecipeRef& part : r->from) {
        parts.push_back(rebuilt(part));
        if (!parts.back()) return nullptr;
      }
      return recipe::concat(std::move(parts), s->axis);
    }
    const bool moves = std::holds_alternative<step::Permute>(r->step) ||
                       std::holds_alternative<step::Reshape>(r->step) || std::holds_alternative<step::Slice>(r->step) ||
                       std::holds_alternative<step::Broadcast>(r->step) || std::holds_alternative<step::Pad>(r->step) ||
                       std::holds_alternative<step::Gather>(r->step);
    const RecipeRef input = moves ? rebuilt(r->from[0]) : nullptr;
    return input ? one_input(*r, input) : nullptr;
  }

  static RecipeRef one_input(const Recipe& r, const RecipeRef& input) {
    if (const auto* s = std::get_if<step::Permute>(&r.step)) return recipe::permute(input, s->perm);
    if (const auto* s = std::get_if<step::Slice>(&r.step)) return recipe::slice(input, s->begin, r.dims, s->stride);
    if (const auto* s = std::get_if<step::Gather>(&r.step)) return recipe::gather(input, s->axis, s->indices);
    if (const auto* s = std::get_if<step::Pad>(&r.step)) {
      std::vector<std::byte> lane = exact_halves(s->lane);
      if (lane.empty()) return nullptr;
      std::vector<int64_t> after(r.dims.size());
      for (size_t i = 0; i < after.size(); ++i) after[i] = r.dims[i] - input->dims[i] - s->before[i];
      return recipe::pad(input, s->before, after, std::move(lane));
    }
    return std::holds_alternative<step::Reshape>(r.step) ? recipe::reshape(input, r.dims)
                                                         : recipe::broadcast(input, r.dims);
  }

  // Constants that were computed while the graph was laid out, and single values.
  static RecipeRef leaf(const Recipe& r) {
    const auto* fill = std::get_if<step::Fill>(&r.step);
    const auto* lanes = std::get_if<step::Inline>(&r.step);
    if (r.dtype != DType::kFloat32 || (!fill && !lanes) || r.elements() == 0) return nullptr;
    std::vector<std::byte> halves = exact_halves(fill ? fill->lane : lanes->lanes);
    if (halves.empty()) return nullptr;
    return fill ? recipe::fill(std::move(halves), DType::kFloat16, r.dims)
                : recipe::inline_lanes(std::move(halves), DType::kFloat16, r.dims);
  }

  std::unordered_map<const Recipe*, RecipeRef> known_;
};

}  // namespace

bool reads_halves(const RecipeRef& weight) {
  std::unordered_set<const Recipe*> seen;
  std::vector<const Recipe*> open{weight.get()};
  while (!open.empty()) {
    const Recipe* r = open.back();
    open.pop_back();
    if (!seen.insert(r).second) continue;
    if (is_widened_half(*r)) return true;
    for (const RecipeRef& input : r->from) open.push_back(input.get());
  }
  return false;
}

RecipeRef stored_halves(const RecipeRef& weight) { return reads_halves(weight) ? OnHalves().rebuilt(weight) : nullptr; }

}  // namespace lowtide::layout
