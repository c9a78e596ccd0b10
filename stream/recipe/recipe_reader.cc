// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/recipe_reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <variant>

#include "stream/error.h"
#include "stream/recipe/elementwise.h"
#include "stream/recipe/step_reader.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kTileBytes = 256 * 1024;      // stays in the second-level cache
constexpr uint64_t kMinTileBytes = 4 * 1024;     // slow, but right
constexpr uint64_t kAlignment = 64;              // tiles begin on a cache line
constexpr uint64_t kPackedAtOnce = 1024 * 1024;  // elements: a transposed matrix is read in strips of as many rows

uint64_t tile_bytes(const Needs& needs, const Budget& budget) {
  if (needs.tiles == 0) return kMinTileBytes;
  uint64_t wanted = std::min(needs.largest, kTileBytes);
  // Half of what is left, so that the next in line has something too.
  uint64_t most =
      std::max((budget.available() - std::min(budget.available(), needs.kept)) / 2 / needs.tiles, kMinTileBytes);
  return std::max(std::min(wanted, most) / kAlignment * kAlignment, uint64_t{16} * kAlignment);
}

Needs with_packing(Needs needs, DType dtype) {
  if (bits(dtype) < 8) ++needs.tiles;
  return needs;
}

void check_small(const Recipe& recipe) {
  if (!is_small(recipe)) throw Error(Code::kInternal, "a large constant is evaluated early");
}

// Reads a box by way of mapped windows, none of which stays open. What a window could not give is an error, and so is
// what was computed from the zeros in its place.
void read_box(StepReader& reader, Scratch& scratch, const Box& box, std::byte* out) {
  try {
    reader.read(box, out);
  } catch (const Error&) {
    scratch.close_window();
    throw;
  }
  scratch.close_window();
}

}  // namespace

// The flat range is a box of the tensor reshaped to one axis.
struct RecipeReader::Impl {
  Impl(const RecipeRef& original, Budget& budget)
      : dims(original->dims),
        recipe(recipe::reshape(original, {static_cast<int64_t>(original->elements())})),
        needs(with_packing(needs_of(*recipe), recipe->dtype)),
        scratch(budget, needs.tiles, tile_bytes(needs, budget), needs.kept),
        reader(make_reader(*recipe, scratch)),
        owner(budget) {}

  void read_box(uint64_t first, uint64_t count, std::byte* out) {
    stream::read_box(*reader, scratch, {{static_cast<int64_t>(first)}, {static_cast<int64_t>(count)}}, out);
  }
  // Vector instructions may demand what the language promises them: lanes at multiples of their size. `most` elements
  // fit the tile.
  void read_misaligned(uint64_t first, uint64_t count, uint64_t most, std::byte* out) {
    if (aligned.size() == 0) aligned = owner.take(kTileBytes, "aligning elements");
    auto lane = static_cast<uint64_t>(lane_bytes(recipe->dtype));
    for (uint64_t part; count > 0; first += part, count -= part, out += part * lane) {
      part = std::min(count, most);
      read_box(first, part, aligned.data());
      std::memcpy(out, aligned.data(), part * lane);
    }
  }

  Shape dims;
  RecipeRef recipe;
  Needs needs;
  Scratch scratch;
  StepReaderRef reader;
  Budget& owner;
  Budget::Lease aligned, unpacked;  // taken when they are first needed
};

RecipeReader::RecipeReader(const RecipeRef& recipe, Budget& budget) : impl_(std::make_unique<Impl>(recipe, budget)) {}
RecipeReader::~RecipeReader() = default;

void RecipeReader::read(uint64_t first, uint64_t count, std::byte* lanes) {
  uint64_t elements = impl_->recipe->elements();
  if (first > elements || count > elements - first) throw Error(Code::kInternal, "a read beyond the end of a tensor");
  if (count == 0) return;
  auto lane = static_cast<uint64_t>(lane_bytes(impl_->recipe->dtype));
  bool aligned = reinterpret_cast<uintptr_t>(lanes) % std::min<uint64_t>(lane, alignof(uint64_t)) == 0;
  aligned ? impl_->read_box(first, count, lanes) : impl_->read_misaligned(first, count, good_count(kTileBytes), lanes);
}

