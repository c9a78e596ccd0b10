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

// Of a file's bytes, read in small pieces. Throws as open_file and Source::read_at do.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace lowtide::stream
