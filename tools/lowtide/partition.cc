// SPDX-License-Identifier: Apache-2.0
// lowtide partition: an ONNX model as a folder of TFLite and ONNX pieces, with a manifest. The folder appears whole or
// not at all.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "emit/file_names.h"
#include "emit/json_text.h"
#include "emit/make_plan.h"
#include "emit/onnx_writer.h"
#include "emit/report.h"
#include "emit/tflite_writer.h"
#include "layout/convert.h"
#include "layout/divide_model.h"
#include "layout/lower/node_order.h"
#include "stream/file/file.h"
#include "stream/file/out_file.h"
#include "stream/file/sha256.h"
#include "stream/file/temporary_folder.h"
#include "stream/nearest_name.h"
#include "stream/onnx/reader.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/declared_values.h"
#include "tools/lowtide/measured_costs.h"
#include "tools/lowtide/memory_limit.h"
#include "tools/lowtide/partition_manifest.h"
#include "tools/lowtide/partition_table.h"
#include "tools/lowtide/preferences.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/resident.h"
#include "tools/lowtide/target.h"
#include "tools/lowtide/target_rules.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;
using layout::DivideOptions;
using layout::PieceRuntime;
using stream::Budget;
using stream::Error;

fs::path output_of(const PartitionCommand& command) {
  if (!command.output.empty()) return command.output;
  fs::path path = command.input;
  if (path.extension() == ".zst") path.replace_extension();
  return path.replace_extension(".pieces");
}

void check_paths_of(const PartitionCommand& command) {
  if (command.input == "-")
    usage_error("partition reads the model several times, so it cannot be standard input; give a file");
  if (command.json && !command.dry_run)
    usage_error("--json is for --dry-run: manifest.json describes a division that is written");
  if (!command.probe.empty())
    usage_error(
        "--probe runs the model in ONNX Runtime, which only the lowtide command of the Python package can (pip "
        "install 'lowtide[run]'); or declare the values with --value");
  if (command.output == "-") usage_error("partition writes a folder: give its name with -o DIR");
}

onnx::Model read_model(const fs::path& path, const PartitionCommand& command, const MemoryLimit& limit,
                       Budget& budget) {
  try {
    return stream::read_onnx(path, budget,
                             {.folder = output_of(command).parent_path(), .max_ratio = command.max_zstd_ratio},
                             stream::Access::kMap, command.follow_links);
  } catch (const stream::OverBudget& error) {
    limit.refuse_reading(error.needed());
  }
}

// The names of --exclude-op and --exclude-node must be in the model.
void check_excluded(const PartitionCommand& command, const onnx::Model& model) {
  std::set<std::string> operators, nodes;
  for (const onnx::Node& node : model.graph.nodes) {
    operators.insert(layout::full_name(node));
    nodes.insert(node.label());
  }
  auto check = [](const char* option, const std::vector<std::string>& given, const std::set<std::string>& known) {
    const std::vector<std::string> names(known.begin(), known.end());
    for (const std::string& name : given)
      if (!known.contains(name))
        usage_error(fmt::format("{}: the model has no '{}'{} (it has: {})", option, name,
                                stream::did_you_mean(name, names), stream::listed(names)));
  };
  check("--exclude-op", command.exclude_ops, operators);
  check("--exclude-node", command.exclude_nodes, nodes);
}

void check_measured(const PartitionCommand& command, const layout::MeasuredWork& measured, const onnx::Model& model) {
  if (measured.empty()) return;
  std::set<std::string> nodes;
  for (const onnx::Node& node : model.graph.nodes) nodes.insert(node.label());
  for (const layout::MeasuredPiece& piece : measured)
    if (std::any_of(piece.nodes.begin(), piece.nodes.end(), [&](const auto& name) { return nodes.contains(name); }))
      return;
  usage_error(fmt::format("--costs {}: the model has none of its nodes: it is of another model", command.costs));
}

