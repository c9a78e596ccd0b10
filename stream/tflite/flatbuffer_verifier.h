// SPDX-License-Identifier: Apache-2.0
// Checks the whole structure of a flatbuffer against its schema: every table, vector and string is inside the file and
// aligned, and strings end with a zero. flatbuffers' own Verifier does the same, but needs the file in memory.
#pragma once

#include <flatbuffers/minireflect.h>

#include "stream/tflite/flatbuffer_view.h"

namespace lowtide::stream {

// The limit of the runtimes' verifiers.
inline constexpr uint64_t kMaxTables = 1'000'000;

// `type` is the generated reflection table of `root`. Unknown union members and fields are skipped: newer schemas have
// them. Throws Error(kMalformed); its slot is the path to the field ("subgraphs[0].tensors[7].shape").
void verify_flatbuffer(const TableView& root, const flatbuffers::TypeTable& type);

}  // namespace lowtide::stream
