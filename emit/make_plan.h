// SPDX-License-Identifier: Apache-2.0
// Plans a .tflite file (plan.h): the header, then the offset of each payload.
#pragma once

#include "emit/plan.h"

namespace lowtide::emit {

// Throws Error(kUnsupported) when TFLite has no form for a tensor's type or shape, or the graph is too large for a
// flatbuffer; Error(kInternal) when the graph violates an invariant.
Plan plan_tflite(const core::Model& model, const WriteOptions& options);

}  // namespace lowtide::emit
