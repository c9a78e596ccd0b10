// lowtide convert: ONNX to TFLite.
#include "layout/convert.h"

#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "emit/listing.h"
#include "emit/report.h"
#include "emit/resident.h"
#include "emit/tflite_writer.h"
#include "stream/file.h"
#include "stream/onnx_reader.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/option_values.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/text_file.h"

namespace {

namespace fs = std::filesystem;
using lowtide::emit::ResidentMarks;
using lowtide::stream::Budget;
using lowtide::stream::Code;
using lowtide::stream::Error;
using lowtide::stream::Unsupported;

// Beside tiles and windows a conversion needs room for what comes and goes on the heap.
constexpr uint64_t kHeapMargin = uint64_t{2} << 20;
// The least that a model is read in and a recipe poured.
constexpr uint64_t kSmallestBudget = uint64_t{1} << 20;
constexpr uint64_t kMiB = uint64_t{1} << 20;
// Without --max-rss: this, or more when the graph alone is that large.
constexpr uint64_t kUsualRss = 32 * kMiB;
constexpr uint64_t kUsualBudget = 8 * kMiB;

// What becomes of the weights: --weights.
using lowtide::layout::WeightForm;
struct Weights {
  WeightForm form = WeightForm::kFloat;
  bool in_place = false;
};
const std::map<std::string, Weights> kWeights = {{"float", {}},
                                                 {"f16", {WeightForm::kHalf}},
                                                 {"int8", {WeightForm::kInt8}},
                                                 {"int4", {WeightForm::kInt4}},
                                                 {"in-place", {WeightForm::kFloat, true}}};

struct Options {
  std::string input, output, report, dump_after;
  std::vector<std::string> shapes, layouts, include, exclude;
  uint64_t max_rss = 0;  // 0: not given
  int threads = 0;
  bool dry_run = false, quiet = false, verbose = false, external = false;
  std::string weights = "float";

  Weights mode() const { return kWeights.at(weights); }
};

// What is seen while the passes run.
struct Watch {
  ResidentMarks marks;
  bool dumped = false;  // the pass of --dump-after was there
};

[[noreturn]] void usage(std::string text) { throw Error(Code::kUsage, std::move(text)); }

// "NAME=VALUE"; a name may hold '=' itself, a value does not.
std::pair<std::string, std::string> divide(const std::string& option, const std::string& text) {
  size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    usage(fmt::format("{} '{}' is not of the form NAME=VALUE", option, text));
  return {text.substr(0, at), text.substr(at + 1)};
}

lowtide::core::Shape parse_shape(const std::string& option, const std::string& text) {
  lowtide::core::Shape shape;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int64_t extent = -1;
    auto [rest, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 0 || (rest != end && *rest != ','))
      usage(fmt::format("{}: '{}' is not a list of extents such as 1,3,512,512", option, text));
    shape.push_back(extent);
    if (rest == end) return shape;
    at = rest + 1;
  }
}

lowtide::layout::ConvertOptions layout_options(const Options& options, Watch& watch) {
  lowtide::layout::ConvertOptions out;
  for (const std::string& text : options.shapes) {
    auto [name, shape] = divide("--shape", text);
    if (!out.shapes.emplace(name, parse_shape("--shape " + name, shape)).second)
      usage(fmt::format("--shape {} is given twice", name));
  }
  for (const std::string& text : options.layouts) {
    auto [name, layout] = divide("--layout", text);
    if (layout != "nhwc" && layout != "nchw")
      usage(fmt::format("--layout {}: '{}' is neither nhwc nor nchw", name, layout));
    if (!out.layouts.emplace(name, layout).second) usage(fmt::format("--layout {} is given twice", name));
  }
  out.keep_weights = options.mode().in_place;
  out.weights = {.form = options.mode().form, .include = options.include, .exclude = options.exclude};
  if (out.weights.form == WeightForm::kFloat && !(options.include.empty() && options.exclude.empty()))
    usage("--weights-include and --weights-exclude choose among what --weights f16, int8 or int4 changes: give one");
  auto begun = std::chrono::steady_clock::now();
  out.after_pass = [begun, &watch, dump = options.dump_after](std::string_view pass,
                                                              const lowtide::core::Model& model) {
    watch.marks.sample();
    size_t ops = 0;
    for (const auto& graph : model.graphs) ops += graph->ops.size();
    spdlog::debug("{:8.1f} ms  {}: {} operators",
                  std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count(), pass,
                  ops);
    if (pass != dump) return;
    watch.dumped = true;
    fmt::print("{}", lowtide::emit::listing_text(lowtide::emit::listing(model)));
  };
  return out;
}

// Where the output goes: the input's name with .tflite in its folder, unless one is given.
fs::path output_path(const Options& options) {
  fs::path input = options.input;
  if (input.extension() == ".zst") input.replace_extension();
  return options.output.empty() ? input.replace_extension(".tflite") : fs::path(options.output);
}

