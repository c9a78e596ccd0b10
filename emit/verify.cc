// SPDX-License-Identifier: Apache-2.0
#include "emit/verify.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "stream/error.h"
#include "stream/printable.h"
#include "stream/progress.h"
#include "stream/recipe/blocks.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::emit {
namespace {

using stream::Code;
using stream::Error;

// Large enough for fast reads; recipes take tiles in addition.
constexpr uint64_t kMaxWindow = uint64_t{1} << 20;
constexpr uint64_t kMinWindow = uint64_t{64} << 10;

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

class Digest {
 public:
  Digest() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }
  void add(const std::byte* bytes, uint64_t count) { XXH3_128bits_update(state_.get(), bytes, count); }
  std::string hexadecimal() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

std::optional<uint64_t> first_difference(const std::byte* a, const std::byte* b, uint64_t bytes) {
  if (std::memcmp(a, b, bytes) == 0) return std::nullopt;
  return static_cast<uint64_t>(std::mismatch(a, a + bytes, b).first - a);
}

// Two windows of equal size.
struct Windows {
  stream::Budget::Lease here, there;
};

// The first byte that differs from the recipe. For matrices that are written in blocks.
std::optional<uint64_t> difference_in_blocks(const stream::Blocks& blocks, const stream::RecipeRef& written,
                                             const Windows& windows, stream::Budget& budget) {
  const stream::Shape& dims = blocks.recipe->dims;
  stream::BoxReader recipe(blocks.recipe, budget), file(stream::recipe::reshape(written, dims), budget);
  const auto lane = static_cast<uint64_t>(stream::lane_bytes(written->dtype));
  std::optional<uint64_t> first_of_all;
  for (uint64_t i = 0; i < blocks.count(); ++i) {
    const stream::Box box = blocks.at(i);
    recipe.read(box, windows.here.data());
    file.read(box, windows.there.data());
    if (!first_difference(windows.here.data(), windows.there.data(), box.elements() * lane)) continue;
    uint64_t row = 0;  // its offset in the windows
    stream::for_each_run(box, dims, [&](uint64_t first, uint64_t count) {
      if (auto at = first_difference(windows.here.data() + row, windows.there.data() + row, count * lane))
        first_of_all = std::min(first_of_all.value_or(UINT64_MAX), first * lane + *at);
      row += count * lane;
    });
  }
  return first_of_all;
}

}  // namespace

std::string digest_line(const VerifiedTensor& tensor) {
  return stream::printable(fmt::format("{} {:>12} {}", tensor.digest, tensor.bytes, tensor.tensor)) + "\n";
}

VerifiedTensor compare_constants(const stream::RecipeRef& expected, const stream::RecipeRef& written,
                                 stream::Budget& budget, Progress* progress) {
  const uint64_t elements = written->elements();
  if (expected->elements() != elements || expected->dtype != written->dtype)
    throw Error(Code::kInternal, "compare_constants was called with different types or shapes");
  VerifiedTensor out;
  out.bytes = written->bytes();
  const uint64_t window = std::clamp(budget.available() / 8 / 4096 * 4096, kMinWindow, kMaxWindow);
  const Windows windows{budget.take(window, "verifying"), budget.take(window, "verifying")};
  const auto blocks = stream::blocks_of(expected, window);
  if (blocks) out.difference = difference_in_blocks(*blocks, written, windows, budget);

  Digest digest;
  std::optional<stream::RecipeReader> recipe;  // takes tiles first: it may need most of the budget
  if (!blocks) recipe.emplace(expected, budget);
  stream::RecipeReader file(written, budget);
  const uint64_t step = (recipe ? *recipe : file).good_count(window / 2);
  for (uint64_t first = 0; first < elements; first += step) {
    const uint64_t count = std::min(step, elements - first), bytes = stream::file_bytes(written->dtype, count);
    file.read_file_bytes(first, count, windows.there.data());
    digest.add(windows.there.data(), bytes);
    if (recipe && !out.difference) {
      recipe->read_file_bytes(first, count, windows.here.data());
      if (auto at = first_difference(windows.here.data(), windows.there.data(), bytes))
        out.difference = stream::file_bytes(written->dtype, first) + *at;
    }
    if (progress) progress->advance(bytes);
  }
  out.digest = digest.hexadecimal();
  return out;
}

std::string digest_of(const stream::RecipeRef& constant, stream::Budget& budget, Progress* progress) {
  const uint64_t window = std::clamp(budget.available() / 8 / 4096 * 4096, kMinWindow, kMaxWindow);
  const auto bytes = budget.take(window, "comparing");
  stream::RecipeReader recipe(constant, budget);
  const uint64_t elements = constant->elements(), step = recipe.good_count(window / 2);
  Digest digest;
  for (uint64_t first = 0; first < elements; first += step) {
    const uint64_t count = std::min(step, elements - first), here = stream::file_bytes(constant->dtype, count);
    recipe.read_file_bytes(first, count, bytes.data());
    digest.add(bytes.data(), here);
    if (progress) progress->advance(here);
  }
  return digest.hexadecimal();
}

std::optional<uint64_t> header_difference(const Plan& plan, const stream::Source& file) {
  std::array<std::byte, 16 * 1024> window;
  const uint64_t both = std::min<uint64_t>(plan.header.size(), file.size());
  for (uint64_t at = 0; at < both;) {
    auto part = std::span(window).first(std::min<uint64_t>(window.size(), both - at));
    file.read_at(at, part);
    if (const auto differs = first_difference(part.data(), plan.header.data() + at, part.size())) return at + *differs;
    at += part.size();
  }
  if (both < plan.header.size()) return both;
  return std::nullopt;
}

bool has_header_of(const Plan& plan, const stream::Source& file) {
  return file.size() == plan.file_bytes && !header_difference(plan, file);
}

uint64_t least_for_comparing(uint64_t scratch) {
  constexpr uint64_t kStored = 64 * 1024;  // tiles for reading back, and rounding to pages
  const uint64_t tiles = scratch + kStored;
  return std::max(tiles / 3 * 4, tiles + 2 * kMinWindow);
}

uint64_t least_for_verifying(const Plan& plan) { return least_for_comparing(least_scratch(plan)); }

void verify_payloads(const Plan& plan, const std::shared_ptr<stream::Source>& written, stream::Budget& budget,
                     Progress* progress, const OnVerified& on_verified) {
  if (!has_header_of(plan, *written))
    throw Error(Code::kMalformed, "the size or the header of the file differs from the plan",
                {.file = written->name()});
  if (progress) progress->begin("verifying", plan.payload_bytes);
  for (const Payload& payload : plan.payloads) {
    const stream::Recipe& recipe = *payload.recipe;
    stream::RecipeRef stored = stream::recipe::stored(
        written, {{.offset = payload.position, .bytes = payload.bytes, .elements = recipe.elements()}}, recipe.dtype,
        recipe.dims);
    VerifiedTensor verified = compare_constants(payload.recipe, stored, budget, progress);
    verified.tensor = payload.tensor;
    on_verified(verified);
  }
}

}  // namespace lowtide::emit
