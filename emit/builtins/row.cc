// SPDX-License-Identifier: Apache-2.0
#include "emit/builtins/row.h"

#include <fmt/format.h>

#include <vector>

#include "stream/error.h"
#include "stream/tflite/dtype.h"

namespace lowtide::emit {
namespace {

#define LOWTIDE_KIND(schema_name, enumerator, code) \
  static_assert(code == static_cast<int>(tflite::BuiltinOperator::schema_name));
#include "layout/core/kinds.inc"
#undef LOWTIDE_KIND
static_assert(static_cast<int>(core::Padding::kSame) == static_cast<int>(tflite::Padding::SAME));
static_assert(static_cast<int>(core::Padding::kValid) == static_cast<int>(tflite::Padding::VALID));
static_assert(static_cast<int>(core::Activation::kRelu) == static_cast<int>(tflite::ActivationFunctionType::RELU));
static_assert(static_cast<int>(core::Activation::kReluN1To1) ==
              static_cast<int>(tflite::ActivationFunctionType::RELU_N1_TO_1));
static_assert(static_cast<int>(core::Activation::kRelu6) == static_cast<int>(tflite::ActivationFunctionType::RELU6));

constexpr size_t kFormKinds = 256;  // all codes are below

struct Forms {
  std::vector<const BuiltinForm*> all;
  std::array<const BuiltinForm*, kFormKinds> by_kind{};

  Forms() {
    for (std::span<const BuiltinForm> family : {elementwise_forms(), reduce_forms(), shape_forms(), concat_forms(),
                                                slice_forms(), pad_forms(), gather_forms(), fill_forms(), conv_forms(),
                                                matmul_forms(), control_forms(), custom_forms(), stateful_forms()})
      for (const BuiltinForm& row : family) {
        const BuiltinForm*& place = by_kind[static_cast<size_t>(*row.kind)];
        if (place)
          throw stream::Error(stream::Code::kInternal,
                              fmt::format("two rows say how {} is written", core::kind_name(row.kind)));
        place = &row;
        all.push_back(&row);
      }
  }
};

const Forms& forms() {
  static const Forms made;
  return made;
}

}  // namespace

tflite::TensorType bias_type(const Graph& graph, const Op& op, size_t data, size_t bias) {
  const bool is_narrow =
      core::has_input(op, bias) && graph.at(op.inputs[data]).dtype == kI16 && graph.at(op.inputs[bias]).dtype == kI32;
  return is_narrow ? tflite::TensorType::INT32 : tflite::TensorType::FLOAT32;
}

const BuiltinForm& builtin_form(Kind kind) {
  const auto code = static_cast<size_t>(kind);
  if (code >= kFormKinds || !forms().by_kind[code])
    throw stream::Error(stream::Code::kInternal, fmt::format("no row says how {} is written", core::kind_name(kind)));
  return *forms().by_kind[code];
}

std::span<const BuiltinForm* const> all_builtin_forms() { return forms().all; }

OptionsTable no_table(FlatBufferBuilder&, const Graph&, const Op& op) {
  options_of<core::NoOptions>(op);
  return {};
}

OptionsTable table_not_written(FlatBufferBuilder&, const Graph&, const Op&) { return {}; }

void reject_options(const Op& op) {
  throw stream::Error(stream::Code::kInternal,
                      fmt::format("{} does not have its own options", core::kind_name(op.kind)));
}

tflite::TensorType schema(DType dtype) {
  auto type = stream::tensor_type(dtype);
  if (!type) throw stream::Unsupported(fmt::format("TFLite has no type {}", stream::dtype_name(dtype)));
  return *type;
}

int VersionRule::operator()(const OperandTypes& types) const {
  if (rule_) return rule_(types);
  for (const TypeVersion& rule : by_type_)
    if (rule.dtype != DType::kUndefined && rule.dtype == types.in(input_)) return rule.version;
  return otherwise_;
}

}  // namespace lowtide::emit
