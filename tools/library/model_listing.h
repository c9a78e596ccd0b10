// SPDX-License-Identifier: Apache-2.0
// The listing of a model file of either format, for `lowtide inspect` and lowtide::inspect().
#pragma once

#include <cstdint>
#include <filesystem>

#include "emit/listing.h"

namespace lowtide::tools {

// Within a budget of 16 MiB. `max_zstd_ratio` as in stream::SpillOptions. Throws stream::Error.
emit::Listing listing_of_file(const std::filesystem::path& path, uint64_t max_zstd_ratio);

}  // namespace lowtide::tools
