// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string_view>

#include "bench/models.h"
#include "layout/raise_model.h"
#include "stream/error.h"
#include "tools/lowtide/help_text.h"
#include "tools/lowtide/option_values.h"
#include "tools/lowtide/parser_errors.h"
#include "tools/lowtide/partition_options.h"
#include "tools/lowtide/weight_modes.h"

namespace lowtide::tools {
namespace {

constexpr const char* kQuantizeOptions = "Calibrated integers";

void add_quantize_options(CLI::App& command, ConversionOptions& options) {
  choice_option(command.add_option("--quantize", options.quantize,
                                   "int8: compute a model of floats in integers, with the ranges of --ranges; "
                                   "int16x8: activations of 16 bits, weights of 8"),
                {"int8", "int16x8"}, "TYPE")
      ->group(kQuantizeOptions);
  file_option(command.add_option("--ranges", options.ranges,
                                 "the ranges of the model's tensors for --quantize, written by lowtide calibrate"))
      ->group(kQuantizeOptions);
  text_option(command.add_option(
                  "--range", options.range,
                  "how a tensor's range is chosen from the values that calibration found (default: as the ranges file "
                  "recommends, else mse). mse: the smallest error; minmax: the whole range; percentile:P: the middle P "
                  "percent of the values"),
              "METHOD")
      ->group(kQuantizeOptions);
  command.add_flag("--per-tensor", options.per_tensor, "one scale for all channels of a weight, with --quantize")
      ->group(kQuantizeOptions);
  choice_option(
      command.add_option("--equalize", options.equalize,
                         "how channels are scaled for --quantize (default: as the ranges file recommends, else "
                         "channels). channels: scale the channels between two convolutions so that one scale "
                         "serves all; none: no scaling"),
      {"channels", "none"}, "METHOD")
      ->group(kQuantizeOptions);
  choice_option(
      command.add_option("--correct", options.correct,
                         "how biases are corrected for rounded weights (default: as the ranges file recommends, "
                         "else means). means: subtract the average error of the layer's own weights; layers: "
                         "also subtract the error from earlier layers (needs calibrate --correct-layers); "
                         "none: no correction"),
      {"means", "layers", "none"}, "METHOD")
      ->group(kQuantizeOptions);
  repeated_option(command.add_option("--keep-float", options.keep_float,
                                     "leave nodes whose name, or whose output's name, matches in floats, with "
                                     "--quantize (may be repeated)"),
                  "PATTERN")
      ->group(kQuantizeOptions);
}

// What the help texts of shared options depend on.
struct CommandTakes {
  bool tflite;    // TFLite models too
  bool in_place;  // --weights in-place
};
constexpr CommandTakes kConvertTakes{.tflite = true, .in_place = true};
constexpr CommandTakes kMergeTakes{.tflite = false, .in_place = false};
constexpr CommandTakes kCheckTakes{.tflite = false, .in_place = true};

// Of one model: what it takes, and what is written about it.
void add_interface_options(CLI::App& command, ConversionOptions& options, CommandTakes takes) {
  add_quantize_options(command, options);
  name_option(command.add_option("--signature", options.signature,
                                 std::string("name of the signature (default: serving_default)") +
                                     (takes.tflite ? "; of a TFLite model that has several, the one to convert" : "")));
  repeated_option(command.add_option("--input-uint8", options.raw_images,
                                     "an input accepts raw images, numbers from 0 to 255, and the model computes (x - "
                                     "mean) / std itself (may be repeated)"),
                  "INPUT");
  text_option(
      command.add_option(
          "--mean", options.mean,
          "the mean for --input-uint8: one number, or one for each channel (default: 0). Without --input-uint8, "
          "the metadata says that the application must normalize"),
      "N,...");
  text_option(command.add_option("--std", options.std, "the divisor for --input-uint8, in the same form (default: 1)"),
              "N,...");
  file_option(command.add_option("--labels", options.labels,
                                 "a text file with a label in each line, stored with the output whose last axis has as "
                                 "many elements"));
  command.add_flag("--metadata", options.metadata,
                   "write TFLite metadata, and keep the ONNX model's metadata_props (implied by --labels, --mean and "
                   "--std)");
}

void add_conversion_options(CLI::App& command, ConversionOptions& options, CommandTakes takes) {
  repeated_option(
      command.add_option(
          "--shape", options.shapes,
          "set the shape of an input that has dynamic dimensions, or change the batch size of an input of fixed "
          "shape (may be repeated)"),
      "INPUT=1,3,512,512");
  repeated_option(
      command.add_option("--dim", options.dims, "fix a dynamic dimension of inputs by its name (may be repeated)"),
      "NAME=1");
  repeated_option(command.add_option("--const", options.constants,
                                     "freeze an input to a number, a list such as 1,2,3, or the contents of a .npy "
                                     "file. The converted model does not have this input (may be repeated)"),
                  "INPUT=VALUE");
  names_option(command, "--outputs", options.outputs,
               "the values that are outputs, instead of the model's own; what they do not need is left out (may be "
               "repeated)");
  text_option(
      command.add_option(
          "--for", options.made_for,
          "gpu: also use forms that a GPU delegate accepts but that are slower on a CPU, and list the operators "
          "that stay on the CPU. FILE.json, or the name of a target of lowtide partition: only list what that "
          "target does not accept"),
      "TARGET");
  repeated_option(command.add_option("--layout", options.layouts,
                                     std::string("give an input or output TFLite's axis order (nhwc) instead of ONNX's "
                                                 "(nchw)") +
                                         (takes.tflite ? ", or the other way round where the model is TFLite" : "") +
                                         " (may be repeated)"),
                  "NAME=nhwc");
  choice_option(command.add_option("--weights", options.weights,
                                   std::string("how weights are stored: stored (the default): in f16 where the ONNX "
                                               "model has f16, else in f32; float: all in f32; f16, int8 or int4: in "
                                               "fewer bits, where the kernels read them") +
                                       (takes.in_place ? "; in-place: weights that need no change are not copied but "
                                                         "read from the ONNX model's own files"
                                                       : "")),
                weight_modes(), "MODE")
      ->group(kWeightOptions);
  repeated_option(command.add_option(
                      "--weights-include", options.include,
                      "store in fewer bits only weights whose name, or whose node's name, matches (may be repeated)"),
                  "PATTERN")
      ->group(kWeightOptions);
  repeated_option(command.add_option("--weights-exclude", options.exclude,
                                     "leave weights whose name, or whose node's name, matches as they are (may be "
                                     "repeated)"),
                  "PATTERN")
      ->group(kWeightOptions);
  command
      .add_flag("--external-buffers", options.external,
                "store weights after the flatbuffer, as is always done in files over 2 GiB")
      ->group(kWeightOptions);
  command
      .add_flag("--require-integer", options.require_integer,
                "refuse a model of which an operator is computed in floats, and list those operators")
      ->group(kWeightOptions);
  command
      .add_flag("--tables", options.tables,
                "compute functions of 8-bit integers that have no exact integer kernel by tables of 256 entries")
      ->group(kWeightOptions);
  command
      .add_flag("--strict-types", options.strict_types,
                "refuse a model of which a node is computed in fewer bits than it says (f64 in f32, i64 in i32), and "
                "list those nodes")
      ->group(kWeightOptions);
  text_option(command.add_option(
                  "--custom-ops", options.custom_ops,
                  "allow: nodes that cannot be converted become custom operators, for which the application brings "
                  "kernels; allow=Op,domain:Op: all nodes of these operators do"),
              "allow")
      ->group(kCustomOptions);
  file_option(command.add_option("--custom-ops-map", options.custom_ops_map,
                                 "a JSON file with names, versions, axis orders and output shapes of custom operators"))
      ->group(kCustomOptions);
  size_option(command.add_option("--max-rss", options.max_rss,
                                 "limit of resident memory, such as 64M or 0.5G (powers of 1024; default: 32M, more "
                                 "for very large graphs)"))
      ->group(kResourceOptions);
  number_option(
      command.add_option("--threads", options.threads, "threads that write weights (default: 2, or 1 on one core)"), 1,
      256)
      ->group(kResourceOptions);
  repeated_option(choice_option(command.add_option_function<std::vector<std::string>>(
                                    "--io",
                                    [&options](const std::vector<std::string>& modes) {
                                      for (const std::string& io : modes) {
                                        if (io == "mmap" || io == "pread")
                                          options.access = io == "mmap" ? stream::Access::kMap : stream::Access::kRead;
                                        else
                                          options.border = io;
                                      }
                                    },
                                    "int8, uint8 or float: the type of a quantized model's inputs and outputs; mmap "
                                    "(the default) or pread: how the model's files are read (may be repeated)"),
                                {"int8", "uint8", "float", "mmap", "pread"}, "MODE"),
                  "MODE")
      ->group(kResourceOptions);
  add_zstd_ratio(command, options.max_zstd_ratio);
  add_follow_links(command, options.follow_links);
  command.add_flag("-q,--quiet", options.quiet, "print errors only")->group(kMessageOptions);
  command.add_flag("-v,--verbose", options.verbose, "print what is done: files, and each pass with its time")
      ->excludes(command.get_option("--quiet"))
      ->group(kMessageOptions);
  file_option(command.add_option("--log", options.log, "append what is done to this file, with times and levels"))
      ->group(kMessageOptions);
  add_errors_option(command);
}

void add_output_options(CLI::App& command, OutputOptions& options) {
  number_option(command.add_option("--zstd-level", options.zstd_level,
                                   fmt::format("compression level of .zst output (default: {})", kUsualZstdLevel)),
                1, 19);
  command.add_flag("--verify-output", options.verify,
                   "read the file back from the disk, compare each weight with the model's, and print digests");
  command.add_flag("--dry-run", options.dry_run, "convert and print the sizes, but write nothing");
  file_option(command.add_option("--report", options.report,
                                 "write what was done, or which nodes cannot be converted, to this file: .json, "
                                 ".html for a page, or .nodes.json for Model Explorer"))
      ->group(kMessageOptions);
  number_option(command.add_option("--progress-fd", options.progress_fd,
                                   "write progress, the result and errors to this file descriptor, as lines of JSON"),
                0, INT32_MAX)
      ->group(kMessageOptions);
}

CLI::App* add_convert(CLI::App& app, ConvertCommand& options) {
  CLI::App* command = app.add_subcommand("convert", "Convert ONNX models to TFLite, and TFLite models to ONNX.");
  file_option(
      command->add_option("model", options.inputs,
                          "the models (.onnx, .tflite, or either with .zst); - is standard input, which must be "
                          "ONNX"))
      ->required();
  file_option(command->add_option(
      "-o,--output", options.output,
      "the file to write (default: the model's name with .tflite or .onnx, in the model's folder); a TFLite file "
      "is compressed if the name ends in .zst. Or an existing folder, for files with the default names. - is standard "
      "output"));
  add_conversion_options(*command, options, kConvertTakes);
  add_interface_options(*command, options, kConvertTakes);
  add_output_options(*command, options);
  constexpr const char* kOnnxOptions = "TFLite to ONNX";
  number_option(
      command->add_option("--opset", options.opset,
                          fmt::format("opset of the ONNX model, {} to {} (default: the lowest that has its "
                                      "operators, mostly {})",
                                      layout::kLeastRaisedOpset, layout::kMostRaisedOpset, layout::kLeastRaisedOpset)),
      layout::kLeastRaisedOpset, layout::kMostRaisedOpset)
      ->group(kOnnxOptions);
  command
      ->add_flag("--external-data", options.external_data,
                 "write weights into a file next to the ONNX model, as is always done for models over 2 GiB")
      ->group(kOnnxOptions);
  text_option(command->add_option("--dump-after", options.dump_after, "print the graph after this pass, such as lower"),
              "PASS")
      ->group(kMessageOptions);
  command->footer(
      "Examples:\n"
      "  lowtide convert model.onnx\n"
      "  lowtide convert model.onnx -o out/model.tflite --max-rss 64M\n"
      "  lowtide convert model.onnx --shape image=1,3,512,512 --layout image=nhwc\n"
      "  lowtide convert encoder.onnx decoder.onnx -o out/\n"
      "  lowtide convert model.onnx --quantize int8 --ranges ranges.json\n"
      "  lowtide convert model.tflite -o model.onnx --opset 18\n"
      "  lowtide convert model.onnx.zst -o model.tflite.zst --weights int8 --report report.html");
  return command;
}

CLI::App* add_merge(CLI::App& app, MergeCommand& options) {
  CLI::App* command = app.add_subcommand(
      "merge", "Convert several ONNX models to one TFLite file with a signature each; equal weights are stored once.");
  command->add_option("model", options.models, "the ONNX models and the names of their signatures: NAME=MODEL.onnx")
      ->required();
  file_option(
      command->add_option("-o,--output", options.output, "the file to write; compressed if the name ends in .zst"))
      ->required();
  add_conversion_options(*command, options, kMergeTakes);
  add_output_options(*command, options);
  command->footer(
      "Options with the name of an input, output or dimension have the signature in front.\n\n"
      "Examples:\n"
      "  lowtide merge encode=encoder.onnx decode=decoder.onnx -o model.tflite\n"
      "  lowtide merge encode=a.onnx decode=b.onnx -o m.tflite --dim encode:batch=1");
  return command;
}

CLI::App* add_check(CLI::App& app, CheckCommand& options) {
  CLI::App* command = app.add_subcommand(
      "check", "Compare a TFLite file, down to each byte of its weights, with what an ONNX model converts to.");
  file_option(command->add_option("model", options.input, "the ONNX model (.onnx or .onnx.zst)"))->required();
  add_conversion_options(*command, options, kCheckTakes);
  add_interface_options(*command, options, kCheckTakes);
  file_option(command->add_option("tflite", options.tflite, "the file to check (.tflite or .tflite.zst)"))->required();
  command->footer(
      "Give the options that the conversion was given.\n\n"
      "Examples:\n"
      "  lowtide check model.onnx model.tflite\n"
      "  lowtide check model.onnx model.tflite --shape image=1,3,512,512 --weights int8");
  return command;
}

CLI::App* add_extract(CLI::App& app, ExtractCommand& options) {
  CLI::App* command =
      app.add_subcommand("extract", "Write the part of an ONNX model between given values as an ONNX model.");
  file_option(command->add_option("model", options.input, "the ONNX model (.onnx or .onnx.zst)"))->required();
  names_option(*command, "--from", options.from,
               "the values that are inputs of the part (may be repeated; default: the model's inputs, as far as the "
               "part needs them)");
  names_option(*command, "--to", options.to, "the values that are its outputs (may be repeated)")->required();
  file_option(command->add_option("-o,--output", options.output, "the model to write"))->required();
  repeated_option(command->add_option("--value", options.values,
                                      "the type of one of these values, where the model does not declare it; ? is an "
                                      "unknown dimension (may be repeated)"),
                  "NAME=f32[1,n,?]");
  choice_option(command->add_option("--weights", options.weights,
                                    "copy (the default), or in-place: the part refers to the weights in the model's "
                                    "own files, and must be in their folder"),
                {"copy", "in-place"}, "HOW")
      ->group(kWeightOptions);
  command
      ->add_flag("--external-data", options.external_data,
                 "write weights to FILE.data, as is always done when the model would be larger than 2 GiB")
      ->group(kWeightOptions);
  size_option(command->add_option("--max-rss", options.max_rss, "limit of resident memory (default: 32M)"))
      ->group(kResourceOptions);
  add_zstd_ratio(*command, options.max_zstd_ratio);
  add_follow_links(*command, options.follow_links);
  command->add_flag("-q,--quiet", options.quiet, "print errors only")->group(kMessageOptions);
  add_errors_option(*command);
  command->footer(
      "Examples:\n"
      "  lowtide extract model.onnx --from hidden --to scores -o head.onnx\n"
      "  lowtide extract model.onnx --to hidden -o part.onnx --weights in-place");
  return command;
}

CLI::App* add_inspect(CLI::App& app, InspectCommand& options) {
  CLI::App* command = app.add_subcommand("inspect", "List an ONNX or TFLite model: operators, tensors, sizes.");
  file_option(command->add_option("file", options.path, "the model (.onnx or .tflite, or either with .zst)"))
      ->required();
  command->add_flag("--json", options.json, "print JSON");
  command->add_flag("--custom", options.custom,
                    "list the custom operators of a TFLite model: names, attributes, tensors");
  file_option(command->add_option("--html", options.html, "write a page with sizes and the graph to this file"));
  add_errors_option(*command);
  add_zstd_ratio(*command, options.max_zstd_ratio);
  add_follow_links(*command, options.follow_links);
  command->footer(
      "Examples:\n"
      "  lowtide inspect model.onnx | less\n"
      "  lowtide inspect --json model.tflite > model.json\n"
      "  lowtide inspect --custom model.tflite\n"
      "  lowtide inspect model.tflite --html model.html");
  return command;
}

CLI::App* add_make_model(CLI::App& app, MakeModelCommand& options) {
  CLI::App* command =
      app.add_subcommand("make-model", "Write a test model of any size, with weights from a seeded generator.");
  std::vector<std::string> names;
  std::string text = "what to make:";
  for (const bench::ModelKind& kind : bench::model_kinds()) {
    names.emplace_back(kind.name);
    text += fmt::format("\n{}: {}", kind.name, kind.summary);
  }
  bench::ModelSpec& spec = options.spec;
  choice_option(command->add_option("kind", spec.kind, text), names, "KIND")->required();
  file_option(
      command->add_option("-o,--output", options.output, "the model to write; external weights go to FILE.data"))
      ->required();
  size_option(command->add_option("--size", spec.size_bytes,
                                  "bytes of weights, such as 64M or 1.5G (powers of 1024; default: the kind's own)"));
  number_option(command->add_option("--nodes", spec.nodes, "number of nodes of many-nodes (default: 1000)"), 0,
                UINT64_MAX);
  number_option(
      command->add_option("--files", spec.files, "number of files for external weights: FILE.data.0 and so on"), 0,
      UINT64_MAX);
  command->add_flag("--external", spec.external,
                    "store weights in a file next to the model (always done from 2 GiB on)");
  number_option(
      command->add_option("--input-size", spec.input_size, "height and width of the input (default: the kind's own)"),
      0, INT32_MAX);
  number_option(command->add_option("--seed", spec.seed, "seed of the weights; the same options give the same bytes"),
                0, UINT64_MAX);
  number_option(command->add_option("--opset", spec.opset, "ONNX opset, 13 to 23 (default: 17)"), 0, INT32_MAX);
  command->add_flag("--plain", spec.plain_kernels,
                    "1x1 kernels, which need no transposing (conv-stack and one-tensor)");
  command->add_flag("--sparse", spec.sparse,
                    "external weights whose files are sparse after their first values: a large model on a small disk");
  command->add_flag("-q,--quiet", options.quiet, "print nothing");
  command->footer(
      "Examples:\n"
      "  lowtide make-model unet -o unet.onnx\n"
      "  lowtide make-model conv-stack --size 4G --external -o stack.onnx");
  return command;
}

CLI::App* add_ops(CLI::App& app, OpsCommand& options) {
  CLI::App* command = app.add_subcommand("ops", "List the ONNX operators that can be converted, and what they become.");
  text_option(command->add_option("operator", options.name, "one operator, such as Conv or com.microsoft.Gelu"),
              "OPERATOR");
  command->add_flag("--json", options.json, "print JSON");
  add_errors_option(*command);
  command->footer(
      "Whether a node is converted depends on its attributes and types too:\n"
      "lowtide convert --dry-run tells.\n\n"
      "Examples:\n"
      "  lowtide ops\n"
      "  lowtide ops Conv\n"
      "  lowtide ops --json > operators.json");
  return command;
}

CLI::App* add_doctor(CLI::App& app, DoctorCommand& options) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what on this machine can limit a conversion: memory limits, disk, kernel.");
  text_option(command->add_option("folder", options.folder, "the folder of the output (default: the current one)"),
              "FOLDER");
  command->add_flag("--json", options.json, "print JSON");
  add_errors_option(*command);
  command->footer(
      "The exit status is 0 if no problem was found, else that of the kind of the first one.\n\n"
      "Examples:\n"
      "  lowtide doctor\n"
      "  lowtide doctor /mnt/models");
  return command;
}

constexpr const char* kDocsName = "generate-docs";

CLI::App* add_generate_docs(CLI::App& app, DocsCommand& options) {
  CLI::App* command = app.add_subcommand(
      kDocsName, "Write manual pages and completions of bash, zsh and fish, in the folders of a share/ folder.");
  command->group("");  // not shown by --help
  text_option(command->add_option("folder", options.folder, "the share/ folder, such as ~/.local/share"), "FOLDER")
      ->required();
  command->footer("Examples:\n  lowtide generate-docs ~/.local/share");
  return command;
}

// `lowtide convert m.onnx m.tflite`
void check_models(const ConvertCommand& convert) {
  for (const std::string& input : convert.inputs)
    if (convert.inputs.size() > 1 && (input.ends_with(".tflite") || input.ends_with(".tflite.zst")))
      usage_error(fmt::format("unexpected argument '{}'; the output is given as -o {}", input, input));
}

void check_links(const std::string& weights, const std::string& follow_links) {
  if (weights == "in-place" && !follow_links.empty())
    usage_error("--weights in-place and --follow-links exclude each other: runtimes do not follow links");
}

// `lowtide help convert` is `lowtide convert --help`.
void replace_help(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "help") return;
  arguments.erase(arguments.begin());
  arguments.push_back("--help");
}

