// SPDX-License-Identifier: Apache-2.0
// lowtide inspect: lists a model of either format.
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "emit/listing.h"
#include "stream/file/file.h"
#include "stream/file/seekable_source.h"
#include "stream/onnx/reader.h"
#include "stream/tflite/reader.h"
#include "tools/lowtide/absent_inputs.h"
#include "tools/lowtide/commands.h"

namespace lowtide::tools {
namespace {

constexpr uint64_t kInspectBudget = uint64_t{16} << 20;

// A TFLite file names itself in its second word; ONNX has no such mark. One that is cut or damaged there, or
// compressed, has its name.
bool is_tflite(std::filesystem::path path) {
  const bool compressed = path.extension() == ".zst";
  if (compressed) path.replace_extension();
  if (compressed || path.extension() == ".tflite") return path.extension() == ".tflite";
  auto source = stream::open_file(path);
  std::array<std::byte, 8> start{};
  if (source->size() < start.size()) return false;
  source->read_at(0, start);
  return std::string_view(reinterpret_cast<const char*>(start.data()) + 4, 4) == "TFL3";
}

emit::Listing listing_of_file(const std::string& path, stream::Budget& budget) {
  if (!is_tflite(path)) return emit::listing(stream::read_onnx(path, budget));
  stream::Spill spill({});
  const tfl::Model model = stream::read_tflite(open_decompressed(path, spill, budget), budget);
  check_absent_inputs(model);
  return emit::listing(model);
}

}  // namespace

void inspect_model(const InspectCommand& options) {
  stream::Budget budget(kInspectBudget);
  emit::Listing listing = listing_of_file(options.path, budget);
  fmt::print("{}", options.json ? listing_json(listing) : listing_text(listing));
}

}  // namespace lowtide::tools
