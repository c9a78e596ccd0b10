// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/partition_manifest.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "stream/dtype.h"

namespace lowtide::tools {
namespace {

using nlohmann::ordered_json;
using onnx::ValueInfo;

constexpr int kManifestVersion = 1;

ordered_json shape_json(const ValueInfo& info) {
  if (!info.has_shape) return nullptr;
  ordered_json dims = ordered_json::array();
  for (const onnx::Dimension& dim : info.dims) {
    if (dim.value >= 0)
      dims.push_back(dim.value);
    else if (!dim.has_name())
      dims.push_back(nullptr);
    else
      dims.push_back(dim.symbol);
  }
  return dims;
}

ordered_json value_json(const ValueInfo& info) {
  return {{"name", info.name},
          {"dtype", stream::dtype_name(info.dtype)},
          {"shape", shape_json(info)},
          {"axis_order", "onnx"}};
}

ordered_json files_json(const std::vector<PieceFile::Data>& files) {
  ordered_json out = ordered_json::array();
  for (const PieceFile::Data& file : files)
    out.push_back({{"file", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return out;
}

ordered_json nodes_json(const layout::DividedModel& divided) {
  ordered_json out = ordered_json::array();
  for (const layout::NodePlace& node : divided.nodes)
    out.push_back({{"name", node.name},
                   {"op", node.op},
                   {"piece", node.piece < divided.pieces.size() ? ordered_json(node.piece) : ordered_json()},
                   {"reason", node.reason}});
  return out;
}

ordered_json piece_json(const layout::ModelPiece& piece, const PieceFile& file) {
  return {{"runtime", file.name.ends_with(".onnx") ? "onnx" : "tflite"},
          {"in_target", piece.runtime == layout::PieceRuntime::kTarget},
          {"file", file.name},
          {"bytes", file.bytes},
          {"sha256", file.sha256},
          {"data", files_json(file.data)},
          {"nodes", piece.nodes.size()},
          {"weight_bytes", piece.weight_bytes},
          {"inputs", piece.inputs},
          {"outputs", piece.outputs}};
}

// Values that one piece makes and another one uses.
ordered_json seams_json(const layout::DividedModel& divided) {
  std::map<std::string, size_t> last;
  for (size_t i = 0; i < divided.pieces.size(); ++i)
    for (const std::string& name : divided.pieces[i].inputs) last[name] = i;
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < divided.pieces.size(); ++i)
    for (const std::string& name : divided.pieces[i].outputs) {
      const auto user = last.find(name);
      if (user == last.end()) continue;
      ordered_json value = value_json(divided.values.at(name));
      value["producer"] = i;
      value["last_user"] = user->second;
      out.push_back(std::move(value));
    }
  return out;
}

// A model may list an output more than once; values of a folder are found by their names.
ordered_json list_json(const std::vector<ValueInfo>& list, const layout::DividedModel& divided) {
  ordered_json out = ordered_json::array();
  std::set<std::string> listed;
  for (const ValueInfo& info : list) {
    if (!listed.insert(info.name).second) continue;
    const auto known = divided.values.find(info.name);
    const bool is_declared = info.type == ValueInfo::Type::kTensor && info.dtype != stream::DType::kUndefined;
    out.push_back(value_json(is_declared || known == divided.values.end() ? info : known->second));
  }
  return out;
}

}  // namespace

std::string type_text(const ValueInfo& info) {
  std::string out(stream::dtype_name(info.dtype));
  if (!info.has_shape) return out;
  out += '[';
  for (const onnx::Dimension& dim : info.dims) {
    if (out.back() != '[') out += ',';
    out += dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return out + ']';
}

ordered_json division_json(const std::string& model, const std::string& target, const layout::DividedModel& divided,
                           const std::string& listing) {
  ordered_json pieces = ordered_json::array();
  for (const layout::ModelPiece& piece : divided.pieces)
    pieces.push_back({{"in_target", piece.runtime == layout::PieceRuntime::kTarget},
                      {"nodes", piece.nodes.size()},
                      {"weight_bytes", piece.weight_bytes},
                      {"inputs", piece.inputs},
                      {"outputs", piece.outputs}});
  return {{"format", "lowtide-division"},
          {"version", kManifestVersion},
          {"producer", "lowtide " LOWTIDE_VERSION},
          {"model", model},
          {"target", target},
          {"work_in_target", divided.work_in_target},
          {"pieces", std::move(pieces)},
          {"values", seams_json(divided)},
          {"nodes", nodes_json(divided)},
          {"is_cheapest", divided.is_cheapest},
          {"fewest_pieces", divided.fewest},
          {"certificate", divided.certificate},
          {"undeclared", divided.undeclared},
          {"listing", listing}};
}

ordered_json manifest(const std::string& model, const std::string& target, const std::vector<ValueInfo>& inputs,
                      const std::vector<ValueInfo>& outputs, const layout::DividedModel& divided,
                      const std::vector<PieceFile>& files, const std::vector<PieceFile::Data>& in_place) {
  ordered_json pieces = ordered_json::array();
  for (size_t i = 0; i < files.size(); ++i) pieces.push_back(piece_json(divided.pieces[i], files[i]));
  ordered_json out = {{"format", "lowtide-manifest"},
                      {"version", kManifestVersion},
                      {"producer", "lowtide " LOWTIDE_VERSION},
                      {"model", model},
                      {"target", target},
                      {"inputs", list_json(inputs, divided)},
                      {"outputs", list_json(outputs, divided)},
                      {"pieces", std::move(pieces)},
                      {"values", seams_json(divided)},
                      {"nodes", nodes_json(divided)}};
  if (!in_place.empty()) out["in_place"] = files_json(in_place);
  return out;
}

}  // namespace lowtide::tools
