// SPDX-License-Identifier: Apache-2.0
// The recipes that everything begins with: runs of files, and constants.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/recipe/elementwise.h"
#include "stream/recipe/recipe_cost.h"
#include "stream/recipe/recipe_step.h"

namespace lowtide::stream::recipe {
namespace {

using Lane = std::vector<std::byte>;

Where place(const Source& source, uint64_t offset) {
  Where where;
  where.file = source.name();
  where.offset = offset;
  return where;
}

void check_file_run(const Source& source, const FileRun& file_run, DType dtype) {
  uint64_t end = checked_add(file_run.offset, file_run.bytes);
  auto refuse = [&](std::string text) {
    throw Error(Code::kMalformed, std::move(text), place(source, file_run.offset));
  };
  if (end > source.size())
    refuse(fmt::format("{} bytes of tensor data end {} bytes after the end of the file", file_run.bytes,
                       end - source.size()));
  auto per_word = static_cast<uint64_t>(bits(dtype) < 8 ? 8 / bits(dtype) : 1);
  uint64_t words = file_run.elements / per_word + (file_run.elements % per_word != 0);
  uint64_t least = words, most = words;
  switch (file_run.encoding) {
    case Encoding::kRaw:
      least = most = file_bytes(dtype, file_run.elements);
      break;
    case Encoding::kVarint:
      most = checked_mul(words, 10);
      break;
    case Encoding::kTagged:
      least = checked_mul(words, file_run.width ? 1u + file_run.width : 2u);
      most = checked_mul(words, file_run.width ? 1u + file_run.width : 11u);
  }
  if (file_run.bytes < least || file_run.bytes > most)
    refuse(fmt::format("{} bytes of data for {} elements of type {}", file_run.bytes, file_run.elements,
                       dtype_name(dtype)));
  bool fixed = file_run.encoding == Encoding::kTagged && file_run.width != 0;
  if (fixed && (file_run.width < lane_bytes(dtype) || file_run.width > 8))
    refuse(fmt::format("words of {} bytes for elements of type {}", file_run.width, dtype_name(dtype)));
  if (file_run.encoding != Encoding::kRaw && !fixed && lane_bytes(dtype) > 8)
    refuse(fmt::format("varints for elements of type {}", dtype_name(dtype)));
}

Lane lane_of(int64_t value, DType dtype) {
  Lane wide(8), lane(static_cast<size_t>(lane_bytes(dtype)));
  std::memcpy(wide.data(), &value, 8);
  elementwise::cast(DType::kInt64, dtype, wide.data(), lane.data(), 1);
  return lane;
}

}  // namespace

int steps_of(std::span<const RecipeRef> from, bool concatenated) {
  int steps = 0;
  for (const RecipeRef& input : from) steps = concatenated ? std::max(steps, input->steps) : steps + input->steps;
  return steps + 1;
}

RecipeRef make(DType dtype, Shape dims, Step step, std::vector<RecipeRef> from) {
  if (element_count(dims) == 0) {  // nothing to compute, whatever the step
    step = step::Fill{Lane(static_cast<size_t>(lane_bytes(dtype)))};
    from.clear();
  }
  const int steps = steps_of(from, std::holds_alternative<step::Concat>(step));
  if (steps > kMaxSteps)
    throw Error(Code::kUnsupported, fmt::format("a constant is computed by more than {} steps", kMaxSteps));
  auto made = std::make_shared<Recipe>(Recipe{dtype, std::move(dims), std::move(step), std::move(from), steps});
  made->cost = cost_of(*made);
  return made;
}

bool fits(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value == 0 || value == 1;
  if (!is_integer(dtype)) return false;
  int width = bits(dtype);
  if (is_signed_int(dtype))
    return width == 64 || (value >= -(int64_t{1} << (width - 1)) && value < (int64_t{1} << (width - 1)));
  return value >= 0 && (width == 64 || value < (int64_t{1} << width));
}

RecipeRef stored(std::shared_ptr<Source> source, std::vector<FileRun> file_runs, DType dtype, Shape dims) {
  if (lane_bytes(dtype) == 0)
    throw Error(Code::kUnsupported, fmt::format("data of type {} in a file", dtype_name(dtype)));
  uint64_t held = 0;
  for (const FileRun& file_run : file_runs) {
    check_file_run(*source, file_run, dtype);
    held = checked_add(held, file_run.elements);
  }
  if (held != element_count(dims))
    throw Error(Code::kMalformed, fmt::format("{} elements of data for shape {}", held, to_string(dims)),
                place(*source, file_runs.empty() ? 0 : file_runs[0].offset));
  std::erase_if(file_runs, [](const FileRun& file_run) { return file_run.elements == 0; });
  return make(dtype, std::move(dims), step::Stored{std::move(source), std::move(file_runs)});
}

RecipeRef inline_lanes(std::vector<std::byte> lanes, DType dtype, Shape dims) {
  auto lane = static_cast<uint64_t>(lane_bytes(dtype));
  if (lane == 0 || lanes.size() != checked_mul(lane, element_count(dims)))
    throw Error(Code::kInternal,
                fmt::format("{} bytes for shape {} of type {}", lanes.size(), to_string(dims), dtype_name(dtype)));
  return make(dtype, std::move(dims), step::Inline{std::move(lanes)});
}

RecipeRef floats(std::span<const float> elements, Shape dims) {
  return values(elements, DType::kFloat32, std::move(dims));
}

RecipeRef ints(std::span<const int64_t> elements, DType dtype, Shape dims) {
  auto lane = static_cast<size_t>(lane_bytes(dtype));
  std::vector<std::byte> lanes(elements.size() * lane);
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!fits(elements[i], dtype))
      throw Error(Code::kMalformed, fmt::format("{} does not fit type {}", elements[i], dtype_name(dtype)));
    std::memcpy(lanes.data() + i * lane, lane_of(elements[i], dtype).data(), lane);
  }
  return inline_lanes(std::move(lanes), dtype, std::move(dims));
}

