// SPDX-License-Identifier: Apache-2.0
// lowtide inspect: lists a model of either format.
#include <fmt/format.h>

#include "emit/listing.h"
#include "tools/library/model_listing.h"
#include "tools/lowtide/commands.h"

namespace lowtide::tools {

void inspect_model(const InspectCommand& options) {
  const emit::Listing listing = listing_of_file(options.path, options.max_zstd_ratio);
  fmt::print("{}", options.json ? listing_json(listing) : listing_text(listing));
}

}  // namespace lowtide::tools
