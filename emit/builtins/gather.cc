// SPDX-License-Identifier: Apache-2.0
// Ops that pick or place elements by index.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable gather_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::GatherOptions>(op);
  return table_of(tflite::BuiltinOptions::GatherOptions, tflite::CreateGatherOptions(fbb, o.axis, o.batch_dims));
}

// The last axis as -1: GPU delegates know it as that.
OptionsTable one_hot_options(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  const auto& o = options_of<core::OneHotOptions>(op);
  const int axis = o.axis == graph.at(op.inputs[0]).rank() ? -1 : o.axis;
  return table_of(tflite::BuiltinOptions::OneHotOptions, tflite::CreateOneHotOptions(fbb, axis));
}

OptionsTable unique_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::IndexOptions>(op);
  return table_of(tflite::BuiltinOptions::UniqueOptions, tflite::CreateUniqueOptions(fbb, schema(o.dtype)));
}

// ---- versions ----

int gather_version(const OperandTypes& s) {
  if (s.in(0) == kI4) return 7;
  if (s.in(1) == kI16) return 6;
  if (s.options<core::GatherOptions>().batch_dims != 0) return 5;
  return by_type({{kI16, 4}, {kBool, 3}, {kI8, 2}})(s);
}

int gather_nd_version(const OperandTypes& s) {
  if (s.in(0) == kBool) return 5;
  if (s.in(1) == kI16) return 4;
  return s.in(0) == kI16 ? 3 : 1;
}

int embedding_lookup_version(const OperandTypes& s) {
  if (s.in(1) == kI4 || s.per_channel(1)) return 4;
  return s.in(1) == kI8 ? 3 : 1;
}

constexpr BuiltinForm kGatherForms[] = {
    {Kind::kGather,
     gather_options,
     gather_version,
     {"1.6.0", "1.14.0", "1.15.0", "2.4.0", "2.5.0", "2.13.0", "2.15.0", "2.23.0"}},
    {Kind::kGatherNd, no_table, gather_nd_version, {"1.14.0", "2.3.0", "2.5.0", "2.13.0", "2.16.0", "2.23.0"}},
    {Kind::kScatterNd, no_table, kOneVersion, {"2.1.0"}},
    {Kind::kEmbeddingLookup, no_table, embedding_lookup_version, {"1.13.0", "1.14.0", "1.14.0", "2.18.0", "2.21.0"}},
    {Kind::kOneHot, one_hot_options, kOneVersion, {"1.11.0"}},
    {Kind::kUnsortedSegmentProd, no_table, kOneVersion, {kNotOnRecord}},
    {Kind::kUnsortedSegmentMax, no_table, kOneVersion, {kNotOnRecord}},
    {Kind::kUnsortedSegmentSum, no_table, kOneVersion, {kNotOnRecord}},
    {Kind::kUnsortedSegmentMin, no_table, kOneVersion, {kNotOnRecord}},
    {Kind::kNonMaxSuppressionV4, no_table, kOneVersion, {"2.1.0"}},
    {Kind::kWhere, no_table, by_type({{kBool, 1}}, 2), {"1.14.0", "2.8.0"}},
    {Kind::kUnique, unique_options, kOneVersion, {"1.14.0"}},
};

}  // namespace

std::span<const BuiltinForm> gather_forms() { return kGatherForms; }

}  // namespace lowtide::emit
