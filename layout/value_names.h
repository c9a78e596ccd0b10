// SPDX-License-Identifier: Apache-2.0
// The names that a new value of a model must not have.
//
// The traps: a value that nothing makes is an input or an initializer; and the body of an If, Loop or Scan must not
// have a value with the name of one of the graph around it.
#pragma once

#include <string>
#include <unordered_set>

#include "stream/onnx/model.h"

namespace lowtide::layout {

using ValueNames = std::unordered_set<std::string>;

// All names of values in the graph and in the bodies of its nodes.
ValueNames all_value_names(const onnx::Graph& graph);
// `wanted`, or with more letters behind it: a name that is not in `taken`, and is then.
std::string new_value_name(std::string wanted, ValueNames& taken);

}  // namespace lowtide::layout
