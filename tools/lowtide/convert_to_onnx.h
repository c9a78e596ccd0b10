// SPDX-License-Identifier: Apache-2.0
// lowtide convert: TFLite to ONNX.
#pragma once

#include <filesystem>
#include <string>

#include "tools/lowtide/command_line.h"

namespace lowtide::tools {

// Whether the file begins like a TFLite model; of a compressed file its name decides. False where it cannot be read:
// reading it gives the error.
bool is_tflite(const std::string& input);

// Throws stream::Error, and emit::Refusal when operators have no form in ONNX.
void convert_to_onnx(const ConvertCommand& options, const std::filesystem::path& output);

}  // namespace lowtide::tools
