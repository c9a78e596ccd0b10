// SPDX-License-Identifier: Apache-2.0
// Writes a core model as a .tflite file.
#pragma once

#include <filesystem>

#include "emit/plan.h"
#include "stream/file/budget.h"

namespace lowtide::emit {

struct WriteResult {
  bool external = false;
  uint64_t file_bytes = 0, header_bytes = 0, payload_bytes = 0;
  uint64_t compressed_bytes = 0;  // of the compressed file; 0: not compressed
  uint64_t tensors = 0, operators = 0, transposes = 0;
  std::vector<NamedFile> files;  // other files that the model refers to
  uint64_t unaligned_bytes = 0;  // of constants that were written because their offset is not aligned
};

// The smallest budget for write_tflite.
uint64_t least_budget(const Plan& plan, const WriteOptions& options);

// Plans all sizes, then writes the payloads from the end of the file to its front, and the header last: until then the
// file has no identifier. The output gets its name only when it is complete and no source has changed. Throws Error:
// kUnsupported, kBudget, kIo, kNoSpace, kNotFound.
WriteResult write_tflite(const core::Model& model, const std::filesystem::path& out, stream::Budget& budget,
                         const WriteOptions& options);

// The same from a plan: the model is not needed, and its memory can be freed before.
WriteResult write_tflite(const Plan& plan, const std::filesystem::path& out, stream::Budget& budget,
                         const WriteOptions& options);
// The same numbers without writing anything.
WriteResult summary(const Plan& plan);

}  // namespace lowtide::emit
