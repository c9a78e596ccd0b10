// SPDX-License-Identifier: Apache-2.0
#include "bench/uniform.h"

namespace lowtide::bench {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014); with an odd stride between inputs it passes BigCrush.
constexpr uint64_t kStride = 0x9e3779b97f4a7c15;

constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// FNV-1a: the same on every machine, which std::hash is not.
constexpr uint64_t hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

}  // namespace

Uniform::Uniform(uint64_t seed, std::string_view name, float low, float high)
    : key_(mix(seed + kStride) ^ hash(name)),
      middle_((double{low} + double{high}) / 2),
      // Rounded to a float so that the product in fill() is exact in double; then a fused multiply-add gives the
      // same bits as the two operations, whatever the compiler picks.
      step_(static_cast<float>((double{high} - double{low}) / 2) / double{1 << 23}) {}

void Uniform::fill(uint64_t first, std::span<float> out) const {
  const auto value = [this](uint64_t word) {
    const int32_t bits = static_cast<int32_t>(static_cast<uint32_t>(word)) >> 8;  // 24 bits, signed
    return static_cast<float>(middle_ + bits * step_);
  };
  const auto word = [this](uint64_t pair) { return mix(key_ + (pair + 1) * kStride); };
  size_t i = 0;
  if (first % 2 == 1 && !out.empty()) out[i++] = value(word(first / 2) >> 32);
  for (; i + 1 < out.size(); i += 2) {
    const uint64_t both = word((first + i) / 2);
    out[i] = value(both);
    out[i + 1] = value(both >> 32);
  }
  if (i < out.size()) out[i] = value(word((first + i) / 2));
}

}  // namespace lowtide::bench
