// SPDX-License-Identifier: Apache-2.0
// Reads a .tflite file: verifies the flatbuffer, checks every index, and returns plain data. Payloads are not read;
// they become recipes that refer to the file.
#pragma once

#include <filesystem>
#include <memory>

#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/tflite/model.h"

namespace lowtide::stream {

// Only the pages of the file with tables are read (flatbuffer_view.h). Throws Error(kMalformed, kNotFound, kIo,
// kUnsafePath, kBudget).
tfl::Model read_tflite(const std::filesystem::path& path, Budget& budget);
tfl::Model read_tflite(std::shared_ptr<Source> source, Budget& budget);

}  // namespace lowtide::stream
