// SPDX-License-Identifier: Apache-2.0
// The kernels for LiteRT's CompiledModel, in a shared library that any host can load.
#pragma once

#include "litert.h"

extern "C" {

// Adds Atan, Clamp, and Clamp#1 to Clamp#8. The kernels live as long as the process. Returns the first status that is
// not 0.
LiteRtStatus example_add_kernels(LiteRtOptions options);

// How often a kernel could not do its work since the last call: LiteRT ignores what kernels return. Their outputs are
// NaN then.
int example_take_failures();

}  // extern "C"
