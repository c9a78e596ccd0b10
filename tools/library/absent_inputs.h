// SPDX-License-Identifier: Apache-2.0
// Which inputs of a TFLite operator may be absent (-1 in the file). Kernels that were given -1 for one that they need
// read before the beginning of an array (CVE-2020-15211); those of today refuse it when they are prepared.
#pragma once

#include "stream/tflite/model.h"

namespace lowtide::tools {

// Throws Error(kMalformed). Custom operators and operators that the schema does not have are not checked.
void check_absent_inputs(const tfl::Model& model);

}  // namespace lowtide::tools
