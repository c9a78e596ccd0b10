// SPDX-License-Identifier: Apache-2.0
// Core models made by hand, for tests of the writer.
#pragma once

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "layout/core/graph.h"
#include "stream/file/file.h"

namespace lowtide::emit {

struct Made {
  std::unique_ptr<stream::Budget> budget = std::make_unique<stream::Budget>(64 << 20);
  std::unique_ptr<core::Model> model = std::make_unique<core::Model>(*budget);
  core::Graph* graph = nullptr;

  Made() {
    model->graphs.push_back(std::make_unique<core::Graph>(model->symbols, *budget));
    graph = model->graphs[0].get();
  }
  core::ValueId input(core::DType dtype, core::Shape shape, const std::string& name) {
    core::ValueId id = graph->add_value(dtype, std::move(shape), name);
    graph->inputs.push_back(id);
    graph->input_names.push_back(name);
    return id;
  }
  core::ValueId op(core::Kind kind, std::vector<core::ValueId> inputs, core::Options options, core::DType dtype,
                   core::Shape shape) {
    core::ValueId out = graph->add_value(dtype, std::move(shape));
    graph->at(out).producer = static_cast<core::OpId>(graph->ops.size());
    core::Op made;
    made.kind = kind;
    made.inputs = std::move(inputs);
    made.outputs = {out};
    made.options = std::move(options);
    graph->ops.push_back(std::move(made));
    return out;
  }
  void output(core::ValueId id, const std::string& name) {
    graph->outputs.push_back(id);
    graph->output_names.push_back(name);
  }
};

inline std::vector<float> ramp(size_t count, float start, float step) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = start + step * static_cast<float>(i);
  return out;
}

// Floats that are stored in a "file", as weights are.
inline stream::RecipeRef stored(const std::vector<float>& values, core::Shape shape) {
  std::vector<std::byte> bytes(values.size() * sizeof(float) + 3);  // an odd offset
  std::memcpy(bytes.data() + 3, values.data(), values.size() * sizeof(float));
  uint64_t length = values.size() * sizeof(float);
  return stream::recipe::stored(stream::memory_source(std::move(bytes), "weights"),
                                {{.offset = 3, .bytes = length, .elements = values.size()}}, core::DType::kFloat32,
                                std::move(shape));
}

// x[1,5,7,3] -> CONV_2D with permuted weights [4,2,3,3] and a bias -> ADD of a large constant -> y[1,4,5,4], with a
// second output: the input's shape as i64.
inline Made small_network(int64_t large = 1) {
  Made m;
  core::ValueId x = m.input(core::DType::kFloat32, {1, 5, 7, 3}, "x");
  auto weights = stream::recipe::permute(stored(ramp(4 * 3 * 2 * 3, -1, 0.03f), {4, 3, 2, 3}), {0, 2, 3, 1});
  core::ValueId w = m.graph->add_constant(weights, "w");
  core::ValueId b = m.graph->add_constant(stream::recipe::floats(ramp(4, 0.5f, 1), {4}), "b");
  core::ValueId c = m.op(core::Kind::kConv2d, {x, w, b}, core::Conv2dOptions{}, core::DType::kFloat32, {1, 4, 5, 4});
  core::ValueId more =
      m.graph->add_constant(stored(ramp(static_cast<size_t>(large * 80), 0, 0.01f), {large, 4, 5, 4}), "more");
  core::ValueId y = m.op(core::Kind::kAdd, {c, more}, core::BinaryOptions{}, core::DType::kFloat32, {large, 4, 5, 4});
  core::ValueId s = m.op(core::Kind::kShape, {x}, core::IndexOptions{core::DType::kInt64}, core::DType::kInt64, {4});
  m.output(y, "y");
  m.output(s, "shape of x");
  return m;
}

}  // namespace lowtide::emit
