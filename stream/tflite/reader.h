// SPDX-License-Identifier: Apache-2.0
// Reads a .tflite file: verifies the flatbuffer, checks every index, and returns plain data. Payloads are not read;
// they become recipes that refer to the file.
#pragma once

#include <filesystem>
#include <memory>

#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/file/zstd_source.h"
#include "stream/tflite/model.h"

namespace lowtide::stream {

// Only the pages of the file with tables are read (flatbuffer_view.h). `path` may end in .zst: it is read by its
// table of frames (seekable_source.h), or else decompressed into a spill file (zstd_source.h). Throws Error(kMalformed,
// kNotFound, kIo, kUnsafePath, kBudget, kNoSpace).
tfl::Model read_tflite(const std::filesystem::path& path, Budget& budget, const SpillOptions& spill_options = {});
// The file for the function below, decompressed; what does not begin like a model is refused before it is decompressed.
std::shared_ptr<Source> open_tflite(const std::filesystem::path& path, Spill& spill, Budget& budget);
// The model's other files are looked for in `folder`; empty: in the folder of the source's file, if it is one.
tfl::Model read_tflite(std::shared_ptr<Source> source, Budget& budget, const std::filesystem::path& folder = {});

}  // namespace lowtide::stream
