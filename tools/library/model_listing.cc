// SPDX-License-Identifier: Apache-2.0
#include "tools/library/model_listing.h"

#include <fmt/format.h>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/known_formats.h"
#include "stream/onnx/reader.h"
#include "stream/tflite/reader.h"
#include "tools/library/absent_inputs.h"

namespace lowtide::tools {
namespace {

constexpr uint64_t kInspectBudget = uint64_t{16} << 20;

// By its first bytes; a file that is cut or damaged there has its name.
bool is_tflite(std::filesystem::path path, stream::Budget& budget) {
  const auto source = stream::open_file(path);
  const bool is_compressed = path.extension() == ".zst";
  const auto first = is_compressed ? stream::first_decompressed_bytes(*source, budget) : stream::first_bytes(*source);
  if (stream::begins_like_onnx(first)) return false;
  if (is_compressed) path.replace_extension();
  return stream::begins_like_tflite(first) || path.extension() == ".tflite";
}

}  // namespace

emit::Listing listing_of_file(const std::filesystem::path& path, const ListingOptions& options,
                              const OnWeights& on_weights) {
  stream::Budget budget(kInspectBudget);
  const stream::SpillOptions spill_options = {.max_ratio = options.max_zstd_ratio};
  if (!is_tflite(path, budget)) {
    const onnx::Model model =
        stream::read_onnx(path, budget, spill_options, stream::Access::kMap, options.follow_links);
    for (const auto& source : model.sources)
      if (on_weights) on_weights(source->name());
    return emit::listing(model);
  }
  if (!options.follow_links.empty())
    throw stream::Error(stream::Code::kUsage,
                        fmt::format("--follow-links is for ONNX models; {} is a TFLite model", path.string()));
  const tfl::Model model = stream::read_tflite(path, budget, spill_options);
  for (const tfl::ExternalFile& file : model.external_files)
    if (on_weights) on_weights(path.parent_path() / file.name);
  check_absent_inputs(model);
  return emit::listing(model);
}

std::vector<emit::CustomUse> custom_operators_of_file(const std::filesystem::path& path, uint64_t max_zstd_ratio) {
  stream::Budget budget(kInspectBudget);
  return emit::custom_uses(stream::read_tflite(path, budget, {.max_ratio = max_zstd_ratio}));
}

}  // namespace lowtide::tools
