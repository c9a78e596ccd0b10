// SPDX-License-Identifier: Apache-2.0
// What decides the result of a conversion on the command line, and the way from an ONNX file to the plan of its TFLite
// file: shared by the command that converts and the one that compares with what would be converted.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/plan.h"
#include "emit/refusal.h"
#include "layout/convert.h"
#include "stream/onnx/model.h"
#include "stream/progress.h"
#include "tools/lowtide/command_line.h"
#include "tools/lowtide/memory_limit.h"

namespace lowtide::tools {

// --threads, or what suits the machine.
int thread_count(const ConversionOptions& options);

using AfterPass = std::function<void(std::string_view pass, const core::Model&)>;
// Who looks on; each may be empty.
struct Watchers {
  std::function<void(const onnx::Model&)> on_read;
  AfterPass after_pass;
  stream::Progress* progress = nullptr;  // passes that read weights take their time
};
struct Planned {
  emit::Plan plan;
  core::ShrunkWeights weights;
  std::vector<std::string> notes;       // layout::ConvertResult::notes
  uint64_t input_bytes = 0, nodes = 0;  // of the ONNX model
  uint64_t budget_peak = 0;
};
// Reads the model, converts it to TFLite's operators, and plans a file in `folder`. The memory that this needed is
// given back. Throws stream::Error, and emit::Refusal when nodes
// cannot be converted.
Planned plan_conversion(const ConversionOptions& options, const std::filesystem::path& folder, const Watchers& watchers,
                        const MemoryLimit& limit);

}  // namespace lowtide::tools
