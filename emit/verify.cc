#include "emit/verify.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "stream/error.h"
#include "stream/pour.h"
#include "stream/printable.h"
#include "stream/progress.h"

namespace lowtide::emit {
namespace {

using stream::Code;
using stream::Error;

// Enough for long reads; recipes take tiles of their own beside them.
constexpr uint64_t kMaxWindow = uint64_t{1} << 20;
constexpr uint64_t kMinWindow = uint64_t{64} << 10;

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

std::string hexadecimal(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

std::string digest_line(const VerifiedTensor& tensor) {
  return stream::printable(fmt::format("{} {:>12} {}", tensor.digest, tensor.bytes, tensor.tensor)) + "\n";
}

VerifiedTensor compare_constants(const stream::RecipeRef& expected, const stream::RecipeRef& written,
                                 stream::Budget& budget, Progress* progress) {
  const uint64_t elements = written->elements();
  if (expected->elements() != elements || expected->dtype != written->dtype)
    throw Error(Code::kInternal, "constants of different types or shapes are compared");
  VerifiedTensor out;
  out.bytes = written->bytes();
  std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  const uint64_t window = std::clamp(budget.available() / 8 / 4096 * 4096, kMinWindow, kMaxWindow);
  stream::Budget::Lease here = budget.take(window, "verifying"), there = budget.take(window, "verifying");
  stream::Pourer recipe(expected, budget), file(written, budget);
  const uint64_t step = recipe.good_count(window / 2);
  for (uint64_t first = 0; first < elements; first += step) {
    const uint64_t count = std::min(step, elements - first), bytes = stream::file_bytes(written->dtype, count);
    recipe.read_file_bytes(first, count, here.data());
    file.read_file_bytes(first, count, there.data());
    XXH3_128bits_update(state.get(), there.data(), bytes);
    if (!out.difference && std::memcmp(here.data(), there.data(), bytes) != 0) {
      const std::byte* other = std::mismatch(here.data(), here.data() + bytes, there.data()).first;
      out.difference = stream::file_bytes(written->dtype, first) + static_cast<uint64_t>(other - here.data());
    }
    if (progress) progress->advance(bytes);
  }
  out.digest = hexadecimal(XXH3_128bits_digest(state.get()));
  return out;
}

bool has_header_of(const Plan& plan, const stream::Source& file) {
  if (file.size() != plan.file_bytes) return false;
  std::array<std::byte, 16 * 1024> window;
  for (uint64_t at = 0; at < plan.header.size();) {
    auto part = std::span(window).first(std::min<uint64_t>(window.size(), plan.header.size() - at));
    file.read_at(at, part);
    if (std::memcmp(part.data(), plan.header.data() + at, part.size()) != 0) return false;
    at += part.size();
  }
  return true;
}

uint64_t least_for_verifying(const Plan& plan) {
  constexpr uint64_t kStored = 64 * 1024;  // tiles for what is read back, and whole pages
  const uint64_t tiles = least_scratch(plan) + kStored;
  return std::max(tiles / 3 * 4, tiles + 2 * kMinWindow);
}

void verify_payloads(const Plan& plan, const std::shared_ptr<stream::Source>& written, stream::Budget& budget,
                     Progress* progress, const OnVerified& on_verified) {
  if (!has_header_of(plan, *written))
    throw Error(Code::kMalformed, "its size or header is not what was planned", {.file = written->name()});
  if (progress) progress->begin("verifying", plan.payload_bytes);
  for (const Payload& payload : plan.payloads) {
    const stream::Recipe& recipe = *payload.recipe;
    stream::RecipeRef stored = stream::recipe::extent(
        written, {{.offset = payload.position, .bytes = payload.bytes, .elements = recipe.elements()}}, recipe.dtype,
        recipe.dims);
    VerifiedTensor verified = compare_constants(payload.recipe, stored, budget, progress);
    verified.tensor = payload.tensor;
    on_verified(verified);
  }
}

}  // namespace lowtide::emit
