// SPDX-License-Identifier: Apache-2.0
#include "emit/in_place.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "emit/file_names.h"
#include "layout/core/builtin.h"
#include "stream/file/file.h"
#include "stream/recipe/in_place.h"

namespace lowtide::emit {
namespace {

namespace fs = std::filesystem;

// Half of the mappings that Linux allows a process (vm.max_map_count); used for the largest constants.
constexpr size_t kMostInPlace = 32'000;
constexpr uint64_t kSmallestPage = 4096;
// The bytes that XNNPACK may read past the end of a tensor.
constexpr uint64_t kReadPastEnd = 16;

struct Candidate {
  stream::RecipeRef recipe;
  const stream::step::Stored* stored = nullptr;
  bool read_exactly = true;  // no user reads past its end

  uint64_t offset() const { return stored->file_runs[0].offset; }
  uint64_t end() const { return offset() + recipe->bytes(); }
};

// The constants that are stored in files unchanged, each once, in the order of their first use.
std::vector<Candidate> stored_constants(const core::Model& model) {
  std::vector<Candidate> out;
  std::unordered_map<const stream::Recipe*, size_t> index_of;
  auto meet = [&](const core::Value& value, bool exactly) {
    if (!value.constant) return;
    const auto* stored = stream::stored_in_file(*value.constant);
    if (!stored) return;
    auto [it, fresh] = index_of.try_emplace(value.constant.get(), out.size());
    if (fresh) out.push_back({value.constant, stored});
    out[it->second].read_exactly &= exactly;
  };
  for (const auto& graph : model.graphs) {
    for (const core::Op& op : graph->ops)
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i] != core::kAbsent)
          meet(graph->at(op.inputs[i]), core::builtin(op.kind).exact_input == static_cast<int>(i));
    for (core::ValueId id : graph->outputs) meet(graph->at(id), false);
  }
  return out;
}

// The length of the mapping so that all reads of the users are inside; 0 when the file is too short for that.
uint64_t mapped_length(const Candidate& candidate) {
  const uint64_t end = candidate.end(), bytes = candidate.recipe->bytes();
  const uint64_t left_of_page = (kSmallestPage - end % kSmallestPage) % kSmallestPage;
  if (candidate.read_exactly || left_of_page >= kReadPastEnd) return bytes;
  return candidate.stored->source->size() - end >= kReadPastEnd ? bytes + kReadPastEnd : 0;
}

// Keeps the largest candidates, in their order.
void limit(std::vector<Candidate>& candidates) {
  if (candidates.size() <= kMostInPlace) return;
  std::vector<uint64_t> sizes;
  for (const Candidate& candidate : candidates) sizes.push_back(candidate.recipe->bytes());
  std::nth_element(sizes.begin(), sizes.begin() + kMostInPlace - 1, sizes.end(), std::greater<>());
  const uint64_t least = sizes[kMostInPlace - 1];
  auto larger = static_cast<size_t>(std::count_if(sizes.begin(), sizes.end(), [&](uint64_t s) { return s > least; }));
  size_t equal_ones = kMostInPlace - larger;
  std::erase_if(candidates, [&](const Candidate& candidate) {
    const uint64_t bytes = candidate.recipe->bytes();
    if (bytes != least) return bytes < least;
    if (equal_ones == 0) return true;
    --equal_ones;
    return false;
  });
}

// Numbers the files with constants in place.
class Files {
 public:
  Files(const fs::path& folder, Plan& plan) : names_(folder), plan_(plan) {}

  uint32_t index(const stream::Source& source) {
    auto [it, fresh] = index_of_.try_emplace(&source, static_cast<uint32_t>(plan_.files.size()));
    if (fresh) plan_.files.push_back({names_.name(source.path()), 0});
    return it->second;
  }

 private:
  FileNames names_;
  Plan& plan_;
  std::map<const stream::Source*, uint32_t> index_of_;
};

}  // namespace

void choose_in_place(const core::Model& model, const fs::path& folder, Plan& plan) {
  std::vector<Candidate> candidates = stored_constants(model);
  std::erase_if(candidates, [&](const Candidate& candidate) {
    if (stream::stored_in_place(*candidate.recipe)) return mapped_length(candidate) == 0;
    plan.unaligned_bytes += candidate.recipe->bytes();
    return true;
  });
  limit(candidates);
  Files files(folder, plan);
  for (const Candidate& candidate : candidates) {
    const uint32_t file = files.index(*candidate.stored->source);
    plan.files[file].bytes += candidate.recipe->bytes();
    plan.in_place.push_back({candidate.recipe, file, candidate.offset(), mapped_length(candidate)});
  }
}

}  // namespace lowtide::emit
