// SPDX-License-Identifier: Apache-2.0
// Which version of its kernel an operator needs.
//
// The trap: a kernel's version depends on dtypes, ranks and options, and a runtime refuses a version above its own; so
// the lowest version that has what the op uses is the right one.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::emit {

// Source: the rules of LiteRT's tflite/converter/tools/versioning/op_version.cc.
int op_version(const core::Graph& graph, const core::Op& op);

}  // namespace lowtide::emit
