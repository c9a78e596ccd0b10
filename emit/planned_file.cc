// SPDX-License-Identifier: Apache-2.0
#include "emit/planned_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "stream/error.h"

namespace lowtide::emit {
namespace {

// Copies the part of `bytes`, which are at `position` in the file, that is inside [begin, end) to `out`, which starts
// at `begin`.
void overlay(std::span<const std::byte> bytes, uint64_t position, uint64_t begin, uint64_t end, std::byte* out) {
  uint64_t from = std::max(begin, position), to = std::min(end, position + bytes.size());
  if (from < to) std::memcpy(out + (from - begin), bytes.data() + (from - position), to - from);
}

}  // namespace

void PlannedFile::read_at(uint64_t offset, std::span<std::byte> out) const {
  stream::check_range(offset, out.size(), size(), name_);
  if (out.empty()) return;
  std::lock_guard lock(mutex_);
  std::memset(out.data(), 0, out.size());
  const uint64_t end = offset + out.size();
  overlay(plan_.header, 0, offset, end, out.data());
  auto first = std::partition_point(plan_.payloads.begin(), plan_.payloads.end(),
                                    [&](const Payload& payload) { return payload.position + payload.bytes <= offset; });
  for (auto i = static_cast<size_t>(first - plan_.payloads.begin()); i < plan_.payloads.size(); ++i) {
    const Payload& payload = plan_.payloads[i];
    if (payload.position - plan_.prefix() >= end) break;
    if (plan_.prefix() > 0) {
      auto length = static_cast<uint32_t>(payload.bytes);
      overlay(std::as_bytes(std::span(&length, 1)), payload.position - sizeof length, offset, end, out.data());
    }
    uint64_t from = std::max(offset, payload.position), to = std::min(end, payload.position + payload.bytes);
    if (from < to) read_payload(i, from - payload.position, to - payload.position, out.data() + (from - offset));
  }
}

// Recipes are read by whole elements; a range that begins or ends inside one is read through a small buffer.
void PlannedFile::read_payload(size_t index, uint64_t begin, uint64_t end, std::byte* out) const {
  constexpr uint64_t kGrain = 16;  // bytes; whole elements of every type
  const Payload& payload = plan_.payloads[index];
  const auto bits = static_cast<uint64_t>(stream::bits(payload.recipe->dtype));
  auto read = [&](uint64_t from, uint64_t to, std::byte* into) {  // `from` is whole, `to` is whole or the end
    uint64_t first = from * 8 / bits, last = to == payload.bytes ? payload.recipe->elements() : to * 8 / bits;
    reader(index).read_file_bytes(first, last - first, into);
  };
  auto read_part = [&](uint64_t from, uint64_t to) {  // within one grain
    std::array<std::byte, kGrain> grain;
    uint64_t start = from / kGrain * kGrain;
    read(start, std::min(start + kGrain, payload.bytes), grain.data());
    std::memcpy(out + (from - begin), grain.data() + (from - start), to - from);
  };
  try {
    uint64_t whole = std::min((begin + kGrain - 1) / kGrain * kGrain, end);
    if (begin < whole) read_part(begin, whole);
    uint64_t rest = end == payload.bytes ? end : std::max(end / kGrain * kGrain, whole);
    if (whole < rest) read(whole, rest, out + (whole - begin));
    if (rest < end) read_part(rest, end);
  } catch (stream::Error& error) {
    error.add_place({.slot = fmt::format("tensor '{}'", payload.tensor)});
    throw;
  }
}

stream::RecipeReader& PlannedFile::reader(size_t payload) const {
  if (!reader_ || reader_of_ != payload) {
    reader_.reset();  // frees its tiles before the next one takes its own
    reader_ = std::make_unique<stream::RecipeReader>(plan_.payloads[payload].recipe, budget_);
    reader_of_ = payload;
  }
  return *reader_;
}

}  // namespace lowtide::emit
