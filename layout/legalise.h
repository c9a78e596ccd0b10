// What TFLite's kernels demand beyond their semantics.
#pragma once

#include "layout/core.h"

namespace lowtide::layout {

// Gives CONV_2D and DEPTHWISE_CONV_2D without bias one of zeros: the first kernel refuses to run without, the second
// crashes (docs/kernels.md). Runs after everything that may still put a bias there.
void legalise(core::Graph& graph);

}  // namespace lowtide::layout
