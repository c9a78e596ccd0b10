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
  uint64_t compressed_bytes = 0;  // on the disk; 0: not compressed
  uint64_t tensors = 0, operators = 0, transposes = 0;
  std::vector<NamedFile> files;  // that the model reads besides
  uint64_t unaligned_bytes = 0;  // that would have stayed in one at other offsets
};

// The least budget that write_tflite works with.
uint64_t least_budget(const Plan& plan, const WriteOptions& options);

// Sizes first (plan), then payloads from the end of the file to its front, the header last: until then the file has no
// identifier. The output appears under its name only when it is complete and no source has changed meanwhile.
// Throws Error: kUnsupported, kBudget, kIo, kNoSpace, kNotFound.
WriteResult write_tflite(const core::Model& model, const std::filesystem::path& out, stream::Budget& budget,
                         const WriteOptions& options);

// The same from a plan: the model itself is no longer needed then, and its memory can be given back before.
WriteResult write_tflite(const Plan& plan, const std::filesystem::path& out, stream::Budget& budget,
                         const WriteOptions& options);
// The same numbers without writing anything.
WriteResult summary(const Plan& plan);

}  // namespace lowtide::emit
