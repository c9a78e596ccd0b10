// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: which exceptions are expected, and a folder for files.
//
// The rule: any bytes end in a result or in a stream::Error of any kind but `internal`, which is a bug of
// ours. Everything else that leaves a target (bad_alloc, length_error, a failed assert) ends the process and is a
// finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "stream/error.h"

namespace lowtide::fuzz {

// Bytes for tiles and windows: few, so that large tensors are read in pieces.
inline constexpr uint64_t kBudget = uint64_t{8} << 20;

// Ends the process: a property of the target does not hold.
[[noreturn]] void finding(const std::string& text);

// Runs `call`; true when it returned, false when it threw an Error that users may get.
template <typename Call>
bool only_errors(Call&& call) {
  try {
    std::forward<Call>(call)();
    return true;
  } catch (const stream::Error& error) {
    if (error.code() == stream::Code::kInternal) finding(error.what());
    return false;
  }
}

inline std::vector<std::byte> bytes_of(const uint8_t* data, size_t size) {
  auto begin = reinterpret_cast<const std::byte*>(data);
  return {begin, begin + size};
}

// A folder of this process's own, in memory where the system has such a place; it is removed with the process.
const std::filesystem::path& scratch_folder();

}  // namespace lowtide::fuzz
