// SPDX-License-Identifier: Apache-2.0
// A graph under construction, fused and then counted: what the tests of the fusing rules share.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "layout/fuse/fuse.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {

using core::DType;
using core::Kind;
using core::Perm;
using core::Shape;
using core::Val;
using Kinds = std::map<Kind, int>;

inline const Perm kToNhwc{0, 2, 3, 1}, kToNchw{0, 3, 1, 2};

struct Fusing : BuiltGraph {
  Val ones(Shape shape) { return b.filled(1, DType::kFloat32, std::move(shape)); }
  // 0, 1, 2, .. in f32.
  Val counted(Shape shape) {
    std::vector<float> elements(stream::element_count(shape));
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i);
    return b.constant(stream::recipe::floats(elements, std::move(shape)));
  }
  // A convolution on NHWC, without padding.
  Val conv(Val x, int channels, int filter = 1, core::Conv2dOptions options = {.padding = core::Padding::kValid}) {
    return b.conv_2d(x, ones({channels, filter, filter, b.dim(x, 3)}), {}, options);
  }
  Val linear(Val x, int units) { return b.fully_connected(x, ones({units, b.dim(x, -1)}), ones({units}), true); }

  // The ops that are left, counted; the outputs keep their shapes.
  Kinds fused(std::vector<Val> outputs) {
    graph.outputs.clear();
    graph.output_names.clear();
    std::vector<Shape> shapes;
    for (Val v : outputs) {
      graph.outputs.push_back(v.id);
      graph.output_names.push_back("out" + std::to_string(graph.outputs.size()));
      shapes.push_back(b.shape(v));
    }
    fuse(graph);
    for (size_t i = 0; i < shapes.size(); ++i) EXPECT_EQ(graph.at(graph.outputs[i]).shape, shapes[i]);
    Kinds kinds;
    for (const core::Op& op : graph.ops) ++kinds[op.kind];
    return kinds;
  }
  Kinds fused(Val output) { return fused(std::vector<Val>{output}); }
  const core::Op& only(Kind kind) const {
    for (const core::Op& op : graph.ops)
      if (op.kind == kind) return op;
    throw std::runtime_error("no such op");
  }
  std::vector<double> numbers(core::ValueId id) { return graph.numbers(id).value(); }
};

}  // namespace lowtide::layout
