// SPDX-License-Identifier: Apache-2.0
// Nodes whose names say which node of a model they are copies of: what the conversion of a part refuses is found again,
// also inside bodies and functions, whose messages begin with the name of the node that holds or calls them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stream/onnx/model.h"

namespace lowtide::layout {

// A copy; those of its bodies have the same number.
onnx::Node marked(const onnx::Node& node, size_t number);
// The number in a name that marked() made; nullopt for other names.
std::optional<size_t> number_of(std::string_view name);
// A message without the marks.
std::string without_marks(std::string_view text);

}  // namespace lowtide::layout
