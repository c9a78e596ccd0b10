// SPDX-License-Identifier: Apache-2.0
// Writes an ONNX model: its nodes from memory or from the file that they stand in, its weights by running their
// recipes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "emit/onnx_plan.h"
#include "stream/file/budget.h"

namespace lowtide::emit {

struct OnnxWriteResult {
  uint64_t file_bytes = 0;
  std::string data_name;  // of the file of data beside the model; empty: there is none
  uint64_t data_bytes = 0;
  std::vector<NamedFile> files;  // with data in place, and the bytes used
};

// The smallest budget for write_onnx.
uint64_t least_budget(const OnnxPlan& plan);

// A file that the model reads from is not replaced, also where its bytes are copied: the model would lose its weights.
// write_onnx calls this too. Throws Error(kUsage).
void refuse_needed_files(const OnnxPlan& plan, const onnx::Model& model, const std::filesystem::path& path);

// The model gets its name only when it, and the file of data before it, are complete and no source has changed. Throws
// Error: kUnsupported, kUsage (data in place in another folder, or an output that is a file with data still needed),
// kBudget, kIo (also while another call writes both files under the same names), kNoSpace, kNotFound.
OnnxWriteResult write_onnx(const onnx::Model& model, const std::filesystem::path& path, stream::Budget& budget,
                           const OnnxWriteOptions& options = {});
// The same from a plan of the same model and path.
OnnxWriteResult write_onnx(const OnnxPlan& plan, const onnx::Model& model, const std::filesystem::path& path,
                           stream::Budget& budget, const OnnxWriteOptions& options);
// The same numbers without writing anything.
OnnxWriteResult summary(const OnnxPlan& plan);

}  // namespace lowtide::emit
