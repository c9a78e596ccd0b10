// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/aliases.h"

#include <algorithm>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

using core::Graph;
using core::Kind;
using core::Memory;
using core::Op;
using core::OpId;
using core::ValueId;

bool is_alias(const Op& op) { return core::builtin(op.kind).memory == Memory::kSharesInput; }
bool may_overwrite(const Op& op) { return core::builtin(op.kind).memory == Memory::kMayOverwrite; }

class Aliases {
 public:
  explicit Aliases(Graph& graph) : graph_(graph), users_(graph.users()) {}

  void run() {
    const size_t op_count = graph_.ops.size();
    for (size_t i = 0; i < op_count; ++i)
      if (is_alias(graph_.ops[i]) && endangers_source(graph_.ops[i])) copy_before(i);
    graph_.tidy();
  }

 private:
  size_t reads(ValueId id) const {
    return users_[static_cast<size_t>(id)].size() +
           static_cast<size_t>(std::count(graph_.outputs.begin(), graph_.outputs.end(), id));
  }

  bool endangers_source(const Op& op) const {
    const ValueId source = op.inputs[0];
    const OpId maker = graph_.at(source).producer;
    if (graph_.at(source).is_constant() || maker < 0 || reads(source) < 2) return false;
    // What has memory of its own is counted right.
    if (core::builtin(graph_.ops[static_cast<size_t>(maker)].kind).memory == Memory::kOwn) return false;
    // Down the chain of aliases that are read once, to an op that writes.
    ValueId end = op.outputs[0];
    for (;;) {
      if (reads(end) != 1 || users_[static_cast<size_t>(end)].size() != 1) return false;
      const Op& user = graph_.ops[static_cast<size_t>(users_[static_cast<size_t>(end)][0])];
      if (!is_alias(user)) return may_overwrite(user);
      end = user.outputs[0];
    }
  }

  void copy_before(size_t position) {
    const ValueId source = graph_.ops[position].inputs[0];
    const core::Value value = graph_.at(source);
    if (value.rank() == 0) return;  // a scalar's memory is never shared
    const core::Dim axes = value.rank();
    const ValueId begin = graph_.add_constant(stream::recipe::fill_value(0, core::DType::kInt32, {axes}));
    const ValueId size = graph_.add_constant(stream::recipe::fill_value(-1, core::DType::kInt32, {axes}));
    const ValueId copy = graph_.add_value(value.dtype, value.shape);
    graph_.at(copy).quantization = value.quantization;
    graph_.add_op({.kind = Kind::kSlice,
                   .inputs = {source, begin, size},
                   .outputs = {copy},
                   .origin = graph_.ops[position].origin});
    graph_.ops[position].inputs[0] = copy;
  }

  Graph& graph_;
  std::vector<std::vector<OpId>> users_;
};

}  // namespace

void separate_aliases(Graph& graph) { Aliases(graph).run(); }

}  // namespace lowtide::layout
