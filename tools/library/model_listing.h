// SPDX-License-Identifier: Apache-2.0
// The listing of a model file of either format, for `lowtide inspect` and lowtide::inspect().
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "emit/custom_operators.h"
#include "emit/listing.h"
#include "stream/file/zstd_source.h"

namespace lowtide::tools {

// Called for each file that holds weights of the model, the model itself included; may be empty.
using OnWeights = std::function<void(const std::filesystem::path& file)>;
struct ListingOptions {
  uint64_t max_zstd_ratio = stream::kMaxZstdRatio;  // as in stream::SpillOptions
  std::filesystem::path follow_links = {};          // as in stream::ExternalFiles, of an ONNX model
};
// Within a budget of 16 MiB. Throws stream::Error.
emit::Listing listing_of_file(const std::filesystem::path& path, const ListingOptions& options = {},
                              const OnWeights& on_weights = {});
// Of a TFLite file.
std::vector<emit::CustomUse> custom_operators_of_file(const std::filesystem::path& path, uint64_t max_zstd_ratio);

}  // namespace lowtide::tools
