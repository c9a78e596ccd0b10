// SPDX-License-Identifier: Apache-2.0
// Since which TFLite runtime a version of a kernel exists: what the metadata entry min_runtime_version is made of.
#pragma once

#include <string_view>

#include "layout/core/graph.h"

namespace lowtide::emit {

// "2.13.0": the first runtime with that version of the kernel; empty when it is not on record. Source: LiteRT's
// tflite/converter/tools/versioning/runtime_version.cc.
std::string_view first_runtime(core::Kind kind, int version);

// Of two runtime versions the newer one, compared number by number; an empty one is older than all.
std::string_view newer_runtime(std::string_view a, std::string_view b);

}  // namespace lowtide::emit
