// SPDX-License-Identifier: Apache-2.0
// Nodes whose names say which node of a model they are copies of: what the conversion of a part refuses is found again,
// also inside bodies and functions, whose messages begin with the name of the node that holds or calls them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// A copy; those of its bodies have the same number.
onnx::Node marked(const onnx::Node& node, size_t number);
// A message without the marks.
std::string without_marks(std::string_view text);

// Why a part of a model was refused, and for which node; without a number: for the part as a whole.
struct Refusal {
  std::optional<size_t> node;
  std::string reason;
};
// Of a message about a part of a model of so many nodes.
Refusal refusal(const stream::Where& where, std::string_view text, size_t nodes);

// Gives each refused node the first reason that is told of it, and all nodes of the part the reason of the part. With
// no node refused that was not refused before, the same part would be tried again for ever: then it is refused as a
// whole. `reasons` are of all nodes, and empty where there is none.
void add_refusals(const std::vector<Refusal>& refusals, const std::vector<size_t>& part,
                  std::vector<std::string>& reasons);

}  // namespace lowtide::layout
