// SPDX-License-Identifier: Apache-2.0
// Options of core ops as TFLite's flatbuffer tables.
#pragma once

#include "layout/core/graph.h"
#include "schemas/tflite_generated.h"

namespace lowtide::emit {

// An operator has its options in one of two unions, or as custom bytes, or none.
struct OptionsTable {
  tflite::BuiltinOptions type = tflite::BuiltinOptions::NONE;
  tflite::BuiltinOptions2 type2 = tflite::BuiltinOptions2::NONE;
  flatbuffers::Offset<void> table;
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> custom;
};

// Tables without fields are not written: a missing table means the same to every kernel. Throws Error(kInternal) when
// the op's options are not those of its kind.
OptionsTable options_table(flatbuffers::FlatBufferBuilder& fbb, const core::Graph& graph, const core::Op& op);

}  // namespace lowtide::emit
