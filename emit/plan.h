// SPDX-License-Identifier: Apache-2.0
// Every size and offset of a .tflite file before a byte of it is written: the header (the finished flatbuffer, which
// grows with the number of nodes only) and where each constant's payload will stand.
//
//   inline    | header | pad len payload 0 | pad len payload 1 | ... | tail |    Buffer.data points forward at `len`
//   external  | header | pad payload 0 | pad payload 1 | ...         | tail |    Buffer.offset, Buffer.size
//
// The trap: a flatbuffer's offsets are 32-bit and run forward only, so a file with inline payloads ends before 2^31;
// above, payloads lie outside the flatbuffer. Kernels want payloads aligned to 16, and XNNPACK reads a little past the
// end of one, so at least 16 bytes follow the last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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
  bool external_buffers = false;  // the form for large files, whatever the size
  // The output's folder, when constants that need no change shall stay in the files below it (in_place.h).
  std::optional<std::filesystem::path> in_place;
  int threads = 1;
  Progress* progress = nullptr;
  std::optional<int> zstd_level = {};  // the file compressed, as seekable frames (compressed.h)
  // Each constant is read back from the disk before the output gets its name, and this is told of it (verify.h).
  std::function<void(const VerifiedTensor&)> on_verified = {};
};

struct Payload {
  stream::RecipeRef recipe;
  uint64_t bytes = 0;
  uint32_t buffer = 0;    // index into Model.buffers
  uint64_t position = 0;  // of its first byte in the file; a multiple of 16
  std::string tensor;     // the first tensor that uses it, for messages
};

// A constant that is not written: the model names it where it lies.
struct InPlace {
  stream::RecipeRef recipe;  // a plain extent
  uint32_t file = 0;         // index into Plan::files
  uint64_t offset = 0, length = 0;
};
// A file of the ONNX model that the TFLite model reads too.
struct NamedFile {
  std::string name;    // relative to the output's folder, never out of it
  uint64_t bytes = 0;  // of the constants in it
};

struct Plan {
  bool external = false;
  std::vector<std::byte> header;
  std::vector<Payload> payloads;  // none is empty; by ascending position
  std::vector<InPlace> in_place;
  std::vector<NamedFile> files;
  uint64_t unaligned_bytes = 0;  // of constants that are written only because of their offset
  uint64_t file_bytes = 0;
  uint64_t payload_bytes = 0;  // of the payloads alone, without padding
  uint64_t tensors = 0, operators = 0, transposes = 0;

  // Bytes of the length word in front of a payload.
  uint64_t prefix() const { return external ? 0 : 4; }
};

// The least scratch that any one of the payloads is poured with.
uint64_t least_scratch(const Plan& plan);

}  // namespace lowtide::emit
