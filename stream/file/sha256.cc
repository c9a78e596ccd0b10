// SPDX-License-Identifier: Apache-2.0
#include "stream/file/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "stream/file/file.h"

namespace lowtide::stream {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr size_t kShaBlock = 64;

uint32_t big_endian(const std::byte* bytes) {
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out = out << 8 | std::to_integer<uint32_t>(bytes[i]);
  return out;
}

}  // namespace

void Sha256::add(std::span<const std::byte> bytes) {
  size_t held = bytes_ % kShaBlock;
  bytes_ += bytes.size();
  if (held > 0) {
    const size_t some = std::min(kShaBlock - held, bytes.size());
    std::copy_n(bytes.begin(), some, rest_.begin() + static_cast<ptrdiff_t>(held));
    bytes = bytes.subspan(some);
    held += some;
    if (held < kShaBlock) return;
    add_block(rest_.data());
  }
  for (; bytes.size() >= kShaBlock; bytes = bytes.subspan(kShaBlock)) add_block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

std::string Sha256::digest() {
  const uint64_t bits = bytes_ * 8;
  // A one, zeros up to the last 8 bytes of a block, and there the number of bits.
  std::array<std::byte, 2 * kShaBlock> padding = {std::byte{0x80}};
  const size_t held = bytes_ % kShaBlock;
  add(std::span(padding).first((held < kShaBlock - 8 ? kShaBlock : 2 * kShaBlock) - 8 - held));
  std::array<std::byte, 8> length = {};
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<std::byte>(bits >> (8 * (7 - i)));
  add(length);
  std::string out;
  for (const uint32_t word : state_) out += fmt::format("{:08x}", word);
  return out;
}

void Sha256::add_block(const std::byte* block) {
  std::array<uint32_t, 64> w = {};
  for (size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (size_t i = 16; i < w.size(); ++i) {
    const uint32_t low = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const uint32_t high = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < w.size(); ++i) {
    const uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + kRounds[i] + w[i];
    const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<uint32_t, 8> sums = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < sums.size(); ++i) state_[i] += sums[i];
}

std::string digest_of_file(const std::filesystem::path& path) {
  const std::shared_ptr<Source> source = open_file(path, Access::kRead);
  std::vector<std::byte> tile(kSampleBytes);
  Sha256 sha;
  auto add = [&](uint64_t at, uint64_t bytes) {
    const std::span<std::byte> here = std::span(tile).first(static_cast<size_t>(bytes));
    source->read_at(at, here);
    sha.add(here);
  };
  const uint64_t size = source->size();
  if (size > kSampledAbove)
    for (uint64_t i = 0; i < kSamples; ++i) add(i * (size - kSampleBytes) / (kSamples - 1), kSampleBytes);
  else
    for (uint64_t at = 0; at < size; at += kSampleBytes) add(at, std::min(kSampleBytes, size - at));
  return sha.digest();
}

}  // namespace lowtide::stream
