// SPDX-License-Identifier: Apache-2.0
// All sizes and offsets of a .tflite file, before a byte of it is written: the header (the flatbuffer without payloads,
// which grows with the number of nodes only) and the position of each constant's payload.
//
//   inline    | header | pad len payload 0 | pad len payload 1 | ... | tail |    Buffer.data points forward at `len`
//   external  | header | pad payload 0 | pad payload 1 | ...         | tail |    Buffer.offset, Buffer.size
//
// The trap: a flatbuffer's offsets are 32-bit and point forward only, so a file with inline payloads ends before 2^31;
// in larger files payloads are outside the flatbuffer. Kernels require payloads aligned to 16 bytes, and XNNPACK reads
// past their end, so at least 16 bytes follow the last one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emit/custom_operators.h"
#include "layout/core/graph.h"
#include "stream/progress.h"
#include "stream/recipe/recipe.h"

namespace lowtide::emit {

using stream::Progress;
struct VerifiedTensor;

// The largest file with inline payloads that every runtime reads.
inline constexpr uint64_t kInlineLimit = (uint64_t{1} << 31) - 2;
inline constexpr uint64_t kPayloadAlignment = 16;

struct WriteOptions {
  uint64_t inline_limit = kInlineLimit;
  bool external_buffers = false;  // the form for large files, for every size
  // Set for --weights in-place: the output's folder. Unchanged constants in files below it are not copied (in_place.h).
  std::optional<std::filesystem::path> in_place;
  int threads = 1;
  Progress* progress = nullptr;
  std::optional<int> zstd_level = {};  // compress the file (compressed.h)
  // Set for --verify-output: each constant is read back from the disk before the output gets its name (verify.h).
  std::function<void(const VerifiedTensor&)> on_verified = {};
  // Set for -o -: the finished file is copied to this descriptor, and gets no name.
  std::optional<int> copy_to = {};
};

struct Payload {
  stream::RecipeRef recipe;
  uint64_t bytes = 0;
  uint32_t buffer = 0;    // index into Model.buffers; 0: of none (the archive of tflite_notes.h)
  uint64_t position = 0;  // of its first byte in the file; a multiple of 16
  std::string tensor;     // the first tensor that uses it, for messages
};

// A constant that is not written: the model refers to it in its file.
struct InPlace {
  stream::RecipeRef recipe;  // unchanged bytes of a file
  uint32_t file = 0;         // index into Plan::files
  uint64_t offset = 0, length = 0;
};
// A file of the ONNX model that the TFLite model refers to.
struct NamedFile {
  std::string name;    // relative to the output's folder, without ..
  uint64_t bytes = 0;  // of the constants in it
};

struct Plan {
  bool external = false;
  std::span<std::byte> header;
  std::shared_ptr<void> header_memory;
  std::vector<Payload> payloads;  // not empty; by ascending position
  std::vector<InPlace> in_place;
  std::vector<NamedFile> files;
  uint64_t unaligned_bytes = 0;  // of constants that are written because their offset is not aligned
  uint64_t file_bytes = 0;
  uint64_t payload_bytes = 0;  // of the payloads alone, without padding
  uint64_t tensors = 0, operators = 0, transposes = 0;
  std::string min_runtime;  // the oldest that can run the model
  std::vector<CustomUse> custom;

  // Bytes of the length word in front of a payload.
  uint64_t prefix() const { return external ? 0 : 4; }
};

// The smallest tile memory with which every payload can be written.
uint64_t least_scratch(const Plan& plan);

}  // namespace lowtide::emit
