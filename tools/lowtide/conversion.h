// SPDX-License-Identifier: Apache-2.0
// From an ONNX file and the options that decide the result to the plan of the TFLite file: for `convert`, and for
// `check`, which compares a file with that plan.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/plan.h"
#include "emit/refusal.h"
#include "layout/convert.h"
#include "layout/core/target_coverage.h"
#include "stream/file/budget.h"
#include "stream/onnx/model.h"
#include "stream/progress.h"
#include "tools/lowtide/command_line.h"
#include "tools/lowtide/memory_limit.h"

namespace lowtide::tools {

// --threads, or the default for this machine.
int thread_count(const ConversionOptions& options);

using AfterPass = std::function<void(std::string_view pass, const core::Model&)>;
using OnPlanned = std::function<void(core::Model&, const emit::Plan&)>;
// Called during a conversion; each may be empty.
struct Watchers {
  std::function<void(const onnx::Model&)> on_read;
  AfterPass after_pass;
  OnPlanned on_planned;                  // the final graph, before its memory is freed
  stream::Progress* progress = nullptr;  // for passes that read weights, which takes long
};
struct Planned {
  emit::Plan plan;
  core::ShrunkWeights weights;
  core::IntegerReport integers;
  std::vector<core::NarrowedNode> narrowed;  // layout::ConvertResult::narrowed
  std::vector<std::string> notes;            // layout::ConvertResult::notes
  core::TargetCoverage coverage;             // of the nodes, where --for names a target of ONNX nodes
  uint64_t input_bytes = 0, nodes = 0;       // of the ONNX model
  uint64_t budget_peak = 0;
};
// Reads the model and converts it to TFLite's operators, within `budget`, which outlives the result. Throws
// stream::Error, and emit::Refusal when nodes cannot be converted.
struct Converted {
  layout::ConvertResult result;
  core::TargetCoverage coverage;        // as in Planned
  uint64_t input_bytes = 0, nodes = 0;  // of the ONNX model
};
Converted convert_graph(const ConversionOptions& options, const std::filesystem::path& folder, const Watchers& watchers,
                        const MemoryLimit& limit, stream::Budget& budget);

// Reads the model, converts it to TFLite's operators, and plans a file in `folder`. The memory of both graphs is freed.
// Throws stream::Error, and emit::Refusal when nodes cannot be converted.
Planned plan_conversion(const ConversionOptions& options, const std::filesystem::path& folder, const Watchers& watchers,
                        const MemoryLimit& limit);

}  // namespace lowtide::tools
