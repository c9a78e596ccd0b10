// SPDX-License-Identifier: Apache-2.0
#include "layout/settle/pin_layouts.h"

#include <fmt/format.h>

#include <algorithm>

#include "layout/core/builder.h"
#include "stream/error.h"
#include "stream/nearest_name.h"

namespace lowtide::layout {
namespace {

using core::Perm;
using core::ValueId;
using stream::Code;
using stream::Error;

Perm channels_last(int rank) {
  Perm perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

[[noreturn]] void unknown_name(const std::string& name, const core::Graph& graph) {
  std::vector<std::string> names = graph.input_names;
  names.insert(names.end(), graph.output_names.begin(), graph.output_names.end());
  throw Error(Code::kUsage, fmt::format("--layout: the model has no input or output '{}'{} (inputs: {}; outputs: {})",
                                        name, stream::did_you_mean(name, names), stream::listed(graph.input_names),
                                        stream::listed(graph.output_names)));
}

}  // namespace

void pin_layouts(core::Graph& graph, const std::map<std::string, std::string>& layouts) {
  core::Builder builder(graph);
  for (const auto& [name, order] : layouts) {
    if (order != "nhwc" && order != "nchw")
      throw Error(Code::kUsage, fmt::format("--layout {}={}: the order must be nhwc or nchw", name, order));
    const auto in = std::find(graph.input_names.begin(), graph.input_names.end(), name);
    const auto out = std::find(graph.output_names.begin(), graph.output_names.end(), name);
    if (in == graph.input_names.end() && out == graph.output_names.end()) unknown_name(name, graph);
    ValueId& value = in != graph.input_names.end()
                         ? graph.inputs[static_cast<size_t>(in - graph.input_names.begin())]
                         : graph.outputs[static_cast<size_t>(out - graph.output_names.begin())];
    const core::Value old = graph.at(value);
    if (old.rank() < 3)
      throw Error(Code::kUsage,
                  fmt::format("--layout {}: the tensor must have rank 3 or more; it has rank {}", name, old.rank()));
    if (order == "nchw") continue;
    const Perm last = channels_last(old.rank());
    if (in == graph.input_names.end()) {
      value = builder.transpose({value}, last).id;
      continue;
    }
    const ValueId pinned = graph.add_value(old.dtype, stream::permuted(old.shape, last), name);
    const ValueId before = value;
    value = pinned;
    graph.at(before).name.clear();
    graph.replace_uses(before, builder.transpose({pinned}, stream::inverse(last)).id);
  }
  graph.tidy();
}

}  // namespace lowtide::layout
