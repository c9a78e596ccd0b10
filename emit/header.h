// SPDX-License-Identifier: Apache-2.0
// Builds the flatbuffer: everything of a .tflite file but the payloads of its constants.
#pragma once

#include "emit/plan.h"

namespace lowtide::emit {

// Fills plan.header, plan.payloads (without positions) and the counts; what plan.in_place has is named and gets no
// payload. The `data` offset of a
// payload's Buffer (or its `offset`, when plan.external) is a placeholder. Buffer 0 is the empty one.
void build_header(const core::Model& model, Plan& plan);

}  // namespace lowtide::emit
