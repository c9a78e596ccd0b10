// Reads a .tflite file: verifies the flatbuffer, checks every index, and gives it as plain data. Payloads are not read;
// they become extents.
#pragma once

#include <filesystem>

#include "stream/tflite_model.h"

namespace lowtide::stream {

// The file is mapped while it is read (its first 2^31 - 2 bytes: a flatbuffer is not larger), and of the map only the
// pages of the tables are touched. Throws Error(kMalformed, kNotFound, kIo, kUnsafePath), Error(kBudget) when the
// address space is too small for the map.
tfl::Model read_tflite(const std::filesystem::path& path);

}  // namespace lowtide::stream
