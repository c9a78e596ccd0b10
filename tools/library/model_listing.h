// SPDX-License-Identifier: Apache-2.0
// The listing of a model file of either format, for `lowtide inspect` and lowtide::inspect().
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "emit/custom_operators.h"
#include "emit/listing.h"

namespace lowtide::tools {

// Called for each file that holds weights of the model, the model itself included; may be empty.
using OnWeights = std::function<void(const std::filesystem::path& file)>;
// Within a budget of 16 MiB. `max_zstd_ratio` as in stream::SpillOptions. Throws stream::Error.
emit::Listing listing_of_file(const std::filesystem::path& path, uint64_t max_zstd_ratio,
                              const OnWeights& on_weights = {});
// Of a TFLite file.
std::vector<emit::CustomUse> custom_operators_of_file(const std::filesystem::path& path, uint64_t max_zstd_ratio);

}  // namespace lowtide::tools
