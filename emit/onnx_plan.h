// SPDX-License-Identifier: Apache-2.0
// All sizes and offsets of an .onnx file, and of the file of data beside it, before a byte of them is written.
//
//     inline    model.onnx  | text | raw_data 0 | text | raw_data 1 | ... | text |
//     external  model.onnx  | text |          model.onnx.data  | tensor 0 | pad | tensor 1 | ...  offsets of 4096
//     in place  model.onnx  | text |          files that are there already
//
// The trap: protobuf's readers refuse messages of 2 GiB, so a larger model has its data beside. ONNX Runtime maps
// external data whose offset is a multiple of a page; embedded data it copies to memory twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "emit/onnx_message.h"
#include "emit/plan.h"
#include "stream/onnx/model.h"

namespace lowtide::emit {

// The largest message that every reader takes.
inline constexpr uint64_t kOnnxInlineLimit = (uint64_t{1} << 31) - 1;
inline constexpr uint64_t kOnnxDataAlignment = 4096;
// Smaller initializers stay in the model: shape inference reads them there (shapes, axes), and a page for each would be
// much.
inline constexpr uint64_t kLeastExternal = 1024;

struct OnnxWriteOptions {
  enum class Weights : uint8_t {
    kAutomatic,  // inline, and beside the model when it would pass the limit
    kExternal,   // beside the model
    kInPlace,    // in the files that hold them, where they are stored as they are; else as kAutomatic
  };
  Weights weights = Weights::kAutomatic;
  // Of kInPlace: the folder that names of files count from. Absent: the output's, and data without a place may be
  // beside the model. Set: a runtime that is given this folder finds no data beside the model, so all are in it.
  std::optional<std::filesystem::path> folder = {};
  uint64_t inline_limit = kOnnxInlineLimit;
  int threads = 1;
  Progress* progress = nullptr;
};

struct OnnxPlan {
  // Bytes [begin, begin + bytes) of the text stand at `position` of the file.
  struct Text {
    uint64_t position = 0, begin = 0, bytes = 0;
  };
  OnnxMessage message;
  std::vector<Text> texts;
  Plan model;                    // its payloads, and the size of the file
  std::optional<Plan> beside;    // the same of the file of data
  std::string data_name;         // of that file
  std::vector<NamedFile> files;  // with data in place
};

// `path` is the output's: the file of data is named after it, and data in place are in its folder or below. Throws
// Error: kUnsupported when the model passes the limit without its initializers, kUsage when data in place are
// elsewhere.
OnnxPlan plan_onnx(const onnx::Model& model, const std::filesystem::path& path, const OnnxWriteOptions& options);

}  // namespace lowtide::emit
