// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/node_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "layout/lower/since.h"
#include "stream/error.h"
#include "stream/recipe/small_floats.h"

namespace lowtide::layout {
namespace {

using stream::Code;
using stream::Error;

// `kind` is a letter of LowerRow::inputs, a capital one as its small one.
bool is_of_kind(core::DType dtype, char kind) {
  const bool is_bool = dtype == core::DType::kBool, is_int = stream::is_integer(dtype);
  const bool is_small = stream::is_small_float(dtype);
  switch (kind) {
    case 'b':
      return is_bool;
    case 'i':
    case 'I':
      return is_int;
    case 'f':
    case 'F':
      return stream::is_float(dtype);
    case 'n':
    case 'N':
      return is_int || stream::is_float(dtype);
    case 'r':
      return is_small || stream::is_float(dtype);
    case 'm':
    case 'M':
      return is_small || is_int || stream::is_float(dtype);
    case 'q':
    case 'Q':
      return dtype == core::DType::kInt8 || dtype == core::DType::kUint8;
    default:
      return true;
  }
}

bool shares_its_type(char kind) { return std::string_view("FIMNQ*").find(kind) != std::string_view::npos; }

}  // namespace

void check_arity(const onnx::Node& node, const LowerRow& row, int64_t opset) {
  auto count = static_cast<int>(node.inputs.size());
  if (count < row.min_inputs || (row.max_inputs >= 0 && count > row.max_inputs))
    throw Error(Code::kMalformed,
                fmt::format("it has {} inputs, {} to {} are allowed", count, row.min_inputs,
                            row.max_inputs < 0 ? std::string("any number") : std::to_string(row.max_inputs)));
  if (node.domain.empty())
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (const NewerInput* newer = node.inputs[i].empty() ? nullptr : newer_input(node.op_type, i, opset))
        throw Error(
            Code::kMalformed,
            fmt::format("input {} ('{}') is new in opset {}; the node is of opset {}, which its model or function "
                        "imports",
                        i, newer->name, newer->since, opset));
  if (node.outputs.empty()) throw Error(Code::kMalformed, "it has no outputs");
  if (row.max_outputs >= 0 && static_cast<int>(node.outputs.size()) > row.max_outputs)
    throw Error(Code::kMalformed,
                fmt::format("it has {} outputs, at most {} are allowed", node.outputs.size(), row.max_outputs));
}

void check_attribute_names(const onnx::Node& node) {
  std::set<std::string_view> names;
  for (const onnx::Attribute& attribute : node.attributes)
    if (!names.insert(attribute.name).second)
      throw Error(Code::kMalformed, fmt::format("attribute '{}' is given twice", attribute.name));
}

void check_types(const LowerRow& row, const Builder& builder, const std::vector<Val>& inputs) {
  std::optional<core::DType> shared;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const core::DType dtype = builder.graph.at(inputs[i].id).dtype;
    if (dtype == core::DType::kUndefined) continue;
    const char kind = row.inputs[std::min(i, row.inputs.size() - 1)];
    if (!is_of_kind(dtype, kind))
      throw Error(Code::kMalformed, fmt::format("it does not take {}", stream::dtype_name(dtype)),
                  {.slot = fmt::format("input {}", i)});
    if (!shares_its_type(kind)) continue;
    if (shared.value_or(dtype) != dtype)
      throw Error(Code::kMalformed,
                  fmt::format("it is {}, and others that must be of the same type are {}", stream::dtype_name(dtype),
                              stream::dtype_name(*shared)),
                  {.slot = fmt::format("input {}", i)});
    shared = dtype;
  }
}

size_t first_typed_input(const onnx::Node& node, size_t output) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  for (const char* attribute : {"to", "dtype", "output_dtype", "output_datatype"})
    if (const onnx::Attribute* found = node.find(attribute); found && found->i != 0) return kNone;
  const std::string_view op = node.op_type;
  const bool is_statistic = (output == 1 || output == 2) && op.ends_with("Normalization");
  if (is_statistic) return kNone;
  return op == "CastLike" ? 1 : op == "OneHot" ? 2 : 0;
}

}  // namespace lowtide::layout
