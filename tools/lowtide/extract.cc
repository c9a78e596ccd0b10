// SPDX-License-Identifier: Apache-2.0
// lowtide extract: the part of an ONNX model between values, as an ONNX model. Weights are copied as a stream, or stay
// where they are.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "emit/onnx_writer.h"
#include "emit/report.h"
#include "layout/sub_model.h"
#include "stream/file/file.h"
#include "stream/onnx/reader.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/declared_values.h"
#include "tools/lowtide/memory_limit.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/resident.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;
using stream::Budget;

emit::OnnxWriteOptions write_options(const ExtractCommand& command) {
  using Weights = emit::OnnxWriteOptions::Weights;
  const bool in_place = command.weights == "in-place";
  if (in_place && command.external_data)
    usage_error("options '--weights in-place' and '--external-data' exclude each other");
  if (in_place && fs::path(command.input).extension() == ".zst")
    usage_error("--weights in-place needs a model that is not compressed: its weights are not in a file");
  emit::OnnxWriteOptions out;
  out.weights = in_place ? Weights::kInPlace : command.external_data ? Weights::kExternal : Weights::kAutomatic;
  return out;
}

void check_paths(const ExtractCommand& command) {
  if (command.input == "-")
    usage_error("extract reads the model several times, so it cannot be standard input; give a file");
  if (command.output == "-") usage_error("extract writes a file: give its name with -o FILE");
  if (fs::path(command.output).extension() == ".zst") usage_error("extract writes ONNX files that are not compressed");
  if (fs::path(command.input) == command.output || stream::same_file(command.input, command.output))
    usage_error(fmt::format("the output {} is the input; give another name with -o", command.output));
}

onnx::Model read_part(const ExtractCommand& command, const layout::PartEnds& ends, const MemoryLimit& limit) {
  Budget budget(limit.graph_budget());
  try {
    const fs::path folder = fs::path(command.output).parent_path();
    const onnx::Model model =
        stream::read_onnx(command.input, budget, {.folder = folder, .max_ratio = command.max_zstd_ratio},
                          stream::Access::kMap, command.follow_links);
    return layout::sub_model(model, ends);
  } catch (const stream::OverBudget& error) {
    limit.refuse_reading(error.needed());
  } catch (stream::Error& error) {
    if (error.code() == stream::Code::kUsage) error.add_place({.file = command.input});
    throw;
  }
}

void tell(const ExtractCommand& command, size_t nodes, const emit::OnnxWriteResult& written) {
  fmt::print("{}: {} nodes, {}", stream::printable(command.output), nodes, emit::file_size(written.file_bytes));
  if (!written.data_name.empty())
    fmt::print(", {}: {}", stream::printable(written.data_name), emit::file_size(written.data_bytes));
  for (const emit::NamedFile& file : written.files)
    fmt::print(", in place in {}: {}", stream::printable(file.name), emit::file_size(file.bytes));
  fmt::print("; peak RSS {}\n", emit::memory_size(resident().peak));
}

}  // namespace

void extract_model(const ExtractCommand& command) {
  check_paths(command);
  emit::OnnxWriteOptions options = write_options(command);
  const layout::PartEnds ends{.from = command.from, .to = command.to, .types = declared_values(command.values)};
  MemoryLimit limit(command.max_rss);
  limit.allow_graph(command.input);
  const onnx::Model part = read_part(command, ends, limit);
  const emit::OnnxPlan plan = emit::plan_onnx(part, command.output, options);
  ResidentMarks marks;
  ProgressBar bar(command.quiet, marks);
  options.progress = &bar;
  options.threads = default_threads();
  Budget budget(limit.writing_budget(emit::least_budget(plan), options.threads));
  const emit::OnnxWriteResult written = emit::write_onnx(plan, part, command.output, budget, options);
  bar.finish();
  if (!command.quiet) tell(command, part.graph.nodes.size(), written);
}

}  // namespace lowtide::tools
