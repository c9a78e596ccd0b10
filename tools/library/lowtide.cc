// SPDX-License-Identifier: Apache-2.0
// The public functions: the same steps as `lowtide convert`, within a budget and without limits on the process.
#include "tools/library/lowtide/lowtide.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "emit/listing.h"
#include "emit/make_plan.h"
#include "emit/tflite_writer.h"
#include "layout/convert.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/onnx/reader.h"
#include "tools/library/custom_choice.h"
#include "tools/library/model_listing.h"
#include "tools/library/output_suffix.h"

namespace lowtide {

struct Error::Details {
  ErrorKind kind;
  std::string message;
  std::vector<RefusedNode> nodes;
};

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kUsualBudget = uint64_t{8} << 20;

ErrorKind kind_of(stream::Code code) { return static_cast<ErrorKind>(stream::exit_status(code)); }

// The line of the program without the kind in brackets at its end.
std::string message_of(const stream::Error& error) {
  const std::string line = error.what();
  return line.substr(0, line.rfind(" ["));
}

RefusedNode refused_node(const stream::Unsupported& refused) {
  return {.node = refused.where().node,
          .op = refused.where().op,
          .place = refused.where().slot,
          .reason = refused.reason(),
          .hint = refused.hint()};
}

// Runs `work`; the library's own exceptions leave it as the public one.
template <typename Work>
auto with_public_errors(Work work) {
  try {
    return work();
  } catch (const stream::Unsupported& error) {
    throw Error(ErrorKind::kUnsupported, message_of(error), {refused_node(error)});
  } catch (const stream::Error& error) {
    throw Error(kind_of(error.code()), message_of(error), {});
  }
}

[[noreturn]] void wrong_option(std::string text) { throw stream::Error(stream::Code::kUsage, std::move(text)); }

// Calls a function of the user at most ten times a second, and at the begin of each phase.
class CalledProgress : public stream::Progress {
 public:
  explicit CalledProgress(const std::function<void(const lowtide::Progress&)>& call) : call_(call) {}

  void begin(std::string_view what, uint64_t total) override {
    const std::lock_guard lock(mutex_);
    phase_ = what;
    done_ = 0;
    total_ = total;
    tell(Clock::now());
  }
  void advance(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    const Clock::time_point now = Clock::now();
    if (now - told_ >= std::chrono::milliseconds(100)) tell(now);
  }

 private:
  using Clock = std::chrono::steady_clock;
  void tell(Clock::time_point now) {
    told_ = now;
    if (call_) call_(lowtide::Progress{.phase = phase_, .done = done_, .total = total_});
  }

