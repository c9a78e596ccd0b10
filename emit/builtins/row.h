// SPDX-License-Identifier: Apache-2.0
// The row of a builtin: how its ops are written. What the builtin computes is in its row in layout/core/ops/. A row
// leaves nothing out: its fields have no defaults.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <initializer_list>
#include <span>
#include <string_view>

#include "emit/builtins/options_table.h"
#include "layout/core/graph.h"
#include "layout/core/required.h"

namespace lowtide::emit {

using core::DType;
using core::Graph;
using core::Kind;
using core::Op;
using core::Value;
using flatbuffers::FlatBufferBuilder;

// ---- options ----

using WriteOptionsTable = OptionsTable (*)(FlatBufferBuilder& fbb, const Graph& graph, const Op& op);

// For builtins without options.
OptionsTable no_table(FlatBufferBuilder& fbb, const Graph& graph, const Op& op);
// For those whose options a file does not need: the tensors' dtypes say the same.
OptionsTable table_not_written(FlatBufferBuilder& fbb, const Graph& graph, const Op& op);

[[noreturn]] void reject_options(const Op& op);

// The op's options, which must be of this kind.
template <typename T>
const T& options_of(const Op& op) {
  if (const T* options = std::get_if<T>(&op.options)) return *options;
  reject_options(op);
}

template <typename T>
OptionsTable table_of(tflite::BuiltinOptions type, flatbuffers::Offset<T> table) {
  return {type, table.Union()};
}

inline tflite::Padding schema(core::Padding padding) { return static_cast<tflite::Padding>(padding); }
inline tflite::ActivationFunctionType schema(core::Activation activation) {
  return static_cast<tflite::ActivationFunctionType>(activation);
}
tflite::TensorType schema(DType dtype);  // throws Unsupported for a dtype that TFLite does not have

// ---- versions ----

// What versions depend on: an op with its tensors' types. An absent input is of dtype kUndefined and rank 0.
class OperandTypes {
 public:
  OperandTypes(const Graph& graph, const Op& op) : graph_(graph), op_(op) {}

  const Value* input(size_t i) const { return core::has_input(op_, i) ? &graph_.at(op_.inputs[i]) : nullptr; }
  DType in(size_t i) const { return input(i) ? input(i)->dtype : DType::kUndefined; }
  DType out(size_t i = 0) const { return i < op_.outputs.size() ? graph_.at(op_.outputs[i]).dtype : DType::kUndefined; }
  int rank(size_t i = 0) const { return input(i) ? input(i)->rank() : 0; }
  bool quantized(size_t i) const { return input(i) && input(i)->quantization; }
  bool per_channel(size_t i) const { return quantized(i) && input(i)->quantization->scale.size() > 1; }
  bool types(DType first, DType second, DType result) const {
    return in(0) == first && in(1) == second && out() == result;
  }
  bool all(DType dtype) const { return types(dtype, dtype, dtype); }
  bool either(DType dtype) const { return in(0) == dtype || out() == dtype; }
  bool hybrid() const { return types(DType::kFloat32, DType::kInt8, DType::kFloat32); }
  // Two inputs of different shapes, one of more than four axes.
  bool broadcasts_high_rank() const {
    return input(0) && input(1) && input(0)->shape != input(1)->shape && std::max(rank(0), rank(1)) > 4;
  }
  template <typename T>
  const T& options() const {
    return options_of<T>(op_);
  }
  const Value& result() const { return graph_.at(op_.outputs[0]); }

 private:
  const Graph& graph_;
  const Op& op_;
};

inline constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16, kBF16 = DType::kBFloat16, kI2 = DType::kInt2,
                       kI4 = DType::kInt4, kU4 = DType::kUint4, kI8 = DType::kInt8, kU8 = DType::kUint8,
                       kI16 = DType::kInt16, kI32 = DType::kInt32, kU32 = DType::kUint32, kI64 = DType::kInt64,
                       kBool = DType::kBool, kE4M3 = DType::kFloat8E4M3FN, kE5M2 = DType::kFloat8E5M2;

// What a dtype of an input needs.
struct TypeVersion {
  DType dtype = DType::kUndefined;
  int version = 1;
};

// Which version of its kernel an op needs: a function, or a list of dtypes.
// Source: the rules of LiteRT's tflite/converter/tools/versioning/op_version.cc.
class VersionRule {
 public:
  using Function = int (*)(const OperandTypes&);
  constexpr VersionRule(Function rule) : rule_(rule) {}
  constexpr VersionRule(size_t input, std::initializer_list<TypeVersion> rules, int otherwise)
      : input_(input), otherwise_(otherwise) {
    std::copy(rules.begin(), rules.end(), by_type_.begin());
  }
  int operator()(const OperandTypes& types) const;

 private:
  static constexpr size_t kMost = 8;
  Function rule_ = nullptr;
  size_t input_ = 0;
  std::array<TypeVersion, kMost> by_type_{};
  int otherwise_ = 1;
};

// The version that the dtype of an input asks for; `otherwise` for all other dtypes.
consteval VersionRule by_type(std::initializer_list<TypeVersion> rules, int otherwise = 1) {
  return {0, rules, otherwise};
}
consteval VersionRule by_type_of(size_t input, std::initializer_list<TypeVersion> rules) { return {input, rules, 1}; }
inline constexpr VersionRule kOneVersion = by_type({});

// How the kernel is to read a bias beside data of 16 bits: as 32 bits, or as the default, 64.
// Source: tflite/kernels/kernel_util.cc, PopulateConvolutionQuantizationParams.
tflite::TensorType bias_type(const Graph& graph, const Op& op, size_t data, size_t bias);

// ---- runtimes ----

// In place of a runtime: a version that was withdrawn, or one that LiteRT's list leaves out.
inline constexpr std::string_view kNotOnRecord = "";

// The first runtimes with versions 1, 2, ... of a kernel.
// Source: LiteRT's tflite/converter/tools/versioning/runtime_version.cc.
class Runtimes {
 public:
  template <std::convertible_to<std::string_view>... Rest>
  constexpr Runtimes(std::string_view first, Rest... rest) : of_{first, rest...} {}
  constexpr std::string_view of(int version) const {
    return version >= 1 && static_cast<size_t>(version) <= of_.size() ? of_[static_cast<size_t>(version - 1)]
                                                                      : std::string_view();
  }

 private:
  static constexpr size_t kMost = 14;
  std::array<std::string_view, kMost> of_;
};

struct BuiltinForm {
  core::Required<Kind> kind;
  core::Required<WriteOptionsTable> options;
  VersionRule version;
  Runtimes runtimes;
};

// Throws Error(kInternal) when the kind has no row: it cannot be written.
const BuiltinForm& builtin_form(Kind kind);
// All rows, in the order of their families.
std::span<const BuiltinForm* const> all_builtin_forms();

// The rows by family; each is the file of that name, beside the family's file in layout/core/ops/.
std::span<const BuiltinForm> elementwise_forms();
std::span<const BuiltinForm> reduce_forms();
std::span<const BuiltinForm> shape_forms();
std::span<const BuiltinForm> concat_forms();
std::span<const BuiltinForm> slice_forms();
std::span<const BuiltinForm> pad_forms();
std::span<const BuiltinForm> gather_forms();
std::span<const BuiltinForm> fill_forms();
std::span<const BuiltinForm> conv_forms();
std::span<const BuiltinForm> matmul_forms();
std::span<const BuiltinForm> control_forms();
std::span<const BuiltinForm> custom_forms();
std::span<const BuiltinForm> stateful_forms();

}  // namespace lowtide::emit