// True when both paths name one file, which need not exist.
bool one_place(const fs::path& a, const fs::path& b) {
  std::error_code first, second;
  return lowtide::stream::same_file(a, b) ||
         fs::weakly_canonical(fs::absolute(a), first) == fs::weakly_canonical(fs::absolute(b), second);
}

void check_paths(const Options& options, const fs::path& output) {
  if (fs::path(options.input) == output || lowtide::stream::same_file(options.input, output))
    usage(fmt::format("the output {} is the input", output.string()));
  if (options.report.empty()) return;
  if (lowtide::stream::same_file(options.input, options.report) || one_place(options.report, output))
    usage(fmt::format("the report {} is the input or the output", options.report));
  // Found now and not when the model is written.
  std::error_code none;
  if (fs::exists(options.report, none) && !fs::is_regular_file(options.report, none))
    throw Error(Code::kUnsafePath, fmt::format("the report {} exists and is not a regular file", options.report));
  fs::path folder = fs::absolute(options.report).parent_path();
  if (access(folder.c_str(), W_OK) != 0)
    throw Error(Code::kNotFound, fmt::format("the report's folder {} cannot be written", folder.string()));
}

// Neither the output nor the report may replace a file that the weights are read from.
void check_sources(const lowtide::onnx::Model& model, const fs::path& output, const fs::path& report) {
  for (const auto& source : model.sources)
    for (const auto& [what, path] : {std::pair{"output", output}, std::pair{"report", report}})
      if (lowtide::stream::same_file(source->name(), path))
        usage(fmt::format("the {} {} holds weights of the model", what, path.string()));
}

// What is left of --max-rss beside the memory that the process has now.
uint64_t left_of(uint64_t max_rss) {
  uint64_t taken = lowtide::emit::resident().now + kHeapMargin;
  return max_rss > taken ? max_rss - taken : 0;
}

// The same for writing, when all that grows with the nodes is in memory: so what is asked for here is enough.
uint64_t writing_budget(uint64_t max_rss) {
  lowtide::emit::Resident resident = lowtide::emit::resident();
  uint64_t needed = std::max(resident.peak, resident.now + kHeapMargin + kSmallestBudget);
  if (max_rss >= needed) return left_of(max_rss);
  throw Error(Code::kBudget, fmt::format("--max-rss {} is too small for this model: {}M would do",
                                         lowtide::emit::memory_size(max_rss), needed / kMiB + 1));
}

// All refused nodes at once, those with one reason together; a single one is an error like any other.
[[noreturn]] void refuse(const std::vector<Unsupported>& refused, const std::string& input) {
  if (refused.size() == 1) throw refused[0];
  std::map<std::string, std::vector<std::string>> nodes_of;
  for (const Unsupported& node : refused)
    nodes_of[fmt::format("{}: {}", node.where().op, node.text())].push_back(node.where().node);
  // Names come from the file.
  auto print = [](const std::string& line) { fmt::print(stderr, "{}\n", lowtide::stream::printable(line)); };
  print(fmt::format("lowtide: {}: {} nodes cannot be converted [unsupported]", input, refused.size()));
  for (const auto& [reason, nodes] : nodes_of) {
    print(fmt::format("  {} ({} node{})", reason, nodes.size(), nodes.size() == 1 ? "" : "s"));
    for (const std::string& node : nodes) print("    " + node);
  }
  throw Exit{lowtide::stream::exit_status(Code::kUnsupported)};
}

int thread_count(int asked) {
  if (asked > 0) return asked;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 2u));
}

void write_output(const Options& options, std::unique_ptr<lowtide::core::Model> model, const fs::path& output,
                  ResidentMarks& marks, ProgressBar& bar, lowtide::emit::Report& report) {
  lowtide::emit::WriteOptions write;
  write.threads = report.threads;
  write.progress = &bar;
  write.external_buffers = options.external;
  if (options.mode().in_place) write.in_place = output.parent_path();
  lowtide::emit::Plan plan = plan_tflite(*model, write);
  model.reset();
  malloc_trim(0);  // what reading, the passes and the plan needed goes back before tiles take its place
  if (options.max_rss == 0)
    report.max_rss = std::max(
        {kUsualRss, lowtide::emit::resident().peak, lowtide::emit::resident().now + kHeapMargin + kUsualBudget});
  Budget budget(writing_budget(report.max_rss));
  report.written = options.dry_run ? summary(plan) : write_tflite(plan, output, budget, write);
  bar.finish();
  marks.sample();
  report.budget_peak = std::max(report.budget_peak, budget.high_water());
}

void log_to_stderr() {
  spdlog::set_default_logger(spdlog::stderr_logger_st("lowtide"));
  spdlog::set_pattern("%v");
  spdlog::set_level(spdlog::level::debug);
}

