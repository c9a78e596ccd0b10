// SPDX-License-Identifier: Apache-2.0
#include "layout/core/reshape_groups.h"

#include <algorithm>

namespace lowtide::core {
namespace {

// The shortest runs of axes in[i, ..) and out[j, ..) of equal product; all axes that are left when there are none.
std::pair<size_t, size_t> match(Symbols& symbols, std::span<const Dim> in, std::span<const Dim> out, size_t i,
                                size_t j) {
  Dim left = 1;
  for (size_t a = i; a < in.size(); ++a) {
    left = symbols.mul(left, in[a]);
    Dim right = 1;
    for (size_t b = j; b < out.size(); ++b) {
      right = symbols.mul(right, out[b]);
      if (left == right) return {a + 1, b + 1};
    }
  }
  return {in.size(), out.size()};
}

}  // namespace

std::vector<ReshapeGroup> reshape_groups(Symbols& symbols, std::span<const Dim> in, std::span<const Dim> out) {
  std::vector<ReshapeGroup> groups;
  size_t i = 0, j = 0;
  while (i < in.size() || j < out.size()) {
    bool one_in = i < in.size() && in[i] == 1, one_out = j < out.size() && out[j] == 1;
    ReshapeGroup group;
    if (one_in || one_out) {
      if (one_in) group.in.push_back(static_cast<int>(i++));
      if (one_out) group.out.push_back(static_cast<int>(j++));
    } else {
      auto [in_end, out_end] = match(symbols, in, out, i, j);
      while (i < in_end) group.in.push_back(static_cast<int>(i++));
      while (j < out_end) group.out.push_back(static_cast<int>(j++));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::optional<stream::Perm> perm_across_reshape(Symbols& symbols, std::span<const Dim> in, std::span<const Dim> out,
                                                const stream::Perm& perm) {
  // Without elements, equal products mean nothing.
  if (std::count(in.begin(), in.end(), 0) || std::count(out.begin(), out.end(), 0)) return std::nullopt;
  if (perm.size() != in.size()) return std::nullopt;
  const std::vector<ReshapeGroup> groups = reshape_groups(symbols, in, out);
  std::vector<size_t> group_of(in.size());
  for (size_t g = 0; g < groups.size(); ++g)
    for (int axis : groups[g].in) group_of[static_cast<size_t>(axis)] = g;
  auto single = [&](const ReshapeGroup& group) {
    return group.in.size() == 1 && in[static_cast<size_t>(group.in[0])] == 1;
  };

  stream::Perm result;
  std::vector<int> binding;  // axes still to come of the group that is being walked, the next one last
  for (int axis : perm) {
    const ReshapeGroup& group = groups[group_of[static_cast<size_t>(axis)]];
    if (in[static_cast<size_t>(axis)] == 1 && !single(group)) continue;  // moves no bytes inside its group
    if (single(group)) {
      // A 1 between merged axes is free too: it only must not come between their single output.
      result.insert(result.end(), group.out.begin(), group.out.end());
      continue;
    }
    if (binding.empty()) {
      for (int a : group.in)
        if (in[static_cast<size_t>(a)] != 1) binding.push_back(a);
      std::reverse(binding.begin(), binding.end());
      result.insert(result.end(), group.out.begin(), group.out.end());
    }
    if (binding.back() != axis) return std::nullopt;
    binding.pop_back();
  }
  // Axes of extent 1 that only the output has stay behind the axis that they were behind.
  for (const ReshapeGroup& group : groups) {
    if (!group.in.empty()) continue;
    for (int axis : group.out) {
      auto before = std::find(result.begin(), result.end(), axis - 1);
      result.insert(before == result.end() ? result.begin() : before + 1, axis);
    }
  }
  return result;
}

}  // namespace lowtide::core