RecipeRef fill(std::vector<std::byte> lane, DType dtype, Shape dims) {
  if (lane.empty() || lane.size() != static_cast<size_t>(lane_bytes(dtype)))
    throw Error(Code::kInternal, fmt::format("{} bytes for an element of type {}", lane.size(), dtype_name(dtype)));
  element_count(dims);
  return make(dtype, std::move(dims), step::Fill{std::move(lane)});
}

RecipeRef fill_value(double value, DType dtype, Shape dims) {
  bool whole_number = is_integer(dtype) || dtype == DType::kBool;
  if (whole_number) {
    // 2^63 and above are u64 only; lanes of u64 are the low bits of an i64 all the same.
    bool top = dtype == DType::kUint64 && value >= 0x1p63 && value < 0x1p64 && value == std::floor(value);
    bool inside = value >= -0x1p63 && value < 0x1p63 && value == std::floor(value);
    if (!top && !(inside && fits(static_cast<int64_t>(value), dtype))) {
      // A whole number may be an extent or an attribute of the file; a fraction for an integer is a mistake of ours.
      const Code code = std::isfinite(value) && value == std::floor(value) ? Code::kMalformed : Code::kInternal;
      throw Error(code, fmt::format("{} does not fit type {}", value, dtype_name(dtype)));
    }
    auto number = top ? static_cast<int64_t>(static_cast<uint64_t>(value)) : static_cast<int64_t>(value);
    return fill(lane_of(number, dtype), dtype, std::move(dims));
  }
  Lane lane(static_cast<size_t>(lane_bytes(dtype)));
  elementwise::cast(DType::kFloat64, dtype, reinterpret_cast<const std::byte*>(&value), lane.data(), 1);
  return fill(std::move(lane), dtype, std::move(dims));
}

RecipeRef iota(int64_t start, int64_t delta, DType dtype, int64_t count) {
  if (!is_integer(dtype)) throw Error(Code::kInternal, "a range of a type that is not an integer");
  if (count == 1 || delta == 0) return fill(lane_of(start, dtype), dtype, {count});
  return make(dtype, {count}, step::Iota{start, delta});
}

const step::Stored* raw_stored(const Recipe& recipe) {
  auto* stored = std::get_if<step::Stored>(&recipe.step);
  bool raw = stored && stored->file_runs.size() == 1 && stored->file_runs[0].encoding == Encoding::kRaw;
  return raw ? stored : nullptr;
}

const step::Stored* plain_stored(const Recipe& recipe) {
  return recipe.dtype == DType::kBool ? nullptr : raw_stored(recipe);
}

bool is_cached(const Recipe& recipe) {
  if (const auto* stored = std::get_if<step::Stored>(&recipe.step))
    return std::all_of(stored->file_runs.begin(), stored->file_runs.end(), [&](const FileRun& run) {
      const auto is_here = [&](uint64_t at) { return stored->source->is_cached(run.offset + at); };
      return run.bytes == 0 ||
             (run.encoding == Encoding::kRaw && is_here(0) && is_here(run.bytes / 2) && is_here(run.bytes - 1));
    });
  return std::all_of(recipe.from.begin(), recipe.from.end(), [](const RecipeRef& from) { return is_cached(*from); });
}

}  // namespace lowtide::stream::recipe
