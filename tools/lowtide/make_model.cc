// SPDX-License-Identifier: Apache-2.0
// lowtide make-model: writes a test model of any size while its weights are made.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "bench/models.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/option_values.h"

namespace {

struct Options {
  lowtide::bench::ModelSpec spec;
  std::string out;
  bool quiet = false;
};

/// One line that is rewritten for each percent; only where somebody watches.
lowtide::bench::Progress progress_line(bool quiet) {
  if (quiet || isatty(STDERR_FILENO) == 0) return {};
  return [shown = uint64_t{0}](uint64_t done, uint64_t total) mutable {
    const uint64_t percent = static_cast<uint64_t>(100.0 * static_cast<double>(done) / static_cast<double>(total));
    if (percent == shown) return;
    shown = percent;
    fmt::print(stderr, "\r{:3} % of {:.1f} MB{}", percent, static_cast<double>(total) / 1e6, done == total ? "\n" : "");
    std::fflush(stderr);
  };
}

void run(Options& options) {
  const lowtide::bench::MadeModel made =
      lowtide::bench::make_model(options.spec, options.out, progress_line(options.quiet));
  if (options.quiet) return;
  fmt::print("{}: {} bytes", options.out, made.model_bytes);
  if (made.data_bytes > 0)
    fmt::print(", {}.data{}: {} bytes", options.out, options.spec.files > 1 ? ".*" : "", made.data_bytes);
  fmt::print(", weights: {:.1f} MB\n", static_cast<double>(made.weight_bytes) / 1e6);
}

}  // namespace

void add_make_model(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("make-model", "Write a test model of any size, with seeded weights");
  std::string kinds = "What to make:";
  for (const lowtide::bench::ModelKind& kind : lowtide::bench::model_kinds()) {
    kinds += fmt::format("\n  {} ({})", kind.name, kind.summary);
  }
  command->add_option("kind", options->spec.kind, kinds)->required()->type_name("KIND");
  file_name(command->add_option("-o,--output", options->out, "The model; external weights go to OUTPUT.data"))
      ->required();
  size(command->add_option("--size", options->spec.size_bytes,
                           "Bytes of weights; K, M, G are powers of 1024 (default: the kind's own)"));
  command->add_option("--nodes", options->spec.nodes, "many-nodes: how many (default: 1000)");
  command->add_option("--files", options->spec.files, "External weights in so many files: OUTPUT.data.0, ...");
  command->add_flag("--external", options->spec.external, "Weights in a file beside the model (always, from 2 GiB on)");
  command->add_option("--input-size", options->spec.input_size,
                      "Height and width of the input (default: the kind's own)");
  command->add_option("--seed", options->spec.seed, "Of the weights; equal options give equal bytes");
  command->add_option("--opset", options->spec.opset, "ONNX opset, 13 to 23")->capture_default_str();
  command->add_flag("--plain", options->spec.plain_kernels,
                    "conv-stack, one-tensor: 1x1 kernels, which need no transposing");
  command->add_flag("--sparse", options->spec.sparse,
                    "External weights that are holes but for their first values: a model of any size on a small disk");
  command->add_flag("--quiet", options->quiet, "Print nothing");
  command->callback([options] { run(*options); });
}
