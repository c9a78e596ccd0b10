// SPDX-License-Identifier: Apache-2.0
#include "emit/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "stream/counted.h"
#include "stream/printable.h"

namespace lowtide::emit {
namespace {

constexpr size_t kShownNames = 10, kShownGroups = 20;

struct Group {
  std::string reason;  // with the operator
  std::vector<std::string> nodes;
};

std::string nodes_text(size_t count) { return stream::counted(count, "node"); }

// The largest first; of equal size, the one that was met first.
std::vector<Group> groups_of(const std::vector<stream::Unsupported>& refused) {
  std::vector<Group> out;
  std::map<std::string, size_t> index;
  for (const stream::Unsupported& node : refused) {
    const stream::Where& where = node.where();
    std::string reason = where.op.empty() ? node.text() : fmt::format("{}: {}", where.op, node.text());
    const auto [at, is_new] = index.emplace(reason, out.size());
    if (is_new) out.push_back({std::move(reason), {}});
    out[at->second].nodes.push_back(where.slot.empty() ? where.node : fmt::format("{}, {}", where.node, where.slot));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Group& a, const Group& b) { return a.nodes.size() > b.nodes.size(); });
  return out;
}

// Names come from the file.
std::string indented(size_t columns, const std::string& text) {
  return std::string(columns, ' ') + stream::printable(text) + "\n";
}

std::string names_text(const std::vector<std::string>& names) {
  std::string out;
  const size_t shown = std::min(names.size(), kShownNames);
  for (size_t i = 0; i < shown; ++i) out += indented(4, names[i]);
  if (names.size() > shown) out += indented(4, fmt::format("and {} more", names.size() - shown));
  return out;
}

std::string one_node_text(const Refusal& refusal) {
  stream::Unsupported node = refusal.nodes[0];
  node.add_place({.file = refusal.input});
  return indented(0, node.what());
}

std::string groups_text(const Refusal& refusal) {
  const std::vector<Group> groups = groups_of(refusal.nodes);
  const size_t shown = std::min(groups.size(), kShownGroups);
  std::string out = indented(
      0, fmt::format("{}: {}{} [{}]", refusal.input,
                     refusal.in_floats ? stream::counted_are(refusal.nodes.size(), "operator") + " computed in floats"
                                       : nodes_text(refusal.nodes.size()) + " cannot be converted",
                     groups.size() == 1 ? "" : fmt::format(", for {} reasons", groups.size()),
                     stream::code_name(stream::Code::kUnsupported)));
  size_t listed = 0;
  for (size_t i = 0; i < shown; ++i) {
    out += indented(2, fmt::format("{} ({})", groups[i].reason, nodes_text(groups[i].nodes.size())));
    out += names_text(groups[i].nodes);
    listed += groups[i].nodes.size();
  }
  if (shown < groups.size())
    out += indented(2, fmt::format("and {} more reasons, for {}; 'lowtide convert --report FILE' lists all nodes",
                                   groups.size() - shown, nodes_text(refusal.nodes.size() - listed)));
  return out;
}

}  // namespace

std::string refusal_text(const Refusal& refusal) {
  const bool is_single = refusal.nodes.size() == 1;
  std::string out = is_single ? one_node_text(refusal) : groups_text(refusal);
  if (refusal.not_judged.empty()) return out;
  std::vector<std::string> names;
  for (const stream::Where& where : refusal.not_judged) names.push_back(fmt::format("{} ({})", where.node, where.op));
  out += indented(
      2, fmt::format("{} behind {} could not be judged", nodes_text(names.size()), is_single ? "it" : "these"));
  return out + names_text(names);
}

nlohmann::ordered_json refused_nodes(const Refusal& refusal) {
  nlohmann::ordered_json refused = nlohmann::ordered_json::array();
  for (const stream::Unsupported& node : refusal.nodes)
    refused.push_back({{"node", node.where().node},
                       {"operator", node.where().op},
                       {"place", node.where().slot},
                       {"reason", node.reason()},
                       {"hint", node.hint()}});
  return refused;
}

nlohmann::ordered_json refusal_values(const Refusal& refusal) {
  nlohmann::ordered_json not_judged = nlohmann::ordered_json::array();
  for (const stream::Where& where : refusal.not_judged)
    not_judged.push_back({{"node", where.node}, {"operator", where.op}});
  return {{"input", refusal.input},
          {"refused_nodes", refusal.nodes.size()},
          {"refused", refused_nodes(refusal)},
          {"not_judged_nodes", refusal.not_judged.size()},
          {"not_judged", not_judged}};
}

}  // namespace lowtide::emit