// Why a node is to be in ONNX, though it could be converted.
using Refuse = std::function<std::string(const onnx::Node&, const layout::ModelTypes&)>;
Refuse refused_by(const PartitionCommand& command, const TargetRules* rules) {
  return [&command, rules](const onnx::Node& node, const layout::ModelTypes& types) -> std::string {
    auto has = [](const std::vector<std::string>& names, const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (has(command.exclude_ops, layout::full_name(node))) return "its operator is excluded by --exclude-op";
    if (has(command.exclude_nodes, node.label())) return "it is excluded by --exclude-node";
    return rules != nullptr ? rules->refuse(node, types) : "";
  };
}

class Partition {
 public:
  explicit Partition(const PartitionCommand& command)
      : command_(command),
        output_(output_of(command)),
        limit_(command.max_rss),
        bar_(command.quiet, marks_),
        threads_(default_threads()) {
    if (!command.target.empty()) target_ = read_target(command.target);
    if (!command.costs.empty()) measured_ = read_measured_costs(command.costs);
  }

  void run() {
    if (!command_.dry_run) stream::check_folder_is_free(output_);
    limit_.allow_graph(command_.input);
    divide();
    if (is_in_place()) check_places();
    const std::string table = partition_table(divided_, command_.input, target_name(), command_.dry_run);
    if (command_.json)
      fmt::print("{}", emit::json_text(division_json(fs::path(command_.input).filename().string(), target_name(),
                                                     divided_, table)));
    else if (!command_.quiet)
      fmt::print("{}", table);
    if (command_.dry_run) return;
    stream::TemporaryFolder folder(output_);
    for (size_t i = 0; i < divided_.pieces.size(); ++i) files_.push_back(write(divided_.pieces[i], i, folder.path()));
    for (const auto& source : divided_.model.sources) source->check_unchanged();
    write_manifest(folder.path());
    folder.rename();
    bar_.finish();
    if (!command_.quiet) tell();
  }

 private:
  bool is_in_place() const { return command_.weights == "in-place"; }

  // The folder that names of data in place count from. ONNX Runtime takes no names with "..", but it can be told to
  // look in another folder than the piece's.
  fs::path weights_folder() const {
    const fs::path folder = output_.has_filename() ? output_ : output_.parent_path();
    return folder.parent_path();
  }

  void check_places() const {
    const emit::FileNames names(weights_folder());
    for (const auto& source : divided_.model.sources) {
      if (source->path().empty())
        usage_error("--weights in-place needs a model that is not compressed: its weights are not in a file");
      names.name(source->path());
    }
  }

  std::string target_name() const { return target_ ? target_->name : "tflite"; }

  void divide() {
    Budget budget(limit_.graph_budget());
    try {
      onnx::Model model = read_model(command_.input, command_, limit_, budget);
      check_excluded(command_, model);
      check_measured(command_, measured_, model);
      inputs_ = own_inputs(model);
      outputs_ = model.graph.outputs;
      std::optional<TargetRules> rules;
      if (target_) rules.emplace(*target_, model);
      divided_ = layout::divide_model(std::move(model), divide_options(rules ? &*rules : nullptr), budget);
    } catch (Error& error) {
      error.add_place({.file = command_.input});
      throw;
    }
  }

  // `rules`, null without a target, must live as long as the result.
  DivideOptions divide_options(const TargetRules* rules) {
    DivideOptions options;
    options.prefer = preference(command_.prefer);
    options.max_piece = command_.max_piece;
    options.max_pieces = command_.max_pieces;
    options.penalty = command_.penalty;
    options.measured = measured_;
    options.types = declared_values(command_.values);
    options.refuse = refused_by(command_, rules);
    options.convert = [this](const onnx::Model& piece) { return refused(piece); };
    if (!target_) return options;
    options.groups = rules->groups();
    options.refuse_in_piece = [rules](const auto& whole, const auto& piece, const auto& types) {
      return rules->refuse_inside(whole, piece, types);
    };
    options.max_target_piece = target_->max_piece_bytes;
    options.max_target_pieces = target_->max_pieces;
    options.takes_onnx = !target_->writes_tflite;
    return options;
  }

  // Without initializers that are listed as inputs.
  static std::vector<onnx::ValueInfo> own_inputs(const onnx::Model& model) {
    std::set<std::string> constants;
    for (const onnx::Tensor& tensor : model.graph.initializers) constants.insert(tensor.name);
    for (const onnx::SparseTensor& tensor : model.graph.sparse_initializers) constants.insert(tensor.values.name);
    std::vector<onnx::ValueInfo> out;
    std::copy_if(model.graph.inputs.begin(), model.graph.inputs.end(), std::back_inserter(out),
                 [&](const onnx::ValueInfo& info) { return !constants.contains(info.name); });
    return out;
  }

  layout::ConvertOptions convert_options() const {
    layout::ConvertOptions options;
    options.weights.threads = threads_;
    return options;
  }

  // Of the real conversion, up to the plan of the file.
  std::vector<stream::Unsupported> refused(const onnx::Model& piece) {
    Budget budget(limit_.graph_budget());
    onnx::Model copy = piece;
    layout::ConvertResult result = layout::convert(copy, convert_options(), budget);
    if (result.refused.empty()) emit::plan_tflite(*result.model, {});
    return std::move(result.refused);
  }

  PieceFile write(const layout::ModelPiece& piece, size_t number, const fs::path& folder) {
    const bool is_target = piece.runtime == PieceRuntime::kTarget && !(target_ && !target_->writes_tflite);
    PieceFile file;
    file.name = fmt::format("{}.{}", number, is_target ? "tflite" : "onnx");
    const fs::path path = folder / file.name;
    limit_.allow_graph(command_.input);
    onnx::Model model = layout::piece_model(divided_, piece);
    is_target ? write_target(model, path) : write_rest(model, path, file);
    file.bytes = fs::file_size(path);
    file.sha256 = stream::digest_of_file(path);
    return file;
  }

  void write_target(onnx::Model& model, const fs::path& path) {
    emit::WriteOptions options;
    options.threads = threads_;
    options.progress = &bar_;
    emit::Plan plan;
    {
      Budget budget(limit_.graph_budget());
      layout::ConvertResult result = layout::convert(model, convert_options(), budget);
      if (!result.refused.empty())
        throw Error(stream::Code::kInternal,
                    fmt::format("a piece that was converted is refused: {}", result.refused.front().what()));
      plan = emit::plan_tflite(*result.model, options);
    }
    malloc_trim(0);
    Budget budget(limit_.writing_budget(emit::least_budget(plan, options), threads_));
    emit::write_tflite(plan, path, budget, options);
  }

  void write_rest(const onnx::Model& model, const fs::path& path, PieceFile& file) {
    emit::OnnxWriteOptions options;
    using Weights = emit::OnnxWriteOptions::Weights;
    options.weights = is_in_place() ? Weights::kInPlace : Weights::kExternal;
    if (is_in_place()) options.folder = weights_folder();
    options.threads = threads_;
    options.progress = &bar_;
    const emit::OnnxPlan plan = emit::plan_onnx(model, path, options);
    Budget budget(limit_.writing_budget(emit::least_budget(plan), threads_));
    const emit::OnnxWriteResult written = emit::write_onnx(plan, model, path, budget, options);
    if (!written.data_name.empty())
      file.data.push_back(
          {written.data_name, stream::digest_of_file(path.parent_path() / written.data_name), written.data_bytes});
    for (const emit::NamedFile& some : written.files) in_place_[some.name] += some.bytes;
  }

  void write_manifest(const fs::path& folder) {
    std::vector<PieceFile::Data> in_place;
    for (const auto& [name, used] : in_place_) {
      const fs::path path = weights_folder() / name;
      in_place.push_back({name, stream::digest_of_file(path), fs::file_size(path)});
    }
    const std::string text = emit::json_text(manifest(fs::path(command_.input).filename().string(), target_name(),
                                                      inputs_, outputs_, divided_, files_, in_place));
    stream::OutFile out(folder / "manifest.json", text.size());
    out.write_at(0, std::as_bytes(std::span(text)));
    out.commit();
  }

  void tell() const {
    uint64_t bytes = 0;
    for (const PieceFile& file : files_) {
      bytes += file.bytes;
      for (const PieceFile::Data& data : file.data) bytes += data.bytes;
    }
    fmt::print("{}: {} piece{}, {}", stream::printable(output_.string()), files_.size(), files_.size() == 1 ? "" : "s",
               emit::file_size(bytes));
    for (const auto& [name, used] : in_place_)
      fmt::print(", in place in {}: {}", stream::printable(name), emit::file_size(used));
    fmt::print("; peak RSS {}\n", emit::memory_size(resident().peak));
  }

  const PartitionCommand& command_;
  fs::path output_;
  MemoryLimit limit_;
  ResidentMarks marks_;
  ProgressBar bar_;
  int threads_;
  std::optional<Target> target_;
  std::vector<onnx::ValueInfo> inputs_, outputs_;
  layout::DividedModel divided_;
  std::vector<PieceFile> files_;
  std::map<std::string, uint64_t> in_place_;  // of the model's files: bytes that pieces use
  layout::MeasuredWork measured_;
};

}  // namespace

void partition_model(const PartitionCommand& command) {
  check_paths_of(command);
  Partition(command).run();
}

}  // namespace lowtide::tools
