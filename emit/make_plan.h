// SPDX-License-Identifier: Apache-2.0
// Plans a .tflite file (plan.h): header first, then the place of each payload.
#pragma once

#include "emit/plan.h"

namespace lowtide::emit {

// Throws Error(kUnsupported) when a tensor's type or shape has no TFLite form or the graph is too large for a
// flatbuffer, Error(kInternal) when the graph breaks what the writer needs of it.
Plan plan_tflite(const core::Model& model, const WriteOptions& options);

}  // namespace lowtide::emit
