// SPDX-License-Identifier: Apache-2.0
// What a conversion did, for people and for programs (schemas/report.schema.json).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "emit/custom_operators.h"
#include "emit/tflite_writer.h"
#include "layout/core/integer_report.h"
#include "layout/core/narrowed_node.h"
#include "layout/core/shrunk_weights.h"
#include "layout/core/target_coverage.h"

namespace lowtide::emit {

struct Report {
  std::string input, output;  // paths as given
  bool dry_run = false;
  std::string weight_form = "stored";        // as asked for
  bool in_place = false;                     // weights were to stay where they are
  bool shrinks = false;                      // or to be stored in fewer bits
  core::ShrunkWeights weights;               // what came of that
  core::IntegerReport integers;              // of a quantized model
  std::vector<CustomUse> custom;             // operators whose kernels the application brings
  std::vector<core::NarrowedNode> narrowed;  // nodes that are computed in fewer bits than the model says
  core::TargetCoverage coverage;             // of the target that --for names
  std::vector<std::string> notes;            // what was taken although the model's opset does not have it
  uint64_t input_bytes = 0;                  // the model and what it names in external files
  uint64_t nodes = 0;                        // ONNX nodes of the main graph
  WriteResult written;
  double seconds = 0;
  uint64_t max_rss = 0;      // the limit that was asked for
  uint64_t budget_peak = 0;  // the most that tiles and windows took of it
  // Resident memory, bytes: the kernel's high-water mark, and the highest samples of its two parts.
  uint64_t peak_rss = 0, peak_anonymous = 0, peak_file = 0;
  uint64_t verified_tensors = 0;  // compared with their recipes after writing (--verify-output)
  int threads = 1;
};

// A few lines, each ended by a newline.
std::string report_text(const Report& report);
// The figures of a report (schemas/report.schema.json).
nlohmann::ordered_json report_values(const Report& report);

// "260.1 MB" (powers of 1000, for files) and "18.2 MiB" (powers of 1024, for memory).
std::string file_size(uint64_t bytes);
std::string memory_size(uint64_t bytes);

}  // namespace lowtide::emit
