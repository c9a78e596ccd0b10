// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/partition_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "tools/lowtide/option_values.h"
#include "tools/lowtide/preferences.h"

namespace lowtide::tools {
namespace {

// How much slower something is: a number from 0 to 1000.
CLI::Option* factor_option(CLI::Option* option) {
  CLI::Validator in_range(
      [](std::string& text) {
        double number = 0;
        const char* end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, number);
        if (error == std::errc() && rest == end && number >= 0 && number <= 1000) return std::string();
        return fmt::format("'{}' is not a number from 0 to 1000", text);
      },
      "");
  return option->check(in_range)->type_name("N");
}

}  // namespace

CLI::App* add_partition(CLI::App& app, PartitionCommand& options) {
  CLI::App* command = app.add_subcommand(
      "partition", "Divide an ONNX model into pieces for TFLite and for ONNX Runtime, which run one after the other.");
  file_option(command->add_option("model", options.input, "the ONNX model (.onnx or .onnx.zst)"))->required();
  file_option(command->add_option("-o,--output", options.output,
                                  "the folder to make, with the pieces and manifest.json (default: the model's name "
                                  "with .pieces)"));
  text_option(command->add_option(
                  "--target", options.target,
                  "what the pieces are for, instead of TFLite on the CPU: nnapi, coreml, tidl, onnx (all of it in "
                  "ONNX Runtime, for --max-piece), or a description (.json)"),
              "TARGET");
  choice_option(
      command->add_option("--prefer", options.prefer,
                          "cheap (the default): the lowest cost, where nodes that TFLite can run may stay in "
                          "ONNX; fewest: all of these in TFLite, in the fewest pieces; coverage: all of these "
                          "in TFLite, at the lowest cost"),
      preference_names(), "WHAT");
  size_option(command->add_option("--max-piece", options.max_piece,
                                  "the most bytes of weights and the largest activations of a piece, such as 256M"));
  number_option(command->add_option("--max-pieces", options.max_pieces, "the most pieces"), 1, 1'000'000);
  factor_option(command->add_option("--penalty", options.penalty,
                                    "how many times slower work outside of TFLite counts (default: 2)"));
  file_option(command->add_option("--costs", options.costs,
                                  "take the cost of nodes from what a division took when it ran: the output of "
                                  "lowtide run DIR --profile --json"));
  choice_option(command->add_option("--weights", options.weights,
                                    "copy (the default): into the pieces; in-place: .onnx pieces read weights from the "
                                    "model's own files, so the folder must be next to them"),
                {"copy", "in-place"}, "HOW");
  repeated_option(command->add_option("--exclude-op", options.exclude_ops,
                                      "leave the nodes of this operator in ONNX (may be repeated)"),
                  "OPERATOR");
  repeated_option(
      command->add_option("--exclude-node", options.exclude_nodes, "leave this node in ONNX (may be repeated)"),
      "NAME");
  repeated_option(
      command->add_option("--value", options.values,
                          "the type of a value that the model does not declare; ? is an unknown dimension (may "
                          "be repeated)"),
      "NAME=f32[1,n,?]");
  command->add_flag("--dry-run", options.dry_run, "print the pieces and why nodes are where they are, write nothing");
  command->add_flag("--json", options.json, "with --dry-run: print JSON");
  file_option(command->add_option("--probe", options.probe,
                                  "arrays by input name (.npz): the Python package runs the model once to learn the "
                                  "types of values that the model does not declare"));
  size_option(command->add_option("--max-rss", options.max_rss, "limit of resident memory (default: 32M)"))
      ->group(kResourceOptions);
  add_zstd_ratio(*command, options.max_zstd_ratio);
  add_follow_links(*command, options.follow_links);
  command->add_flag("-q,--quiet", options.quiet, "print errors only")->group(kMessageOptions);
  add_errors_option(*command);
  command->footer(
      "Examples:\n"
      "  lowtide partition model.onnx -o pieces\n"
      "  lowtide partition model.onnx --dry-run --exclude-op Resize\n"
      "  lowtide partition model.onnx -o pieces --max-piece 256M\n"
      "  lowtide partition model.onnx -o pieces --target onnx --max-piece 256M --weights in-place");
  return command;
}

}  // namespace lowtide::tools
