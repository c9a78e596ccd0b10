// SPDX-License-Identifier: Apache-2.0
#include "tools/library/output_suffix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace lowtide::tools {

std::optional<WrongSuffix> wrong_suffix(const std::filesystem::path& output) {
  constexpr std::string_view kCompressions[] = {".gz", ".tgz", ".bz2", ".xz",  ".lzma", ".lz4",
                                                ".br", ".zip", ".7z",  ".tar", ".zstd", ".zst"};
  const bool is_compressed = output.extension() == ".zst";
  std::filesystem::path better = is_compressed ? std::filesystem::path(output).replace_extension() : output;
  if (better.extension() == ".onnx") {
    better.replace_extension(".tflite");
    if (is_compressed) better += ".zst";
    return WrongSuffix{fmt::format("the output {} would be a TFLite model, not what its name says", output.string()),
                       better};
  }
  if (is_compressed) return std::nullopt;
  std::string suffix = output.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  if (std::find(std::begin(kCompressions), std::end(kCompressions), suffix) == std::end(kCompressions))
    return std::nullopt;
  return WrongSuffix{fmt::format("the output {} would not be compressed as its name says; lowtide compresses to .zst",
                                 output.string()),
                     better.replace_extension(".zst")};
}

}  // namespace lowtide::tools
