// SPDX-License-Identifier: Apache-2.0
// RESHAPE, SQUEEZE, EXPAND_DIMS, SHAPE, TRANSPOSE, PACK, UNPACK, BITCAST.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable squeeze_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::SqueezeOptions>(op);
  return table_of(tflite::BuiltinOptions::SqueezeOptions, tflite::CreateSqueezeOptionsDirect(fbb, &o.dims));
}

OptionsTable shape_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::IndexOptions>(op);
  return table_of(tflite::BuiltinOptions::ShapeOptions, tflite::CreateShapeOptions(fbb, schema(o.dtype)));
}

OptionsTable pack_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::PackOptions>(op);
  return table_of(tflite::BuiltinOptions::PackOptions,
                  tflite::CreatePackOptions(fbb, static_cast<int>(op.inputs.size()), o.axis));
}

OptionsTable unpack_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::PackOptions>(op);
  return table_of(tflite::BuiltinOptions::UnpackOptions,
                  tflite::CreateUnpackOptions(fbb, static_cast<int>(op.outputs.size()), o.axis));
}

// ---- versions ----

int transpose_version(const OperandTypes& s) {
  int by_dtype = by_type({{kF16, 9}, {kBF16, 8}, {kI4, 7}})(s);
  if (by_dtype > 1) return by_dtype;
  if (s.rank() > 5) return 6;
  if (s.in(0) == kI16) return 5;
  if (s.rank() > 4) return 4;
  return by_type({{kBool, 3}, {kI8, 2}})(s);
}

constexpr BuiltinForm kShapeForms[] = {
    {Kind::kReshape, no_table, kOneVersion, {"1.5.0"}},
    {Kind::kSqueeze, squeeze_options, kOneVersion, {"1.6.0", "2.5.0"}},
    {Kind::kExpandDims, no_table, kOneVersion, {"1.10.0"}},
    {Kind::kShape, shape_options, kOneVersion, {"1.10.0"}},
    {Kind::kTranspose,
     no_table,
     transpose_version,
     {"1.6.0", "1.14.0", "1.15.0", "2.3.0", "2.4.0", "2.12.0", "2.14.4", "2.22.0", "2.23.0"}},
    {Kind::kPack,
     pack_options,
     by_type({{kU32, 4}, {kI16, 3}, {kI8, 2}}),
     {"1.11.0", "1.14.0", "2.3.0", "2.13.0", "2.23.0"}},
    {Kind::kUnpack,
     unpack_options,
     by_type({{kF16, 5}, {kBF16, 5}, {kI16, 4}, {kBool, 3}, {kI8, 2}, {kU8, 2}}),
     {"1.11.0", "1.14.0", "2.2.0", "2.3.0", "2.22.0", "2.23.0"}},
    {Kind::kBitcast, table_not_written, kOneVersion, {"2.13.0"}},
};

}  // namespace

std::span<const BuiltinForm> shape_forms() { return kShapeForms; }

}  // namespace lowtide::emit
