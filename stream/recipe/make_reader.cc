// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "stream/recipe/elementwise.h"
#include "stream/recipe/recipe_cost.h"
#include "stream/recipe/step_reader.h"
#include "stream/recipe/step_readers.h"

namespace lowtide::stream {
namespace {

class InlineReader : public StepReader {
 public:
  InlineReader(const Recipe& recipe, const step::Inline& step) : StepReader(recipe), lanes_(step.lanes) {}
  void read(const Box& box, std::byte* out) override { copy_runs(box, lanes_.data(), out); }

 private:
  const std::vector<std::byte>& lanes_;
};

class FillReader : public StepReader {
 public:
  FillReader(const Recipe& recipe, const step::Fill& step) : StepReader(recipe), value_(step.lane) {}
  void read(const Box& box, std::byte* out) override { fill_lanes(value_, out, box.elements()); }

 private:
  const std::vector<std::byte>& value_;
};

class IotaReader : public StepReader {
 public:
  IotaReader(const Recipe& recipe, const step::Iota& step)
      : StepReader(recipe), start_(static_cast<uint64_t>(step.start)), delta_(static_cast<uint64_t>(step.delta)) {}
  void read(const Box& box, std::byte* out) override {
    for_each_run(box, dims_, [&](uint64_t first, uint64_t count) {
      for (uint64_t i = first; i < first + count; ++i, out += lane_) {
        uint64_t value = start_ + i * delta_;
        elementwise::cast(DType::kInt64, dtype_, reinterpret_cast<const std::byte*>(&value), out, 1);
      }
    });
  }

 private:
  uint64_t start_, delta_;
};

// A result that is worked out whole at the first read.
class KeptReader : public StepReader {
 public:
  KeptReader(const Recipe& recipe, StepReaderRef input, std::byte* lanes)
      : StepReader(recipe), input_(std::move(input)), lanes_(lanes) {}
  void read(const Box& box, std::byte* out) override {
    if (input_) {
      input_->read(whole(dims_), lanes_);
      input_.reset();
    }
    copy_runs(box, lanes_, out);
  }

 private:
  StepReaderRef input_;  // null when it has been read
  std::byte* lanes_;
};

uint64_t size_in_lanes(const Recipe& recipe) {
  return checked_mul(recipe.elements(), static_cast<uint64_t>(lane_bytes(recipe.dtype)));
}

// Places of kept results are whole cache lines.
uint64_t kept_bytes(const Recipe& recipe) { return (size_in_lanes(recipe) + 63) / 64 * 64; }

Needs collect_needs(const Recipe& recipe, std::unordered_map<const Recipe*, Needs>& known) {
  auto found = known.find(&recipe);
  if (found != known.end()) return {found->second.tiles, found->second.largest, 0};
  Needs needs{0, size_in_lanes(recipe), 0};
  for (const RecipeRef& input : recipe.from) {
    Needs inner = collect_needs(*input, known);
    needs.tiles = std::max(needs.tiles, inner.tiles);
    needs.largest = std::max(needs.largest, inner.largest);
    needs.kept += inner.kept + (recipe::is_kept(recipe, *input) ? kept_bytes(*input) : 0);
  }
  needs.tiles += std::visit([](const auto& step) { return tiles_held<std::decay_t<decltype(step)>>(); }, recipe.step);
  return known[&recipe] = needs;
}

class Builder {
 public:
  explicit Builder(Scratch& scratch) : scratch_(scratch) {}
  StepReaderRef build(const Recipe& recipe) {
    StepReaderRef& reader = built_[&recipe];
    if (reader) return reader;
    StepReaders from;
    for (const RecipeRef& input : recipe.from) {
      from.push_back(build(*input));
      if (recipe::is_kept(recipe, *input))
        from.back() = std::make_shared<KeptReader>(*input, from.back(), scratch_.keep(kept_bytes(*input)));
    }
    return reader = std::visit([&](const auto& step) { return make_step_reader(recipe, step, from, scratch_); },
                               recipe.step);
  }

 private:
  Scratch& scratch_;
  std::unordered_map<const Recipe*, StepReaderRef> built_;
};

}  // namespace

const std::byte* Scratch::window(const Source& source, uint64_t offset, uint64_t bytes) {
  if (!window_.holds(source, offset, bytes)) {
    close_window();
    window_ = source.window(offset, bytes, budget_);
    if (!window_) return nullptr;
  }
  return window_.data() + (offset - window_.begin());
}

void Scratch::close_window() {
  Window closed;
  std::swap(closed, window_);
  closed.check();
}

void fill_lanes(const std::vector<std::byte>& lane, std::byte* out, uint64_t count) {
  uint64_t filled = lane.size(), bytes = count * lane.size();
  if (bytes == 0) return;
  std::memcpy(out, lane.data(), lane.size());
  constexpr uint64_t kMostAtOnce = 16 * 1024;  // copy what is still in the first cache
  for (uint64_t part; filled < bytes; filled += part) {
    part = std::min({filled, bytes - filled, kMostAtOnce / lane.size() * lane.size()});
    std::memcpy(out + filled, out, part);
  }
}

Box operand_box(const Box& box, const Shape& dims) {
  Box part = box;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 1) {
      part.begin[i] = 0;
      part.size[i] = 1;
    }
  return part;
}

StepReader::StepReader(const Recipe& recipe)
    : dims_(recipe.dims), dtype_(recipe.dtype), lane_(lane_bytes(recipe.dtype)) {}

const std::byte* StepReader::lanes(const Box& box, std::byte* tile) {
  const std::byte* viewed = view(box);
  if (viewed != nullptr && reinterpret_cast<uintptr_t>(viewed) % static_cast<uintptr_t>(std::min(lane_, 8)) == 0)
    return viewed;
  read(box, tile);
  return tile;
}

void StepReader::copy_runs(const Box& box, const std::byte* lanes, std::byte* out) const {
  for_each_run(box, dims_, [&](uint64_t first, uint64_t count) {
    uint64_t bytes = count * static_cast<uint64_t>(lane_);
    std::memcpy(out, lanes + first * static_cast<uint64_t>(lane_), bytes);
    out += bytes;
  });
}

Needs needs_of(const Recipe& recipe) {
  std::unordered_map<const Recipe*, Needs> known;
  return collect_needs(recipe, known);
}

StepReaderRef make_reader(const Recipe& recipe, Scratch& scratch) { return Builder(scratch).build(recipe); }

StepReaderRef make_step_reader(const Recipe& recipe, const step::Inline& step, const StepReaders&, Scratch&) {
  return std::make_shared<InlineReader>(recipe, step);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Fill& step, const StepReaders&, Scratch&) {
  return std::make_shared<FillReader>(recipe, step);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Iota& step, const StepReaders&, Scratch&) {
  return std::make_shared<IotaReader>(recipe, step);
}

}  // namespace lowtide::stream
