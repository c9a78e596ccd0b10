// SPDX-License-Identifier: Apache-2.0
// Nodes that become CUSTOM operators, for which the application brings kernels: which ones, and what is known of them
// (--custom-ops, --custom-ops-map; docs/custom-operators.md).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "layout/core/builder.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// An operator as users name it: "Clamp" in any domain, "my.ops:Clamp", or "ai.onnx:Atan".
struct OperatorName {
  std::optional<std::string> domain;  // "" is ai.onnx; nullopt: any
  std::string op;
  bool fits(const onnx::Node& node) const { return op == node.op_type && domain.value_or(node.domain) == node.domain; }
};
OperatorName operator_name(const std::string& text);

// An extent of an output: a number, the extent of an input's axis, or known only at run time.
struct InputExtent {
  size_t input = 0;
  int64_t axis = 0;  // negative ones count from the end
};
using Extent = std::variant<std::monostate, int64_t, InputExtent>;

struct OutputRule {
  std::optional<stream::DType> dtype;
  std::optional<size_t> like;  // an input: its type and its shape, where the other two do not say more
  std::optional<std::vector<Extent>> shape;
};

// What the user knows of an operator.
struct CustomMapping {
  OperatorName of;
  std::string name;  // in the TFLite file; empty: the operator's own
  int32_t version = 1;
  bool any_axis_order = false;
  std::vector<std::string> attributes_as_inputs;
  std::vector<OutputRule> outputs;  // empty: the model or ONNX's rules say it
};

struct CustomChoice {
  bool all = false;                 // every node that cannot be converted otherwise
  std::vector<OperatorName> named;  // these always, as those of `mappings`
  std::vector<CustomMapping> mappings;
};

// The type and shape of a value; `shape` in symbols where it is known only at run time.
struct CustomOutput {
  stream::DType dtype = stream::DType::kUndefined;
  core::Shape shape;
};
// What other sources than a mapping say of an output.
using KnownOutputs = std::vector<std::optional<CustomOutput>>;

class CustomOperators {
 public:
  explicit CustomOperators(const CustomChoice& choice) : choice_(choice) {}

  // The node becomes CUSTOM, although Lowtide may know its operator.
  bool names(const onnx::Node& node);
  // So does a node that cannot be converted.
  bool takes_refused() const { return choice_.all; }
  // Adds the op. Throws Unsupported where its attributes or the types of its outputs cannot be written.
  std::vector<core::Val> add(core::Builder& b, const onnx::Node& node, int64_t opset,
                             const std::vector<core::Val>& inputs, const KnownOutputs& known) const;
  // Operators that were named and that no node has.
  std::vector<std::string> notes() const;

 private:
  const CustomMapping* mapping(const onnx::Node& node) const;

  const CustomChoice& choice_;
  std::set<const OperatorName*> met_;
};

// What ONNX says of the outputs of operators that no TFLite kernel computes and that Lowtide does not lower.
KnownOutputs outputs_by_onnx(core::Builder& b, const onnx::Node& node, const std::vector<core::Val>& inputs);

}  // namespace lowtide::layout
