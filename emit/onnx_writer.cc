// SPDX-License-Identifier: Apache-2.0
#include "emit/onnx_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "emit/back_to_front.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/out_file.h"
#include "stream/progress.h"

namespace lowtide::emit {
namespace {

namespace fs = std::filesystem;

// Of RecipeReader, for elements that are not aligned in the file: behind text they are not.
constexpr uint64_t kAligningTile = uint64_t{256} << 10;

fs::path data_path(const OnnxPlan& plan, const fs::path& path) { return path.parent_path() / plan.data_name; }

void write_data(const Plan& plan, stream::OutFile& out, stream::Budget& budget, const OnnxWriteOptions& options) {
  for_each_data(plan, [&](stream::Range range) { out.reserve(range); });
  WriteOptions how;
  how.threads = options.threads;
  how.progress = options.progress;
  write_payloads(plan, out, budget, how);
}

uint64_t data_bytes(const Plan& plan) {
  uint64_t bytes = 0;
  for_each_data(plan, [&](stream::Range range) { bytes += range.bytes(); });
  return bytes;
}

}  // namespace

OnnxWriteResult summary(const OnnxPlan& plan) {
  OnnxWriteResult result;
  result.file_bytes = plan.model.file_bytes;
  result.files = plan.files;
  if (plan.beside) {
    result.data_name = plan.data_name;
    result.data_bytes = plan.beside->file_bytes;
  }
  return result;
}

uint64_t least_budget(const OnnxPlan& plan) {
  // A quarter of what there is goes to the buffer of what is written.
  const uint64_t model = least_for_writing(plan.model) + kAligningTile / 3 * 4 + 4096;
  return plan.beside ? std::max(model, least_for_writing(*plan.beside)) : model;
}

// Sources are compared by their names, because a compressed one has no path.
void refuse_needed_files(const OnnxPlan& plan, const onnx::Model& model, const fs::path& path) {
  const fs::path data = data_path(plan, path);
  auto refuse = [](const fs::path& output, const char* why) {
    throw stream::Error(stream::Code::kUsage, fmt::format("{}: choose another output path with -o", why),
                        {.file = output.string()});
  };
  for (const auto& source : model.sources) {
    if (stream::same_file(source->name(), path)) refuse(path, "would be replaced, and the model reads from it");
    if (plan.beside && stream::same_file(source->name(), data))
      refuse(data, "would be replaced by the output's weights, and the model reads from it");
  }
}

OnnxWriteResult write_onnx(const OnnxPlan& plan, const onnx::Model& model, const fs::path& path, stream::Budget& budget,
                           const OnnxWriteOptions& options) {
  refuse_needed_files(plan, model, path);
  if (options.progress)
    options.progress->begin("writing", plan.model.payload_bytes + (plan.beside ? plan.beside->payload_bytes : 0));
  stream::OutFile out(path, plan.model.file_bytes, data_bytes(plan.model));
  std::optional<stream::OutFile> beside;
  if (plan.beside) {
    // `out` keeps its temporary until both files have their names, so that no other run gives a name in between.
    out.check_alone();
    beside.emplace(data_path(plan, path), plan.beside->file_bytes, data_bytes(*plan.beside));
    write_data(*plan.beside, *beside, budget, options);
  }
  write_data(plan.model, out, budget, options);
  // After the data: writing those also writes zeros between them.
  const auto text = std::as_bytes(std::span(plan.message.text()));
  for (const OnnxPlan::Text& some : plan.texts) out.write_at(some.position, text.subspan(some.begin, some.bytes));
  for (const auto& source : model.sources) source->check_unchanged();
  if (beside) beside->commit();
  out.commit();
  return summary(plan);
}

OnnxWriteResult write_onnx(const onnx::Model& model, const fs::path& path, stream::Budget& budget,
                           const OnnxWriteOptions& options) {
  return write_onnx(plan_onnx(model, path, options), model, path, budget, options);
}

}  // namespace lowtide::emit
