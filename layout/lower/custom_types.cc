// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/custom_types.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lowtide::layout {
namespace {

using stream::DType;

// ONNX's names in lower case, which are numpy's where numpy has the type.
constexpr std::array<std::pair<DType, std::string_view>, 26> kNames = {{
    {DType::kFloat32, "float32"},
    {DType::kFloat16, "float16"},
    {DType::kBFloat16, "bfloat16"},
    {DType::kFloat64, "float64"},
    {DType::kInt2, "int2"},
    {DType::kUint2, "uint2"},
    {DType::kInt4, "int4"},
    {DType::kUint4, "uint4"},
    {DType::kInt8, "int8"},
    {DType::kUint8, "uint8"},
    {DType::kInt16, "int16"},
    {DType::kUint16, "uint16"},
    {DType::kInt32, "int32"},
    {DType::kUint32, "uint32"},
    {DType::kInt64, "int64"},
    {DType::kUint64, "uint64"},
    {DType::kBool, "bool"},
    {DType::kString, "string"},
    {DType::kComplex64, "complex64"},
    {DType::kComplex128, "complex128"},
    {DType::kFloat8E4M3FN, "float8e4m3fn"},
    {DType::kFloat8E4M3FNUZ, "float8e4m3fnuz"},
    {DType::kFloat8E5M2, "float8e5m2"},
    {DType::kFloat8E5M2FNUZ, "float8e5m2fnuz"},
    {DType::kFloat8E8M0, "float8e8m0"},
    {DType::kFloat4E2M1, "float4e2m1"},
}};

}  // namespace

std::string_view custom_type_name(DType dtype) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& row) { return row.first == dtype; });
  return found == kNames.end() ? "undefined" : found->second;
}

std::optional<DType> custom_type(std::string_view name) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& row) { return row.second == name; });
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace lowtide::layout
