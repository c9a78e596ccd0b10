// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/models.h"
#include "stream/error.h"
#include "tools/lowtide/conversion.h"

namespace lowtide::tools {
namespace {

// A size such as 64M, more than 0; K, M, G and T are powers of 1024.
CLI::Option* size_option(CLI::Option* option) {
  CLI::AsSizeValue with_unit(false);
  with_unit.description("");
  // CLI11 takes -5 for a very large number, and lists twenty units where one is wrong. Transforms run last to first.
  CLI::Validator shape(
      [](std::string& text) {
        const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
        const bool good = digits > 0 && text[0] != '0' && text.find_first_not_of("KMGTkmgtiBb", digits) == text.npos &&
                          text.size() - digits <= 3;
        return good ? std::string() : fmt::format("'{}' is not a size such as 64M", text);
      },
      "");
  return option->transform(with_unit)->transform(shape)->type_name("SIZE");
}

// A name that is not empty, as an unset variable of a script would make it.
CLI::Option* file_option(CLI::Option* option) {
  CLI::Validator not_empty([](std::string& text) { return text.empty() ? "the name is empty" : std::string(); }, "");
  return option->check(not_empty)->type_name("FILE");
}

void add_conversion_options(CLI::App& command, ConversionOptions& options) {
  file_option(command.add_option("model", options.input, "The ONNX model (.onnx or .onnx.zst)"))->required();
  size_option(
      command.add_option("--max-rss", options.max_rss,
                         "Resident memory to stay below; K, M, G are powers of 1024 (default: 32M, more for very "
                         "large graphs)"));
  command.add_option("--shape", options.shapes, "Fixes a dynamic input's shape; may be repeated")
      ->type_name("INPUT=1,3,512,512")
      ->allow_extra_args(false);
  command
      .add_option("--layout", options.layouts,
                  "Gives an input or output TFLite's axis order instead of ONNX's; may be repeated")
      ->type_name("NAME=nhwc")
      ->allow_extra_args(false);
  command
      .add_option("--threads", options.threads, "Threads that pour weights (default: 2, fewer on a smaller machine)")
      ->check(CLI::Range(1, 256));
  command
      .add_option("--weights", options.weights,
                  "What becomes of the weights: float (the default); f16, int8 or int4: fewer bits, where kernels take "
                  "them; or in-place: what needs no change is not copied but read from the ONNX model's own files")
      ->check(CLI::IsMember(weight_modes()).description(""))
      ->type_name("MODE");
  command
      .add_option("--weights-include", options.include,
                  "Make only weights smaller whose name, or whose node's, is like this; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command.add_option("--weights-exclude", options.exclude, "Leave weights of such a name as they are; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command.add_flag("--external-buffers", options.external,
                   "Put weights behind the flatbuffer whatever the size (files over 2 GiB always have them there)");
  command.add_flag("--quiet", options.quiet, "Print errors only");
}

CLI::App* add_convert(CLI::App& app, ConvertCommand& options) {
  CLI::App* command = app.add_subcommand("convert", "Convert an ONNX model to TFLite");
  add_conversion_options(*command, options);
  file_option(
      command->add_option("-o,--output", options.output,
                          "Where to write (default: the model's name with .tflite); compressed when it ends in .zst"));
  command->add_option("--zstd-level", options.zstd_level, "How hard to compress a .tflite.zst (default: 3)")
      ->check(CLI::Range(1, 19));
  command->add_flag("--verify-output", options.verify,
                    "Read the file back from the disk, compare each weight with what it should be, and print digests");
  command->add_flag("--dry-run", options.dry_run, "Convert and print the sizes, but write nothing");
  command->add_flag("--verbose", options.verbose, "Print each pass and its time")
      ->excludes(command->get_option("--quiet"));
  file_option(command->add_option("--report", options.report, "Write the report as JSON to this file"));
  command->add_option("--dump-after", options.dump_after, "Print the graph after this pass, such as lower")
      ->type_name("PASS");
  return command;
}

CLI::App* add_check(CLI::App& app, CheckCommand& options) {
  CLI::App* command = app.add_subcommand(
      "check", "Compare a TFLite file, to the last byte of each weight, with what an ONNX model converts to");
  add_conversion_options(*command, options);
  file_option(command->add_option("tflite", options.tflite, "The file to check (.tflite or .tflite.zst)"))->required();
  return command;
}

CLI::App* add_inspect(CLI::App& app, InspectCommand& options) {
  CLI::App* command = app.add_subcommand("inspect", "List an ONNX or TFLite model: operators, tensors, sizes");
  file_option(command->add_option("file", options.path, "The model (.onnx or .tflite, or either with .zst)"))
      ->required();
  command->add_flag("--json", options.json, "As JSON");
  return command;
}

CLI::App* add_make_model(CLI::App& app, MakeModelCommand& options) {
  CLI::App* command = app.add_subcommand("make-model", "Write a test model of any size, with seeded weights");
  std::string kinds = "What to make:";
  for (const bench::ModelKind& kind : bench::model_kinds())
    kinds += fmt::format("\n  {} ({})", kind.name, kind.summary);
  bench::ModelSpec& spec = options.spec;
  command->add_option("kind", spec.kind, kinds)->required()->type_name("KIND");
  file_option(command->add_option("-o,--output", options.output, "The model; external weights go to OUTPUT.data"))
      ->required();
  size_option(command->add_option("--size", spec.size_bytes,
                                  "Bytes of weights; K, M, G are powers of 1024 (default: the kind's own)"));
  command->add_option("--nodes", spec.nodes, "many-nodes: how many (default: 1000)");
  command->add_option("--files", spec.files, "External weights in so many files: OUTPUT.data.0, ...");
  command->add_flag("--external", spec.external, "Weights in a file beside the model (always, from 2 GiB on)");
  command->add_option("--input-size", spec.input_size, "Height and width of the input (default: the kind's own)");
  command->add_option("--seed", spec.seed, "Of the weights; equal options give equal bytes");
  command->add_option("--opset", spec.opset, "ONNX opset, 13 to 23")->capture_default_str();
  command->add_flag("--plain", spec.plain_kernels, "conv-stack, one-tensor: 1x1 kernels, which need no transposing");
  command->add_flag("--sparse", spec.sparse,
                    "External weights that are holes but for their first values: a model of any size on a small disk");
  command->add_flag("--quiet", options.quiet, "Print nothing");
  return command;
}

// CLI11 would only say that some subcommand is required.
void check_command_name(const CLI::App& app, int argc, const char* const* argv) {
  std::string commands;
  bool known = argc > 1 && argv[1][0] == '-';
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands += (commands.empty() ? "" : ", ") + command->get_name();
    known |= argc > 1 && command->get_name() == argv[1];
  }
  if (argc < 2) usage_error(fmt::format("a command is missing: one of {} (try lowtide --help)", commands));
  if (!known) usage_error(fmt::format("no command is called '{}'; there are {}", argv[1], commands));
}

}  // namespace

void usage_error(std::string text) { throw stream::Error(stream::Code::kUsage, std::move(text)); }

Command parse_command_line(int argc, const char* const* argv) {
  CLI::App app{
      "Converts very large ONNX models to TFLite in little memory: weights stay on disk until they are written.",
      "lowtide"};
  app.set_version_flag("--version", "lowtide " LOWTIDE_VERSION);
  app.require_subcommand(1);
  ConvertCommand convert;
  CheckCommand check;
  InspectCommand inspect;
  MakeModelCommand make_model;
  const CLI::App* convert_app = add_convert(app, convert);
  const CLI::App* check_app = add_check(app, check);
  const CLI::App* inspect_app = add_inspect(app, inspect);
  add_make_model(app, make_model);
  check_command_name(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Answer{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return Answer{version.what() + std::string("\n")};
  } catch (const CLI::ParseError& error) {
    std::string command = "lowtide";
    for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
    usage_error(fmt::format("{} (try {} --help)", error.what(), command));
  }
  if (convert_app->parsed()) return convert;
  if (check_app->parsed()) return check;
  if (inspect_app->parsed()) return inspect;
  return make_model;
}

}  // namespace lowtide::tools
