// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/magnitude.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <optional>

#include "stream/error.h"
#include "stream/file/workers.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kBytesAtOnce = uint64_t{16} << 20;         // what a thread takes at a time
constexpr uint64_t kMeasuredTileBytes = uint64_t{256} << 10;  // stays in the second-level cache
constexpr uint64_t kBytesPerThread = uint64_t{2} << 20;       // a tile, and those of the recipe

// Where only the largest counts, the order does not: what merely moves elements is left out, and the axis is followed
// to where it comes from. So a weight that is transposed for the file is read here as it lies.
RecipeRef unmoved(const RecipeRef& recipe, int& axis) {
  if (const auto* permute = std::get_if<step::Permute>(&recipe->step)) {
    if (axis >= 0) axis = permute->perm[static_cast<size_t>(axis)];
    return unmoved(recipe->from[0], axis);
  }
  if (std::holds_alternative<step::Cast>(recipe->step))
    return recipe::cast(unmoved(recipe->from[0], axis), recipe->dtype);
  if (!std::holds_alternative<step::Reshape>(recipe->step)) return recipe;
  if (axis < 0) return unmoved(recipe->from[0], axis);
  auto before = [](const Shape& dims, size_t at) {
    return element_count({dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(at)});
  };
  const Shape &to = recipe->dims, &from = recipe->from[0]->dims;
  const auto along = static_cast<size_t>(axis);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[along] || before(from, i) != before(to, along)) continue;
    axis = static_cast<int>(i);
    return unmoved(recipe->from[0], axis);
  }
  return recipe;
}

// The bits of positive floats, NaN above all, are in the order of their values.
int32_t magnitude_bits(float x) { return std::bit_cast<int32_t>(x) & 0x7fffffff; }

// Elements [first, first + count) of a tensor whose axis has `most.size()` indices of `inner` elements each.
void scan(const float* in, uint64_t first, uint64_t count, uint64_t inner, std::span<int32_t> most) {
  const uint64_t indices = most.size();
  while (count > 0) {
    const uint64_t index = first / inner % indices;
    // With single elements the run is along the indices, else within one of them.
    const uint64_t run = std::min(count, inner == 1 ? indices - index : inner - first % inner);
    if (inner == 1) {
      int32_t* row = most.data() + index;
      for (uint64_t i = 0; i < run; ++i) row[i] = std::max(row[i], magnitude_bits(in[i]));
    } else {
      int32_t largest = most[index];
      for (uint64_t i = 0; i < run; ++i) largest = std::max(largest, magnitude_bits(in[i]));
      most[index] = largest;
    }
    in += run;
    first += run;
    count -= run;
  }
}

struct Job {
  size_t which;
  uint64_t first, count;
};

class Measuring {
 public:
  Measuring(std::span<Magnitude> all, Progress* progress) : all_(all), progress_(progress) {
    uint64_t bytes = 0;
    for (const Magnitude& one : all) {
      int axis = one.axis;
      inputs_.push_back(unmoved(one.input, axis));
      axes_.push_back(axis);
      most_.emplace_back(axis < 0 ? 1 : static_cast<size_t>(inputs_.back()->dims[static_cast<size_t>(axis)]), 0);
      bytes = checked_add(bytes, one.input->bytes());
    }
    if (progress_) progress_->begin("measuring", bytes);
  }

  void work(Budget& budget) {
    try {
      Budget::Lease tile = budget.take(kMeasuredTileBytes, "measuring weights");
      while (auto job = next()) run(*job, tile, budget);
    } catch (...) {
      std::lock_guard lock(mutex_);
      which_ = inputs_.size();  // nothing is left for the others
      throw;
    }
  }

  void finish() {
    for (size_t i = 0; i < all_.size(); ++i) {
      all_[i].found.resize(most_[i].size());
      std::transform(most_[i].begin(), most_[i].end(), all_[i].found.begin(),
                     [](int32_t bits) { return std::bit_cast<float>(bits); });
      most_[i] = {};  // channels may be many
    }
  }

 private:
  std::optional<Job> next() {
    std::lock_guard lock(mutex_);
    if (which_ == inputs_.size()) return std::nullopt;
    const uint64_t elements = inputs_[which_]->elements();
    const Job job{which_, first_, std::min(kBytesAtOnce / sizeof(float), elements - first_)};
    first_ += job.count;
    if (first_ == elements) {
      ++which_;
      first_ = 0;
    }
    return job;
  }

  void run(const Job& job, Budget::Lease& tile, Budget& budget) {
    const RecipeRef& input = inputs_[job.which];
    uint64_t inner = 1;
    if (axes_[job.which] < 0)
      inner = input->elements();
    else
      for (size_t i = static_cast<size_t>(axes_[job.which]) + 1; i < input->dims.size(); ++i)
        inner *= static_cast<uint64_t>(input->dims[i]);
    std::vector<int32_t> most(most_[job.which].size(), 0);
    RecipeReader reader(input, budget);
    const uint64_t step = std::min(reader.good_count(tile.size()), tile.size() / sizeof(float));
    for (uint64_t done = 0, part; done < job.count; done += part) {
      part = std::min(step, job.count - done);
      reader.read(job.first + done, part, tile.data());
      scan(reinterpret_cast<const float*>(tile.data()), job.first + done, part, inner, most);
      if (progress_) progress_->advance(part * sizeof(float));
    }
    std::lock_guard lock(mutex_);
    std::transform(most.begin(), most.end(), most_[job.which].begin(), most_[job.which].begin(),
                   [](int32_t a, int32_t b) { return std::max(a, b); });
  }

  std::span<Magnitude> all_;
  Progress* progress_;
  std::vector<RecipeRef> inputs_;
  std::vector<int> axes_;
  std::vector<std::vector<int32_t>> most_;
  size_t which_ = 0;    // the input under the hands
  uint64_t first_ = 0;  // its first element that is not dealt out yet
  std::mutex mutex_;
};

}  // namespace

void measure(std::span<Magnitude> all, Budget& budget, int threads, Progress* progress) {
  Measuring measuring(all, progress);
  run_workers(budget, kBytesPerThread, threads, [&](Budget& own) { measuring.work(own); });
  measuring.finish();
}

}  // namespace lowtide::stream
