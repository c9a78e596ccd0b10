// SPDX-License-Identifier: Apache-2.0
// A whole conversion, from an ONNX file in memory to a TFLite file in memory. What was written must be readable, of the
// planned size, and the same bytes whatever the budget and the number of threads, compressed or not.
//
// The input is an ONNX file; its model_version, which means nothing to a conversion, chooses the options (see Choice).
#include <algorithm>
#include <map>
#include <set>

#include "emit/listing.h"
#include "emit/make_plan.h"
#include "emit/tflite_writer.h"
#include "emit/verify.h"
#include "layout/convert.h"
#include "stream/file/out_file.h"
#include "stream/file/seekable_source.h"
#include "stream/onnx/reader.h"
#include "stream/tflite/reader.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

// Of a file, and of constants: this build takes a quarter of a second for a MiB of a DFT's matrix.
constexpr uint64_t kLargestOutput = uint64_t{16} << 20;
constexpr uint64_t kWrittenTwice = uint64_t{1} << 20;
constexpr uint64_t kSmallBudget = uint64_t{1} << 20;

struct Choice {
  explicit Choice(int64_t bits)
      : external(bits & 1),
        twice(bits & 2),
        pin_inputs(bits & 4),
        pin_outputs(bits & 8),
        small(bits & 16),
        compressed(bits & 32),
        verified(bits & 64),
        weights(
            static_cast<layout::WeightForm>((bits >> 7 & 7) % (static_cast<int>(layout::WeightForm::kInPlace) + 1))),
        for_gpu(bits >> 10 & 1),
        tables(!for_gpu && (bits >> 11 & 1)),
        custom(bits >> 12 & 1),
        calibrated((bits >> 13 & 1) && (weights == layout::WeightForm::kStored ||
                                        weights == layout::WeightForm::kFloat || weights == layout::WeightForm::kHalf)),
        wide(bits >> 14 & 1),
        border(kBorders[bits >> 15 & 3]),
        other_batch(bits >> 17 & 1) {}
  static constexpr std::array<std::optional<core::DType>, 4> kBorders = {std::nullopt, core::DType::kInt8,
                                                                         core::DType::kUint8, core::DType::kFloat32};
  bool external, twice, pin_inputs, pin_outputs, small, compressed, verified;
  layout::WeightForm weights;
  bool for_gpu, tables, custom, calibrated;  // as users may combine them
  bool wide;                                 // i16, one scale for all channels of a weight
  std::optional<core::DType> border;
  bool other_batch;  // as --shape gives it
};

std::vector<std::byte> contents(const stream::Source& file) {
  std::vector<std::byte> bytes(file.size());
  file.read_at(0, bytes);
  return bytes;
}

bool has_large_constants(const core::Model& model) {
  uint64_t left = kLargestOutput;
  for (const auto& graph : model.graphs)
    for (const core::Value& value : graph->values) {
      if (!value.constant) continue;
      if (value.constant->bytes() > left) return true;
      left -= value.constant->bytes();
    }
  return false;
}

// Ranges for all values of the main graph; some are 0 always, some hold no 0.
layout::Calibrated ranges(const onnx::Graph& graph, bool wide) {
  constexpr size_t kKinds = 5;
  constexpr std::array<layout::Interval, kKinds> kSeen = {
      {{-1.5, 2.0}, {0.0, 6.0}, {-100.0, -3.0}, {0.0, 0.0}, {-1e-30, 1e30}}};
  layout::Calibrated out{.file = "ranges"};
  if (wide) out.activations = core::DType::kInt16;
  out.per_tensor = wide;
  size_t number = 0;
  const auto add = [&](const std::string& name) {
    const layout::Interval seen = kSeen[number++ % kKinds];
    if (!name.empty())
      out.tensors[name] = {.seen = seen, .interval = {std::min(seen.low, 0.0), std::max(seen.high, 0.0)}};
  };
  for (const auto& input : graph.inputs) add(input.name);
  for (const auto& node : graph.nodes)
    for (const std::string& output : node.outputs) add(output);
  return out;
}

// A batch of 1 and of 2 become larger, all others become 1.
std::map<std::string, core::Shape> other_batches(const onnx::Graph& graph) {
  std::map<std::string, core::Shape> out;
  std::set<std::string> constants;
  for (const auto& tensor : graph.initializers) constants.insert(tensor.name);
  for (const auto& input : graph.inputs) {
    core::Shape shape;
    for (const auto& dim : input.dims) shape.push_back(dim.value);
    const bool is_known = std::all_of(shape.begin(), shape.end(), [](core::Dim dim) { return dim >= 0; });
    if (shape.empty() || !is_known || shape[0] == 0 || constants.contains(input.name)) continue;
    shape[0] = shape[0] > 2 ? 1 : shape[0] + 2;
    out[input.name] = std::move(shape);
  }
  return out;
}

