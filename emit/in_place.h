// SPDX-License-Identifier: Apache-2.0
// Decides which constants stay in the ONNX model's own files instead of being copied. LiteRT reads them there through
// external buffers: a file below the model's folder, an offset, a length.
//
// The traps: each buffer is a separate mapping, and a process may have about 65,000 of them; some kernels read past the
// end of a tensor, which fails where the mapping ends with its file.
#pragma once

#include <filesystem>

#include "emit/plan.h"

namespace lowtide::emit {

// Sets plan.files, plan.in_place and plan.unaligned_bytes. `folder` is that of the output. Throws Error(kUsage) when a
// constant could stay but its file is not in `folder` or below it.
void choose_in_place(const core::Model& model, const std::filesystem::path& folder, Plan& plan);

}  // namespace lowtide::emit
