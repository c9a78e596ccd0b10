// SPDX-License-Identifier: Apache-2.0
// lowtide inspect: lists a model of either format.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>

#include "emit/listing.h"
#include "stream/file/file.h"
#include "stream/file/seekable_source.h"
#include "stream/onnx/reader.h"
#include "stream/tflite/reader.h"
#include "tools/lowtide/absent_inputs.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/option_values.h"

namespace {

constexpr uint64_t kBudget = uint64_t{16} << 20;

struct Options {
  std::string path;
  bool json = false;
};

// A TFLite file names itself in its second word; ONNX has no such mark. One that is cut or damaged there, or
// compressed, has its name.
bool is_tflite(std::filesystem::path path) {
  const bool compressed = path.extension() == ".zst";
  if (compressed) path.replace_extension();
  if (compressed || path.extension() == ".tflite") return path.extension() == ".tflite";
  auto source = lowtide::stream::open_file(path);
  std::array<std::byte, 8> start{};
  if (source->size() < start.size()) return false;
  source->read_at(0, start);
  return std::string_view(reinterpret_cast<const char*>(start.data()) + 4, 4) == "TFL3";
}

lowtide::emit::Listing read(const std::string& path, lowtide::stream::Budget& budget) {
  if (!is_tflite(path)) return lowtide::emit::listing(lowtide::stream::read_onnx(path, budget));
  lowtide::stream::Spill spill({});
  const lowtide::tfl::Model model = lowtide::stream::read_tflite(open_decompressed(path, spill, budget), budget);
  lowtide::tools::check_absent_inputs(model);
  return lowtide::emit::listing(model);
}

void run(const Options& options) {
  lowtide::stream::Budget budget(kBudget);
  lowtide::emit::Listing listing = read(options.path, budget);
  fmt::print("{}", options.json ? listing_json(listing) : listing_text(listing));
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "List an ONNX or TFLite model: operators, tensors, sizes");
  file_name(command->add_option("file", options->path, "The model (.onnx or .tflite, or either with .zst)"))
      ->required();
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options] { run(*options); });
}
