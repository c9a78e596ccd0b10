// SPDX-License-Identifier: Apache-2.0
// What decides the result of a conversion on the command line, and the way from an ONNX file to the plan of its TFLite
// file: shared by the command that converts and the one that compares with what would be converted.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/plan.h"
#include "layout/convert.h"
#include "stream/onnx/model.h"
#include "stream/progress.h"
#include "tools/lowtide/memory_limit.h"

struct ConversionOptions {
  std::string input;
  std::vector<std::string> shapes, layouts, include, exclude;
  std::string weights = "float";
  bool external = false, quiet = false;
  uint64_t max_rss = 0;  // 0: not given
  int threads = 0;       // 0: as many as pay

  lowtide::layout::WeightForm weight_form() const;  // what becomes of the weights: --weights
  int thread_count() const;
};
// The model and all of the above as options of a command.
void add_conversion_options(CLI::App& command, ConversionOptions& options);

using AfterPass = std::function<void(std::string_view pass, const lowtide::core::Model&)>;
// Who looks on; each may be empty.
struct Watchers {
  std::function<void(const lowtide::onnx::Model&)> on_read;
  AfterPass after_pass;
  lowtide::stream::Progress* progress = nullptr;  // passes that read weights take their time
};
struct Planned {
  lowtide::emit::Plan plan;
  lowtide::core::ShrunkWeights weights;
  uint64_t input_bytes = 0, nodes = 0;  // of the ONNX model
  uint64_t budget_peak = 0;
};
// Reads the model, lays it out, and plans a file in `folder`; what that needed is given back. Throws Error; prints the
// nodes and throws Exit when several are refused.
Planned plan_conversion(const ConversionOptions& options, const std::filesystem::path& folder, const Watchers& watchers,
                        const MemoryLimit& limit);
