// SPDX-License-Identifier: Apache-2.0
// Checks the whole structure of a flatbuffer against its schema, as flatbuffers' own Verifier does, which wants it in
// memory: every table, vector and text lies inside the file, is aligned, and texts end with a zero.
#pragma once

#include <flatbuffers/minireflect.h>

#include "stream/tflite/flatbuffer_view.h"

namespace lowtide::stream {

// What the runtimes' verifiers are told, too.
constexpr uint64_t kMaxTables = 1'000'000;

// `type` is the generated table of names and types of `root`. Members of unions that it does not know, and fields
// beyond those that it knows, are passed over: newer schemas have them. Throws Error(kMalformed) whose slot is the path
// to what is wrong ("subgraphs[0].tensors[7].shape").
void verify_flatbuffer(const TableView& root, const flatbuffers::TypeTable& type);

}  // namespace lowtide::stream
