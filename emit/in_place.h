// SPDX-License-Identifier: Apache-2.0
// Decides which constants stay in the ONNX model's own files instead of being copied. LiteRT reads them there through
// external buffers: a file below the model's folder, an offset, a length.
//
// The traps: each buffer is a mapping of its own, a process may have some 65,000 of them, and some kernels read past
// the end of a tensor, where a mapping that ends with its file has nothing.
#pragma once

#include <filesystem>

#include "emit/plan.h"

namespace lowtide::emit {

// Fills plan.files, plan.in_place and the byte counts beside them. `folder` is that of the output. Throws
// Error(kUsage) when a constant could stay but its file does not lie below `folder`.
void choose_in_place(const core::Model& model, const std::filesystem::path& folder, Plan& plan);

}  // namespace lowtide::emit
