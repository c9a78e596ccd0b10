// SPDX-License-Identifier: Apache-2.0
// What tests of passes start from: an empty graph and a builder for it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "layout/core/builder.h"

namespace lowtide::layout {

struct BuiltGraph : testing::Test {
  stream::Budget budget{16 << 20};
  core::Symbols symbols;
  core::Graph graph{symbols, budget};
  core::Builder b{graph};

  core::Val input(core::Shape shape, core::DType dtype = core::DType::kFloat32) {
    const std::string name = "in" + std::to_string(graph.inputs.size());
    graph.inputs.push_back(graph.add_value(dtype, std::move(shape), name));
    graph.input_names.push_back(name);
    return {graph.inputs.back()};
  }
};

}  // namespace lowtide::layout