layout::ConvertOptions layout_options(const onnx::Model& model, const Choice& choice) {
  layout::ConvertOptions options;
  options.weights.form = choice.weights;
  options.for_gpu = choice.for_gpu;
  options.tables = choice.tables;
  options.custom.all = choice.custom;
  options.border = choice.border;
  if (choice.other_batch) options.shapes = other_batches(model.graph);
  if (choice.calibrated) options.calibrated = ranges(model.graph, choice.wide);
  if (choice.pin_inputs)
    for (const auto& input : model.graph.inputs) options.layouts[input.name] = "nhwc";
  if (choice.pin_outputs)
    for (const auto& output : model.graph.outputs) options.layouts[output.name] = "nhwc";
  options.after_pass = [measured = choice.calibrated](std::string_view pass, const core::Model& found) {
    for (const auto& graph : found.graphs)
      if (!graph->is_tidy()) fuzz::finding("the graph is not tidy after the pass " + std::string(pass));
    // From here on they are computed: measured where the weights are to be integers, and written.
    if ((pass == "legalise" || (measured && pass == "merge_equal_again")) && has_large_constants(found))
      throw stream::Unsupported("the constants are too large for fuzzing");
  };
  return options;
}

// The file's bytes, after reading them as a model.
std::vector<std::byte> check_written(std::shared_ptr<stream::Source> file, const emit::Plan& plan) {
  try {
    stream::Budget budget(fuzz::kBudget);
    const tfl::Model written = stream::read_tflite(file, budget);
    if (written.file_bytes != plan.file_bytes) fuzz::finding("the file is not as large as planned");
    emit::listing_text(emit::listing(written));
    return contents(*file);
  } catch (const stream::Error& error) {
    fuzz::finding(std::string("what was written cannot be read: ") + error.what());
  }
}

// nullopt after an error that users may get.
std::optional<std::vector<std::byte>> written(const emit::Plan& plan, uint64_t limit,
                                              const emit::WriteOptions& options) {
  const std::filesystem::path path = fuzz::scratch_folder() / "out.tflite";
  stream::Budget budget(limit), own(fuzz::kBudget);
  if (!fuzz::only_errors([&] { write_tflite(plan, path, budget, options); })) return std::nullopt;
  auto file = stream::open_file(path);
  return check_written(options.zstd_level ? stream::open_seekable(file, own) : file, plan);
}

emit::WriteOptions write_options(const Choice& choice) {
  emit::WriteOptions options;
  options.external_buffers = choice.external;
  if (choice.weights == layout::WeightForm::kInPlace) options.in_place = fuzz::scratch_folder();
  if (choice.verified)
    options.on_verified = [](const emit::VerifiedTensor& tensor) {
      if (tensor.difference) fuzz::finding("other bytes than the recipe's: " + tensor.tensor);
    };
  return options;
}

void write(const emit::Plan& plan, const Choice& choice) {
  emit::WriteOptions options = write_options(choice);
  const auto first = written(plan, choice.small ? kSmallBudget : fuzz::kBudget, options);
  if (!first || plan.file_bytes > kWrittenTwice) return;
  auto compare = [&](const char* what) {
    const auto second = written(plan, 2 * fuzz::kBudget, options);
    if (second && *second != *first) fuzz::finding(what);
  };
  options.threads = 2;
  if (choice.twice) compare("two budgets, two files");
  options.zstd_level = 1;
  if (choice.compressed) compare("compressed is not the same");
}

// The same model from a file, because --weights in-place needs one.
onnx::Model read_again(const std::vector<std::byte>& bytes, stream::Budget& budget) {
  const std::filesystem::path path = fuzz::scratch_folder() / "fuzz.onnx";
  stream::OutFile file(path, bytes.size());
  file.write_at(0, bytes);
  file.commit();
  return stream::read_onnx(path, budget);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    const std::vector<std::byte> bytes = fuzz::bytes_of(data, size);
    onnx::Model model = stream::read_onnx(stream::memory_source(bytes, "fuzz.onnx"), {}, budget);
    const Choice choice(model.model_version);
    if (choice.weights == layout::WeightForm::kInPlace) model = read_again(bytes, budget);
    layout::ConvertResult converted = layout::convert(model, layout_options(model, choice), budget);
    if (!converted.refused.empty()) return;
    const emit::Plan plan = emit::plan_tflite(*converted.model, write_options(choice));
    if (plan.file_bytes <= kLargestOutput) write(plan, choice);
  });
  return 0;
}