// The model read, converted and written; fills the report but for what the whole process took.
void convert(const Options& options, lowtide::layout::ConvertOptions layout, const fs::path& output, Watch& watch,
             lowtide::emit::Report& report) {
  Budget budget(std::max(left_of(report.max_rss), kSmallestBudget));
  lowtide::onnx::Model onnx = lowtide::stream::read_onnx(options.input, budget, output.parent_path());
  check_sources(onnx, output, options.report);
  report.input_bytes = onnx.file_bytes + onnx.external_bytes;
  report.nodes = onnx.graph.nodes.size();
  ProgressBar bar(options.quiet, watch.marks);
  layout.weights.threads = report.threads;
  layout.weights.progress = &bar;
  lowtide::layout::ConvertResult converted = lowtide::layout::convert(onnx, layout, budget);
  bar.finish();
  // Constants that the passes have read are not read again: what they are read from is looked at now.
  for (const auto& source : onnx.sources) source->check_unchanged();
  if (!converted.refused.empty()) refuse(converted.refused, options.input);
  if (!options.dump_after.empty() && !watch.dumped)
    usage(fmt::format("--dump-after: no pass is called '{}' (see --verbose)", options.dump_after));
  onnx = {};
  report.budget_peak = budget.high_water();
  report.weights = std::move(converted.weights);
  write_output(options, std::move(converted.model), output, watch.marks, bar, report);
}

void run(const Options& options) {
  auto begun = std::chrono::steady_clock::now();
  if (options.verbose) log_to_stderr();
  Watch watch;
  lowtide::layout::ConvertOptions layout = layout_options(options, watch);
  fs::path output = output_path(options);
  check_paths(options, output);

  lowtide::emit::Report report;
  report.input = options.input;
  report.output = output.string();
  report.dry_run = options.dry_run;
  report.in_place = options.mode().in_place;
  report.shrinks = options.mode().form != WeightForm::kFloat;
  report.weight_form = options.weights;
  report.max_rss = options.max_rss > 0 ? options.max_rss : kUsualRss;
  report.threads = thread_count(options.threads);
  try {
    convert(options, layout, output, watch, report);
  } catch (Error& error) {
    error.add_place({.file = options.input});
    throw;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  report.peak_rss = lowtide::emit::resident().peak;
  report.peak_anonymous = watch.marks.anonymous();
  report.peak_file = watch.marks.file();
  if (!options.quiet) fmt::print("{}", report_text(report));
  if (!options.report.empty()) write_text(options.report, report_json(report));
}

}  // namespace

void add_convert(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("convert", "Convert an ONNX model to TFLite");
  file_name(command->add_option("model", options->input, "The ONNX model (.onnx or .onnx.zst)"))->required();
  file_name(
      command->add_option("-o,--output", options->output, "Where to write (default: the model's name with .tflite)"));
  size(command->add_option("--max-rss", options->max_rss,
                           "Resident memory to stay below; K, M, G are powers of 1024 (default: 32M, more for very "
                           "large graphs)"));
  command->add_option("--shape", options->shapes, "Fixes a dynamic input's shape; may be repeated")
      ->type_name("INPUT=1,3,512,512")
      ->allow_extra_args(false);
  command
      ->add_option("--layout", options->layouts,
                   "Gives an input or output TFLite's axis order instead of ONNX's; may be repeated")
      ->type_name("NAME=nhwc")
      ->allow_extra_args(false);
  command
      ->add_option("--threads", options->threads, "Threads that pour weights (default: 2, fewer on a smaller machine)")
      ->check(CLI::Range(1, 256));
  command->add_flag("--dry-run", options->dry_run, "Convert and print the sizes, but write nothing");
  command
      ->add_option(
          "--weights", options->weights,
          "What becomes of the weights: float (the default); f16, int8 or int4: fewer bits, where kernels take "
          "them; or in-place: what needs no change is not copied but read from the ONNX model's own files")
      ->check(CLI::IsMember(kWeights).description(""))
      ->type_name("MODE");
  command
      ->add_option("--weights-include", options->include,
                   "Make only weights smaller whose name, or whose node's, is like this; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command
      ->add_option("--weights-exclude", options->exclude, "Leave weights of such a name as they are; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command->add_flag("--external-buffers", options->external,
                    "Put weights behind the flatbuffer whatever the size (files over 2 GiB always have them there)");
  CLI::Option* quiet = command->add_flag("--quiet", options->quiet, "Print errors only");
  command->add_flag("--verbose", options->verbose, "Print each pass and its time")->excludes(quiet);
  file_name(command->add_option("--report", options->report, "Write the report as JSON to this file"));
  command->add_option("--dump-after", options->dump_after, "Print the graph after this pass, such as lower")
      ->type_name("PASS");
  command->callback([options] { run(*options); });
}
