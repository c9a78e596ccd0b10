// SPDX-License-Identifier: Apache-2.0
// Names of TFLite outputs that say what the file will not be.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lowtide::tools {

struct WrongSuffix {
  std::string reason;            // "the output m.onnx would be a TFLite model, not what its name says"
  std::filesystem::path better;  // a name that fits
};
// The name m.tflite.gz would say that the file is compressed, which it is not, and m.onnx that it is an ONNX model.
std::optional<WrongSuffix> wrong_suffix(const std::filesystem::path& output);

}  // namespace lowtide::tools
