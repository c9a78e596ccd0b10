// SPDX-License-Identifier: Apache-2.0
// TFLite's metadata: a flatbuffer in a buffer of the model, and a zip archive behind the model with the files that it
// names. Readers of archives look for their end record at the end of the file, where the zeros that follow the last
// payload are the archive's comment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::emit {

// The entry of Model.metadata that keeps ONNX's metadata_props, as one JSON object of strings.
inline constexpr const char* kOnnxPropsEntry = "onnx_metadata_props";
inline constexpr std::string_view kLabelFile = "labels.txt";

// The flatbuffer (schemas/tflite_metadata.fbs) of `model.notes`. Labels belong to the one output whose last axis has as
// many elements as there are labels. Throws Error(kUsage) when there is no such output, or more than one.
std::vector<uint8_t> metadata_buffer(const core::Model& model);
std::string onnx_props(const core::ModelNotes& notes);

// An archive with the label file, whose first byte is at `position` of the model's file; `comment` zeros follow it. Its
// size depends on the labels alone. Throws Error(kUnsupported) for a position above 4 GiB, which the archive's offsets
// cannot name.
std::vector<std::byte> label_archive(const std::string& labels, uint64_t position, uint16_t comment);

}  // namespace lowtide::emit
