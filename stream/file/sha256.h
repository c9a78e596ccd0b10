// SPDX-License-Identifier: Apache-2.0
// SHA-256 as FIPS 180-4 has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace lowtide::stream {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  // The digest of all that was added, as 64 hexadecimal digits. Nothing may be added afterwards.
  std::string digest();

 private:
  void add_block(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_ = {};  // bytes that do not fill a block yet
  uint64_t bytes_ = 0;
};

// A file that is larger than this is known by samples of it: kSamples runs of kSampleBytes, the first at the file's
// begin, the last at its end, evenly spaced (run i begins at i * (bytes - kSampleBytes) / (kSamples - 1), rounded
// down). So files of any size are opened at once, and another set of weights is noticed; a single bit that flips may
// not be.
inline constexpr uint64_t kSampledAbove = uint64_t{64} << 20, kSamples = 256, kSampleBytes = uint64_t{8} << 10;

// Of a file's bytes, or of its samples. Throws as open_file and Source::read_at do.
std::string digest_of_file(const std::filesystem::path& path);

}  // namespace lowtide::stream
