// SPDX-License-Identifier: Apache-2.0
// How an op of a builtin is written to a TFLite file: its table of options, the version of its kernel, and the oldest
// runtime that has that version. One row for each builtin (row.h), written in <family>.cc beside this file.
#pragma once

#include <string_view>

#include "emit/builtins/options_table.h"
#include "layout/core/graph.h"

namespace lowtide::emit {

// Tables without fields are not written: a missing table means the same to every kernel. Throws Error(kInternal) when
// the op's options are not those of its kind.
OptionsTable options_table(flatbuffers::FlatBufferBuilder& fbb, const core::Graph& graph, const core::Op& op);

// The version of its kernel that the op needs.
//
// The trap: a kernel's version depends on dtypes, ranks and options, and a runtime refuses a version above its own; so
// the lowest version that has what the op uses is the right one.
int op_version(const core::Graph& graph, const core::Op& op);

// "2.13.0": the first TFLite runtime with that version of the kernel; empty when it is not on record.
std::string_view first_runtime(core::Kind kind, int version);

// Of two runtime versions the newer one, compared number by number; an empty one is older than all.
std::string_view newer_runtime(std::string_view a, std::string_view b);

}  // namespace lowtide::emit
