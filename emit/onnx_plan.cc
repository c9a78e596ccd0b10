// SPDX-License-Identifier: Apache-2.0
#include "emit/onnx_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "emit/file_names.h"
#include "emit/onnx_fields.h"
#include "schemas/onnx.pb.h"
#include "stream/error.h"

namespace lowtide::emit {
namespace {

namespace fs = std::filesystem;
namespace pb = ::onnx;
using onnx::Tensor;
using stream::Code;
using stream::Error;
using Weights = OnnxWriteOptions::Weights;

void put_external(const std::string& location, uint64_t offset, uint64_t bytes, OnnxMessage& out) {
  auto entry = [&](const char* key, const std::string& value) {
    OnnxMessage message;
    message.text(pb::StringStringEntryProto::kKeyFieldNumber, key);
    message.text(pb::StringStringEntryProto::kValueFieldNumber, value);
    out.message(pb::TensorProto::kExternalDataFieldNumber, std::move(message));
  };
  entry("location", location);
  entry("offset", std::to_string(offset));
  entry("length", std::to_string(bytes));
  out.number(pb::TensorProto::kDataLocationFieldNumber, pb::TensorProto::EXTERNAL);
}

// Plans a model once with its data inline or beside.
class Planner {
 public:
  Planner(const onnx::Model& model, const fs::path& path, const OnnxWriteOptions& options, bool beside) {
    if (options.weights == Weights::kInPlace) names_.emplace(options.folder.value_or(path.parent_path()));
    if (beside) plan_.beside.emplace().external = true;
    plan_.data_name = path.filename().string() + ".data";
    plan_.message = onnx_model(model, [this](const Tensor& tensor, OnnxMessage& out) { put(tensor, out); });
  }

  uint64_t bytes() const { return plan_.message.bytes(); }
  OnnxPlan finish() {
    place();
    return std::move(plan_);
  }

 private:
  void put(const Tensor& tensor, OnnxMessage& out) {
    const uint64_t bytes = tensor.data->bytes();
    if (bytes < kLeastExternal) return put_inline(tensor, out);
    const auto* stored = names_ ? stream::recipe::plain_stored(*tensor.data) : nullptr;
    if (stored != nullptr && !stored->source->path().empty()) {
      NamedFile& file = named(*stored->source);
      file.bytes += bytes;
      return put_external(file.name, stored->file_runs[0].offset, bytes, out);
    }
    if (!plan_.beside) return put_inline(tensor, out);
    put_external(plan_.data_name, position_beside(tensor), bytes, out);
  }

  NamedFile& named(const stream::Source& source) {
    auto [it, fresh] = file_of_.try_emplace(&source, plan_.files.size());
    if (fresh) plan_.files.push_back({names_->name(source.path()), 0});
    return plan_.files[it->second];
  }

  // Initializers with one recipe have one place.
  uint64_t position_beside(const Tensor& tensor) {
    Plan& plan = *plan_.beside;
    const uint64_t next =
        stream::checked_add(plan.file_bytes, kOnnxDataAlignment - 1) / kOnnxDataAlignment * kOnnxDataAlignment;
    auto [it, fresh] = position_of_.try_emplace(tensor.data.get(), next);
    if (!fresh) return it->second;
    const uint64_t bytes = tensor.data->bytes();
    plan.payloads.push_back({.recipe = tensor.data, .bytes = bytes, .position = next, .tensor = tensor.name});
    plan.file_bytes = stream::checked_add(next, bytes);
    plan.payload_bytes += bytes;
    return next;
  }

  // The places of text and data in the model's file.
  void place() {
    Plan& plan = plan_.model;
    plan.external = true;  // no length words
    uint64_t begin = 0;    // of the text that has no place yet
    auto put_text = [&](uint64_t end) {
      if (end > begin) plan_.texts.push_back({plan.file_bytes, begin, end - begin});
      plan.file_bytes += end - begin;
      begin = end;
    };
    for (const OnnxMessage::Data& data : plan_.message.data()) {
      put_text(data.text_before);
      const uint64_t bytes = data.recipe->bytes();
      plan.payloads.push_back(
          {.recipe = data.recipe, .bytes = bytes, .position = plan.file_bytes, .tensor = data.tensor});
      plan.file_bytes += bytes;
      plan.payload_bytes += bytes;
    }
    put_text(plan_.message.text().size());
  }

  OnnxPlan plan_;
  std::optional<FileNames> names_;  // set when data may stay in place
  std::map<const stream::Source*, size_t> file_of_;
  std::map<const stream::Recipe*, uint64_t> position_of_;
};

}  // namespace

OnnxPlan plan_onnx(const onnx::Model& model, const fs::path& path, const OnnxWriteOptions& options) {
  const bool beside = options.weights == Weights::kExternal;
  if (!beside) {
    Planner planner(model, path, options, false);
    if (planner.bytes() <= options.inline_limit) return planner.finish();
    if (options.folder)
      throw Error(
          Code::kUnsupported,
          fmt::format("it would have {} bytes, and an ONNX file may have {}: too many weights are not stored in "
                      "the model's files as they are used, so they cannot all stay in place",
                      planner.bytes(), options.inline_limit),
          {.file = path.string()});
  }
  Planner planner(model, path, options, true);
  if (planner.bytes() > options.inline_limit)
    throw Error(Code::kUnsupported,
                fmt::format("the model has {} bytes without its large initializers; an ONNX file may have {}",
                            planner.bytes(), options.inline_limit),
                {.file = path.string()});
  OnnxPlan plan = planner.finish();
  if (plan.beside->payloads.empty()) plan.beside.reset();
  return plan;
}

}  // namespace lowtide::emit