void RecipeReader::read_file_bytes(uint64_t first, uint64_t count, std::byte* out) {
  DType dtype = impl_->recipe->dtype;
  if (bits(dtype) >= 8) return read(first, count, out);
  auto per_byte = static_cast<uint64_t>(8 / bits(dtype));
  if (first % per_byte != 0) throw Error(Code::kInternal, "a read from the middle of a byte");
  // A tile holds a whole number of bytes of any packed type; what is larger is taken where there is room for it.
  const uint64_t wanted = std::min(count, kPackedAtOnce);
  if (impl_->unpacked.size() < wanted && wanted > impl_->scratch.tile_bytes()) {
    impl_->unpacked = {};
    if (impl_->owner.available() >= 2 * wanted) impl_->unpacked = impl_->owner.take(wanted, "packing elements");
  }
  Tile tile(impl_->scratch);
  const bool large = impl_->unpacked.size() > impl_->scratch.tile_bytes();
  std::byte* lanes = large ? impl_->unpacked.data() : tile.data();
  const uint64_t most = large ? impl_->unpacked.size() / kAlignment * kAlignment : impl_->scratch.tile_bytes();
  for (uint64_t part; count > 0; first += part, count -= part, out += part / per_byte) {
    part = std::min(count, most);
    read(first, part, lanes);
    elementwise::pack(dtype, lanes, out, part);
  }
}

uint64_t RecipeReader::good_count(uint64_t bytes) const {
  uint64_t elements = impl_->recipe->elements();
  auto lane = static_cast<uint64_t>(lane_bytes(impl_->recipe->dtype));
  uint64_t most = std::max<uint64_t>(bytes / lane, 1);
  if (most >= elements) return elements;
  uint64_t row = 1;  // whole inner axes
  for (size_t i = impl_->dims.size(); i-- > 0;) {
    auto extent = static_cast<uint64_t>(impl_->dims[i]);
    if (row > most / extent) break;
    row *= extent;
  }
  // Packed types and other readers want whole bytes and cache lines where rows are odd.
  auto per_byte = static_cast<uint64_t>(bits(impl_->recipe->dtype) < 8 ? 8 / bits(impl_->recipe->dtype) : 1);
  uint64_t unit = std::lcm(row, per_byte);
  if (unit > most) unit = per_byte;
  return std::min(std::max(most / unit, uint64_t{1}) * unit, elements);
}

struct BoxReader::Impl {
  Impl(RecipeRef original, Budget& budget)
      : recipe(std::move(original)),
        needs(needs_of(*recipe)),
        scratch(budget, needs.tiles, tile_bytes(needs, budget), needs.kept),
        reader(make_reader(*recipe, scratch)) {}

  RecipeRef recipe;
  Needs needs;
  Scratch scratch;
  StepReaderRef reader;
};

BoxReader::BoxReader(RecipeRef recipe, Budget& budget) : impl_(std::make_unique<Impl>(std::move(recipe), budget)) {}
BoxReader::~BoxReader() = default;

void BoxReader::read(const Box& box, std::byte* lanes) { read_box(*impl_->reader, impl_->scratch, box, lanes); }

uint64_t least_scratch(const Recipe& recipe) {
  const Needs needs = with_packing(needs_of(recipe), recipe.dtype);
  return needs.tiles * kMinTileBytes + needs.kept;
}

bool is_small(const Recipe& recipe) { return recipe.elements() <= kSmallElements; }

std::vector<std::byte> evaluate(const RecipeRef& recipe, Budget& budget) {
  check_small(*recipe);
  std::vector<std::byte> lanes(recipe->elements() * static_cast<uint64_t>(lane_bytes(recipe->dtype)));
  RecipeReader(recipe, budget).read(0, recipe->elements(), lanes.data());
  return lanes;
}

namespace {

template <typename T>
std::vector<T> evaluate_as(const RecipeRef& recipe, DType dtype, Budget& budget) {
  check_small(*recipe);
  std::vector<T> out(recipe->elements());
  auto* lanes = reinterpret_cast<std::byte*>(out.data());
  // Most are lists of axes and extents, and a reader costs more than all of their elements.
  if (const auto* known = std::get_if<step::Inline>(&recipe->step); known && elementwise::castable(recipe->dtype)) {
    elementwise::cast(recipe->dtype, dtype, known->lanes.data(), lanes, out.size());
  } else {
    RecipeReader(recipe::cast(recipe, dtype), budget).read(0, out.size(), lanes);
  }
  return out;
}

}  // namespace

std::vector<int64_t> evaluate_ints(const RecipeRef& recipe, Budget& budget) {
  if (!is_integer(recipe->dtype) && recipe->dtype != DType::kBool)
    throw Error(Code::kInternal, "integers of a constant that holds none");
  return evaluate_as<int64_t>(recipe, DType::kInt64, budget);
}

std::vector<double> evaluate_doubles(const RecipeRef& recipe, Budget& budget) {
  return evaluate_as<double>(recipe, DType::kFloat64, budget);
}

}  // namespace lowtide::stream
