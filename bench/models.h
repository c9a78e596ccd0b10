// SPDX-License-Identifier: Apache-2.0
// Test models of any size, written while they are made: weights come from a counter-based generator and never
// stay in memory, so a model of 8 GB takes as little of it as one of 8 MB.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "bench/model_spec.h"

namespace lowtide::bench {

struct ModelKind {
  std::string_view name;
  std::string_view summary;
  int input_size;
};

/// All kinds, in the order of the documentation.
std::span<const ModelKind> model_kinds();

/// Writes the model to `out` and, when external, its weights to "<out>.data", or "<out>.data.0" and so on. The networks
/// (duc, deeplab, unet) reach size_bytes by the number of channels, conv-stack and matmul-stack by the number of
/// layers, one-tensor by its channels. A file that is there is replaced, and only once the new one is complete. Throws
/// stream::Error for a spec that cannot be met or a file that cannot be written.
MadeModel make_model(const ModelSpec& spec, const std::filesystem::path& out, const Progress& progress = {});

}  // namespace lowtide::bench