// `--name=` becomes `--name ""`: without it CLI11 would use the next argument as the value.
void divide_empty_values(std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  bool are_options = true;
  for (std::string& argument : arguments) {
    are_options = are_options && argument != "--";
    const bool is_empty = are_options && argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    if (is_empty) argument.pop_back();
    out.push_back(std::move(argument));
    if (is_empty) out.emplace_back();
  }
  arguments = std::move(out);
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  CLI::App app{
      "Converts very large ONNX models to TFLite, and TFLite models to ONNX, in little memory: weights stay on disk "
      "until they are written.",
      "lowtide"};
  app.formatter(help_formatter());
  app.get_formatter()->label("Positionals", "Arguments");
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("-V,--version", "lowtide " LOWTIDE_VERSION, "print the version");
  app.require_subcommand(1);
  app.footer(
      "With the Python package (pip install 'lowtide[run]'): run, verify, calibrate.\n"
      "lowtide generate-docs FOLDER writes manual pages and completions of shells.\n\n"
      "Examples:\n"
      "  lowtide convert model.onnx                  writes model.tflite\n"
      "  lowtide check model.onnx model.tflite\n"
      "  lowtide inspect model.tflite\n"
      "  lowtide convert --help                      all options of a command");
  ConvertCommand convert;
  MergeCommand merge;
  CheckCommand check;
  ExtractCommand extract;
  PartitionCommand partition;
  InspectCommand inspect;
  MakeModelCommand make_model;
  OpsCommand ops;
  DoctorCommand doctor;
  DocsCommand docs;
  CLI::App* convert_app = add_convert(app, convert);
  CLI::App* merge_app = add_merge(app, merge);
  CLI::App* check_app = add_check(app, check);
  CLI::App* extract_app = add_extract(app, extract);
  CLI::App* partition_app = add_partition(app, partition);
  CLI::App* inspect_app = add_inspect(app, inspect);
  CLI::App* make_model_app = add_make_model(app, make_model);
  CLI::App* ops_app = add_ops(app, ops);
  CLI::App* doctor_app = add_doctor(app, doctor);
  CLI::App* docs_app = add_generate_docs(app, docs);
  std::vector<std::string> commands;
  for (CLI::App* command : {convert_app, merge_app, check_app, extract_app, partition_app, inspect_app, make_model_app,
                            ops_app, doctor_app}) {
    command->group("Commands");
    commands.push_back(command->get_name());
  }

  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  convert.arguments = merge.arguments = inspect.arguments = arguments;
  replace_help(arguments);
  check_command_name(commands, kDocsName, arguments);
  if (!is_option(arguments[0])) check_dashes(arguments, *app.get_subcommand(arguments[0]));
  check_flags(arguments, is_option(arguments[0]) ? app : *app.get_subcommand(arguments[0]));
  divide_empty_values(arguments);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return Answer{help_of(app)};
  } catch (const CLI::CallForVersion& version) {
    return Answer{version.what() + std::string("\n")};
  } catch (const CLI::ParseError& error) {
    explain(app, error);
  }
  if (convert_app->parsed()) {
    check_models(convert);
    check_links(convert.weights, convert.follow_links);
    return convert;
  }
  if (merge_app->parsed()) return merge;
  if (check_app->parsed()) return check;
  if (extract_app->parsed()) {
    check_links(extract.weights, extract.follow_links);
    return extract;
  }
  if (partition_app->parsed()) {
    check_links(partition.weights, partition.follow_links);
    return partition;
  }
  if (inspect_app->parsed()) return inspect;
  if (ops_app->parsed()) return ops;
  if (doctor_app->parsed()) return doctor;
  if (docs_app->parsed()) {
    docs.program = described_program(app);
    return docs;
  }
  return make_model;
}

}  // namespace lowtide::tools
