// SPDX-License-Identifier: Apache-2.0
// Recognises files of other formats that are given instead of a model by their first bytes: the error then says what
// the file is, and not only where parsing failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/file/file.h"

namespace lowtide::stream {

// All magic numbers are within this many bytes.
inline constexpr uint64_t kFirstBytes = 256;
inline constexpr std::string_view kOnnxModel = "an ONNX model", kTfliteModel = "a TFLite model";
// The first bytes of a file, fewer where it has fewer.
std::vector<std::byte> first_bytes(const Source& source);

bool begins_like_tflite(std::span<const std::byte> first);
// With ir_version, and behind it the tag of another field of ModelProto. Any bytes may stand in the strings behind it.
bool begins_like_onnx(std::span<const std::byte> first);
// Throws Error(kMalformed) when there are none, or they are the beginning of a file of another kind: "the file is a
// gzip file, not an ONNX model; decompress it first". `wanted` is kOnnxModel or kTfliteModel.
void refuse_other_formats(std::span<const std::byte> first, std::string_view wanted, const std::string& name);

}  // namespace lowtide::stream