  const std::function<void(const lowtide::Progress&)>& call_;
  std::mutex mutex_;
  std::string phase_;
  uint64_t done_ = 0, total_ = 0;
  Clock::time_point told_;
};

layout::WeightForm form_of(Weights weights) {
  switch (weights) {
    case Weights::kStored:
      return layout::WeightForm::kStored;
    case Weights::kFloat:
      return layout::WeightForm::kFloat;
    case Weights::kF16:
      return layout::WeightForm::kHalf;
    case Weights::kInt8:
      return layout::WeightForm::kInt8;
    case Weights::kInt4:
      return layout::WeightForm::kInt4;
    case Weights::kInPlace:
      return layout::WeightForm::kInPlace;
  }
  wrong_option("ConvertOptions::weights is none of the values of Weights");
}

layout::ConvertOptions layout_options(const ConvertOptions& options, stream::Progress& progress) {
  if (options.threads < 1 || options.threads > 256) wrong_option("ConvertOptions::threads is not from 1 to 256");
  if (options.zstd_level < 1 || options.zstd_level > 19) wrong_option("ConvertOptions::zstd_level is not from 1 to 19");
  layout::ConvertOptions out;
  for (const auto& [name, shape] : options.shapes) {
    for (const int64_t extent : shape)
      if (extent < 0) wrong_option(fmt::format("the shape of input '{}' has the negative extent {}", name, extent));
    out.shapes.emplace(name, core::Shape(shape.begin(), shape.end()));
  }
  for (const auto& [name, order] : options.layouts) {
    if (order != "nhwc" && order != "nchw")
      wrong_option(fmt::format("the layout '{}' of '{}' is neither nhwc nor nchw", order, name));
    out.layouts.emplace(name, order);
  }
  out.weights.form = form_of(options.weights);
  out.weights.include = options.weights_include;
  out.weights.exclude = options.weights_exclude;
  const bool shrinks =
      options.weights == Weights::kF16 || options.weights == Weights::kInt8 || options.weights == Weights::kInt4;
  if (!shrinks && !(options.weights_include.empty() && options.weights_exclude.empty()))
    wrong_option("weights_include and weights_exclude need Weights::kF16, kInt8 or kInt4");
  out.keep_states = true;
  out.custom = tools::custom_choice(options.custom_ops, options.custom_ops_map.string());
  out.weights.threads = options.threads;
  out.weights.progress = &progress;
  return out;
}

// What is wrong with the output's name, and what it must not replace.
void check_output(const fs::path& model, const fs::path& output, const ConvertOptions& options) {
  if (model == output || stream::same_file(model, output))
    wrong_option(fmt::format("the output {} is the model", output.string()));
  if (stream::same_file(options.custom_ops_map, output))
    wrong_option(fmt::format("the output {} is ConvertOptions::custom_ops_map", output.string()));
  if (const auto wrong = tools::wrong_suffix(output))
    wrong_option(fmt::format("{}: name it {}", wrong->reason, wrong->better.string()));
}
void check_weights(const onnx::Model& model, const fs::path& output) {
  for (const auto& source : model.sources)
    if (stream::same_file(source->name(), output))
      wrong_option(fmt::format("the output {} holds weights of the model", output.string()));
}

struct Planned {
  emit::Plan plan;
  Conversion conversion;
};

Planned plan(const fs::path& model, const fs::path& output, const ConvertOptions& options, stream::Progress& progress) {
  const layout::ConvertOptions layout = layout_options(options, progress);
  check_output(model, output, options);
  stream::Budget budget(std::max(options.budget, kUsualBudget));
  onnx::Model onnx =
      stream::read_onnx(model, budget, {.folder = output.parent_path(), .max_ratio = options.max_zstd_ratio});
  check_weights(onnx, output);
  Planned out;
  out.conversion.input_bytes = onnx.file_bytes + onnx.external_bytes;
  out.conversion.nodes = onnx.graph.nodes.size();
  layout::ConvertResult converted = layout::convert(onnx, layout, budget);
  // Constants that passes have read are not read again, so their files are checked for changes now.
  for (const auto& source : onnx.sources) source->check_unchanged();
  if (!converted.refused.empty()) {
    std::vector<RefusedNode> nodes;
    for (const stream::Unsupported& refused : converted.refused) nodes.push_back(refused_node(refused));
    std::string text = fmt::format("{}: {} nodes cannot be converted; the first: {}", model.string(), nodes.size(),
                                   message_of(converted.refused.front()));
    throw Error(ErrorKind::kUnsupported, std::move(text), std::move(nodes));
  }
  out.conversion.notes = std::move(converted.notes);
  emit::WriteOptions write;
  write.external_buffers = options.external_buffers;
  if (options.weights == Weights::kInPlace) write.in_place = output.parent_path();
  out.plan = emit::plan_tflite(*converted.model, write);
  return out;
}

}  // namespace

std::string_view version() noexcept { return LOWTIDE_VERSION; }

Error::Error(ErrorKind kind, std::string message, std::vector<RefusedNode> nodes)
    : details_(std::make_shared<const Details>(Details{kind, std::move(message), std::move(nodes)})) {}
ErrorKind Error::kind() const noexcept { return details_->kind; }
const char* Error::what() const noexcept { return details_->message.c_str(); }
const std::vector<RefusedNode>& Error::nodes() const noexcept { return details_->nodes; }

Conversion convert(const fs::path& model, const fs::path& output, const ConvertOptions& options) {
  return with_public_errors([&] {
    CalledProgress progress(options.progress);
    try {
      Planned planned = plan(model, output, options, progress);
      emit::WriteOptions write;
      write.threads = options.threads;
      write.progress = &progress;
      if (output.extension() == ".zst") write.zstd_level = options.zstd_level;
      const uint64_t least = emit::least_budget(planned.plan, write);
      stream::Budget budget(options.budget == 0 ? std::max(kUsualBudget, least) : options.budget);
      const emit::WriteResult written = emit::write_tflite(planned.plan, output, budget, write);
      planned.conversion.output_bytes = written.compressed_bytes > 0 ? written.compressed_bytes : written.file_bytes;
      planned.conversion.operators = written.operators;
      planned.conversion.transposes = written.transposes;
      planned.conversion.tensors = written.tensors;
      return planned.conversion;
    } catch (stream::Error& error) {
      error.add_place({.file = model.string()});
      throw;
    }
  });
}

std::string inspect(const fs::path& model) {
  return with_public_errors([&] { return emit::listing_json(tools::listing_of_file(model)); });
}

}  // namespace lowtide
