// Which version of its kernel an operator needs, and since which runtime that version exists.
//
// The trap: a kernel's version depends on dtypes, ranks and options, and a runtime refuses a version above its own; so
// the lowest version that has what the op uses is the right one.
#pragma once

#include <string_view>

#include "layout/core.h"

namespace lowtide::emit {

// Source: the rules of LiteRT's tflite/tools/versioning/op_version.cc.
int op_version(const core::Graph& graph, const core::Op& op);

// "2.13.0": the first TFLite runtime with that version of the kernel; empty when it is not on record. Source: LiteRT's
// tflite/tools/versioning/runtime_version.cc.
std::string_view first_runtime(core::Kind kind, int version);

// Of two runtime versions the newer one, compared number by number; an empty one is older than all.
std::string_view newer_runtime(std::string_view a, std::string_view b);

}  // namespace lowtide::emit
