// SPDX-License-Identifier: Apache-2.0
// A model from standard input. Weights are read at random offsets: a file that the shell has redirected is read in
// place, and what comes through a pipe goes into a spill file without a name (zstd_source.h) first.
#pragma once

#include <memory>
#include <string_view>

#include "stream/file/file.h"
#include "stream/file/zstd_source.h"

namespace lowtide::stream {

inline constexpr std::string_view kStandardInput = "standard input";

// All of descriptor 0. A pipe may bring half of what the disk has free. Throws Error(kNoSpace, kIo, kUnsafePath).
std::shared_ptr<Source> open_standard_input(Spill& spill, Access access);

// Whether the bytes begin as zstd frames do, where no name says so.
bool begins_like_zstd(const Source& source);

}  // namespace lowtide::stream
