// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/partition_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "emit/report.h"
#include "stream/nearest_name.h"
#include "stream/printable.h"

namespace lowtide::tools {
namespace {

constexpr size_t kMostNames = 4, kMostPathNodes = 12;

std::string first_names(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    out += (i > 0 ? ", " : "") + stream::printable(names[i]);
  if (names.size() > kMostNames) out += fmt::format(" and {} more", names.size() - kMostNames);
  return out.empty() ? "nothing" : out;
}

std::string reasons(const layout::DividedModel& divided, const std::string& target) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> groups;
  for (const layout::NodePlace& node : divided.nodes)
    if (!node.reason.empty()) groups[{node.op, node.reason}].push_back(node.name);
  std::vector<std::pair<std::pair<std::string, std::string>, std::vector<std::string>>> sorted(groups.begin(),
                                                                                               groups.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string out = sorted.empty() ? "" : fmt::format("not in {}:\n", target);
  for (const auto& [key, names] : sorted)
    out += fmt::format("  {} x {}: {}: {}\n", names.size(), stream::printable(key.first), stream::printable(key.second),
                       first_names(names));
  return out;
}

std::string certificate(const layout::DividedModel& divided, const std::string& target) {
  if (divided.fewest < 2) return {};
  std::string out = fmt::format("with all in {} that it can run: {} pieces, and no division has fewer, as on {}:\n",
                                target, divided.fewest, divided.certificate.size() > 1 ? "these paths" : "this path");
  for (const std::vector<std::string>& path : divided.certificate) {
    out += " ";
    for (size_t i = 0; i < path.size(); ++i) {
      if (i == kMostPathNodes && path.size() > kMostPathNodes + 1) {
        out += fmt::format(" -> ... ({} more)", path.size() - kMostPathNodes);
        break;
      }
      out += (i > 0 ? " -> " : " ") + stream::printable(path[i]);
    }
    out += '\n';
  }
  return out;
}

}  // namespace

std::string partition_table(const layout::DividedModel& divided, const std::string& model,
                            const std::string& target_name, bool in_full) {
  const std::string target = stream::printable(target_name);
  std::string out = fmt::format("{}: {} nodes, {:.0f} % of the work in {}\n", stream::printable(model),
                                divided.nodes.size(), divided.work_in_target * 100, target);
  for (size_t i = 0; i < divided.pieces.size(); ++i) {
    const layout::ModelPiece& piece = divided.pieces[i];
    out += fmt::format("{:>4}  {:<6} {:>6} nodes {:>10}  {} -> {}\n", i,
                       piece.runtime == layout::PieceRuntime::kTarget ? target : "onnx", piece.nodes.size(),
                       emit::file_size(piece.weight_bytes), first_names(piece.inputs), first_names(piece.outputs));
  }
  const bool has_target =
      std::any_of(divided.pieces.begin(), divided.pieces.end(),
                  [](const layout::ModelPiece& piece) { return piece.runtime == layout::PieceRuntime::kTarget; });
  if (!has_target) out += fmt::format("note: nothing is in {}: all of the model is in .onnx\n", target);
  if (in_full) {
    out += reasons(divided, target) + certificate(divided, target);
    out += divided.is_cheapest ? "no division of this kind has a lower cost\n"
                               : "the cost is the lowest that was found: the graph is too large for the exact method\n";
  }
  if (!divided.undeclared.empty())
    out += fmt::format(
        "note: the types of these values are not known, so what uses them stays in ONNX; declare them "
        "with --value NAME=f32[1,n,?]: {}\n",
        stream::printable(stream::listed(divided.undeclared)));
  return out;
}

}  // namespace lowtide::tools
