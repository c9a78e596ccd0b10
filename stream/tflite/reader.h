// SPDX-License-Identifier: Apache-2.0
// Reads a .tflite file: verifies the flatbuffer, checks every index, and gives it as plain data. Payloads are not read;
// they become extents.
#pragma once

#include <filesystem>
#include <memory>

#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/tflite/model.h"

namespace lowtide::stream {

// Of the file only the pages that hold tables are read (flatbuffer_view.h). Throws Error(kMalformed, kNotFound, kIo,
// kUnsafePath, kBudget).
tfl::Model read_tflite(const std::filesystem::path& path, Budget& budget);
tfl::Model read_tflite(std::shared_ptr<Source> source, Budget& budget);

}  // namespace lowtide::stream
