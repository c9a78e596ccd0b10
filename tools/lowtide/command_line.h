// SPDX-License-Identifier: Apache-2.0
// The command line as plain data: one struct of options for each command, and the function that fills one of them.
// Only command_line.cc, partition_options.*, option_values.*, help_text.* and parser_errors.* include CLI11.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bench/model_spec.h"
#include "stream/file/file.h"
#include "stream/file/zstd_source.h"
#include "tools/lowtide/partition_command.h"
#include "tools/lowtide/program_description.h"
#include "tools/lowtide/usage_error.h"

namespace lowtide::tools {

// Options that decide the result of a conversion, common to `convert` and `check`.
struct ConversionOptions {
  std::string input;
  std::vector<std::string> shapes, layouts;  // "NAME=VALUE" as given
  std::vector<std::string> dims, constants;  // the same, of --dim and --const
  std::vector<std::string> outputs;          // names; empty: the model's own
  std::string signature;                     // its name; empty: the default
  std::vector<std::string> raw_images;       // --input-uint8: names of inputs
  std::string mean, std;                     // lists of numbers; empty: not given
  std::string labels;                        // a file; empty: none
  bool metadata = false;
  std::string follow_links;                   // a folder; empty: links are refused
  std::vector<std::string> include, exclude;  // patterns of weights' names
  std::string weights = "stored";
  bool external = false, quiet = false, verbose = false;
  std::string log;                         // a file; empty: none
  std::string quantize, ranges, range;     // "int8" or "int16x8", a file, "mse"; empty: not given
  bool per_tensor = false;                 // one scale for all channels of a weight
  std::string equalize;                    // "channels" or "none"; empty: not given
  std::string correct;                     // "means", "layers" or "none"; empty: not given
  std::vector<std::string> keep_float;     // patterns of names of nodes and of their outputs
  bool require_integer = false;            // refuse what is computed in floats
  bool tables = false;                     // functions without an integer kernel become tables
  bool strict_types = false;               // refuse what is computed in fewer bits
  std::string made_for;                    // a target (for_target.h); empty: a processor
  std::string custom_ops, custom_ops_map;  // "allow=Clamp,my.ops:Clip", a file; empty: not given
  std::string border;    // the type of inputs and outputs of a quantized model; empty: as in the model
  uint64_t max_rss = 0;  // bytes; 0: not given
  int threads = 0;       // 0: not given
  uint64_t max_zstd_ratio = stream::kMaxZstdRatio;  // 0: no limit
  stream::Access access = stream::Access::kMap;
};

inline constexpr int kUsualZstdLevel = 3;

// How the TFLite file is written and what is said of it, common to `convert` and `merge`.
struct OutputOptions {
  std::string output, report;          // empty: not given
  std::vector<std::string> arguments;  // all, as given
  bool dry_run = false, verify = false;
  int zstd_level = 0;    // 0: not given
  int progress_fd = -1;  // -1: not given
};

struct ConvertCommand : ConversionOptions, OutputOptions {
  std::vector<std::string> inputs;  // `input` is one of them, or "-" for standard input, while it is converted
  std::string dump_after;           // empty: not given
  int64_t opset = 0;                // of an ONNX output; 0: not given
  bool external_data = false;
};

// Options with names of inputs, outputs and dimensions have the signature in front: "encode:x=1,3".
struct MergeCommand : ConversionOptions, OutputOptions {
  std::vector<std::string> models;  // "SIGNATURE=PATH"
};

struct CheckCommand : ConversionOptions {
  std::string tflite;
};

struct ExtractCommand {
  std::string input, output;
  std::vector<std::string> from, to;  // names of values; from: empty: the model's inputs
  std::vector<std::string> values;    // "NAME=f32[1,n,?]" as given
  std::string weights = "copy";
  bool external_data = false, quiet = false;
  uint64_t max_rss = 0;  // bytes; 0: not given
  uint64_t max_zstd_ratio = stream::kMaxZstdRatio;
  std::string follow_links;  // a folder; empty: links are refused
};

struct InspectCommand {
  std::string path, html;              // html: empty when not given
  std::vector<std::string> arguments;  // all, as given
  bool json = false, custom = false;
  uint64_t max_zstd_ratio = stream::kMaxZstdRatio;
  std::string follow_links;  // a folder; empty: links are refused
};

struct MakeModelCommand {
  bench::ModelSpec spec;
  std::string output;
  bool quiet = false;
};

struct OpsCommand {
  std::string name;  // empty: all operators
  bool json = false;
};

struct DoctorCommand {
  std::string folder = ".";
  bool json = false;
};

// Not shown by --help: for those who build packages.
struct DocsCommand {
  std::string folder;
  ProgramDescription program;
};

// Text for standard output: --help, --version.
struct Answer {
  std::string text;
};

using Command = std::variant<Answer, ConvertCommand, MergeCommand, CheckCommand, ExtractCommand, PartitionCommand,
                             InspectCommand, MakeModelCommand, OpsCommand, DoctorCommand, DocsCommand>;

// Throws stream::Error(kUsage), which says which argument is wrong and what would be right.
Command parse_command_line(int argc, const char* const* argv);

}  // namespace lowtide::tools
