// A whole conversion, from an ONNX file in memory to a TFLite file in memory. What was written must be readable, of the
// planned size, and the same bytes whatever the budget and the number of threads.
//
// The input is an ONNX file; its model_version, which means nothing to a conversion, chooses the options (see Choice).
#include "emit/listing.h"
#include "emit/tflite_writer.h"
#include "layout/convert.h"
#include "stream/onnx_reader.h"
#include "stream/tflite_reader.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

constexpr uint64_t kLargestOutput = uint64_t{64} << 20;
constexpr uint64_t kWrittenTwice = uint64_t{1} << 20;
constexpr uint64_t kSmallBudget = uint64_t{1} << 20;

struct Choice {
  explicit Choice(int64_t bits)
      : external(bits & 1), twice(bits & 2), pin_inputs(bits & 4), pin_outputs(bits & 8), small(bits & 16) {}
  bool external, twice, pin_inputs, pin_outputs, small;
};

std::vector<std::byte> contents(const std::filesystem::path& path) {
  auto file = stream::open_file(path);
  std::vector<std::byte> bytes(file->size());
  file->read_at(0, bytes);
  return bytes;
}

layout::ConvertOptions layout_options(const onnx::Model& model, const Choice& choice) {
  layout::ConvertOptions options;
  if (choice.pin_inputs)
    for (const auto& input : model.graph.inputs) options.layouts[input.name] = "nhwc";
  if (choice.pin_outputs)
    for (const auto& output : model.graph.outputs) options.layouts[output.name] = "nhwc";
  return options;
}

void check_written(const std::filesystem::path& path, const emit::Plan& plan) {
  const tfl::Model written = stream::read_tflite(path);
  if (written.file_bytes != plan.file_bytes) fuzz::finding("the file is not as large as planned");
  emit::listing_text(emit::listing(written));
}

void write(const emit::Plan& plan, const Choice& choice) {
  const std::filesystem::path path = fuzz::scratch_folder() / "out.tflite";
  emit::WriteOptions options;
  options.external_buffers = choice.external;
  bool done = fuzz::only_errors([&] {
    stream::Budget budget(choice.small ? kSmallBudget : fuzz::kBudget);
    write_tflite(plan, path, budget, options);
  });
  if (!done) return;
  try {
    check_written(path, plan);
  } catch (const stream::Error& error) {
    fuzz::finding(std::string("what was written cannot be read: ") + error.what());
  }
  if (!choice.twice || plan.file_bytes > kWrittenTwice) return;
  const std::vector<std::byte> first = contents(path);
  options.threads = 2;
  done = fuzz::only_errors([&] {
    stream::Budget budget(2 * fuzz::kBudget);
    write_tflite(plan, path, budget, options);
  });
  if (done && contents(path) != first) fuzz::finding("two budgets, two files");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    onnx::Model model = stream::read_onnx(stream::memory_source(fuzz::bytes_of(data, size), "fuzz.onnx"), {}, budget);
    const Choice choice(model.model_version);
    layout::ConvertResult converted = layout::convert(model, layout_options(model, choice), budget);
    if (!converted.refused.empty()) return;
    emit::WriteOptions options;
    options.external_buffers = choice.external;
    const emit::Plan plan = emit::plan_tflite(*converted.model, options);
    if (plan.file_bytes <= kLargestOutput) write(plan, choice);
  });
  return 0;
}
