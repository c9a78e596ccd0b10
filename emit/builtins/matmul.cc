// SPDX-License-Identifier: Apache-2.0
// The matrix products.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable fully_connected_options(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  const auto& o = options_of<core::FullyConnectedOptions>(op);
  return table_of(tflite::BuiltinOptions::FullyConnectedOptions,
                  tflite::CreateFullyConnectedOptions(fbb, schema(o.activation),
                                                      tflite::FullyConnectedOptionsWeightsFormat::DEFAULT,
                                                      o.keep_num_dims, false, bias_type(graph, op, 0, 2)));
}

OptionsTable batch_matmul_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::BatchMatmulOptions>(op);
  return table_of(tflite::BuiltinOptions::BatchMatMulOptions, tflite::CreateBatchMatMulOptions(fbb, o.adj_x, o.adj_y));
}

// ---- versions ----

int fully_connected_version(const OperandTypes& s) {
  const auto& o = s.options<core::FullyConnectedOptions>();
  if (s.types(kI16, kI4, kI16)) return 13;
  if (s.in(0) == kI16 && s.in(2) == kI32) return 11;
  if (s.hybrid() && s.per_channel(1)) return 12;
  // No version says that the kernel takes these: 12 is of a runtime that does.
  if (s.types(kF32, kI4, kF32)) return 12;
  if (s.all(kI16)) return 7;
  if (!s.input(2)) return 6;
  if (o.keep_num_dims) return 5;
  if (s.all(kI8)) return 4;
  if (s.types(kI8, kI4, kI8)) return 10;
  if (s.hybrid()) return 3;
  return 1;
}

constexpr BuiltinForm kMatmulForms[] = {
    {Kind::kFullyConnected,
     fully_connected_options,
     fully_connected_version,
     {"1.5.0", "1.10.0", "1.14.0", "1.14.0", "2.0.0", "2.1.0", "2.3.0", "2.3.0", "2.3.0", "2.11.0", "2.15.0", "2.17.0",
      "2.18.0", "2.21.0"}},
    {Kind::kBatchMatmul, batch_matmul_options, by_type({{kI16, 3}, {kI8, 2}}), {"2.3.0", "2.3.0", "2.4.0", "2.5.0"}},
};

}  // namespace

std::span<const BuiltinForm> matmul_forms() { return kMatmulForms; }

}  // namespace lowtide::emit
