// SPDX-License-Identifier: Apache-2.0
// A whole conversion the other way, from a TFLite file in memory to an ONNX file. What was written must be readable,
// and of the planned size. The number of bytes, which means nothing to a conversion, chooses the options.
#include "emit/onnx_plan.h"
#include "emit/onnx_writer.h"
#include "layout/raise_model.h"
#include "stream/onnx/reader.h"
#include "stream/tflite/reader.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

constexpr uint64_t kLargestOutput = uint64_t{64} << 20;

layout::RaiseOptions raise_options(size_t bits) {
  layout::RaiseOptions out;
  out.file.kept.all = (bits & 1) != 0;
  if (bits & 2) out.opset = layout::kMostRaisedOpset;
  return out;
}

void write(const onnx::Model& model, size_t bits) {
  const std::filesystem::path path = fuzz::scratch_folder() / "out.onnx";
  emit::OnnxWriteOptions options;
  if (bits & 4) options.weights = emit::OnnxWriteOptions::Weights::kExternal;
  const emit::OnnxPlan plan = emit::plan_onnx(model, path, options);
  if (plan.model.file_bytes > kLargestOutput || (plan.beside && plan.beside->file_bytes > kLargestOutput)) return;
  stream::Budget budget(fuzz::kBudget), reading(fuzz::kBudget);
  const emit::OnnxWriteResult written = write_onnx(plan, model, path, budget, options);
  try {
    const onnx::Model again = stream::read_onnx(path, reading);
    if (again.file_bytes != written.file_bytes) fuzz::finding("the file is not as large as planned");
    if (again.graph.nodes.size() != model.graph.nodes.size()) fuzz::finding("nodes were lost");
  } catch (const stream::Error& error) {
    fuzz::finding(std::string("what was written cannot be read: ") + error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    const tfl::Model model =
        stream::read_tflite(stream::memory_source(fuzz::bytes_of(data, size), "fuzz.tflite"), budget);
    const layout::RaiseResult raised = layout::raise_model(model, raise_options(size), budget);
    if (raised.refused.empty()) write(raised.model, size);
  });
  return 0;
}
