// SPDX-License-Identifier: Apache-2.0
// Reads an ONNX file: protobuf's wire format is parsed by CodedInputStream in small windows. Weights become recipes
// that refer to the file; no memory grows with weight bytes. Offsets are 64-bit: files over 2 GiB are read too.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/file/zstd_source.h"
#include "stream/onnx/model.h"

namespace lowtide::stream {

// `path` may end in .zst: it is decompressed into an unlinked spill file, in a bounded window (zstd_source.h). A file
// that begins like one of another format is refused before anything else is read. External data is resolved beside the
// model and confined to its folder, or with links followed to `follow` (external_data.h). The path "-" is standard
// input, which has no folder: external data is refused. Throws Error.
onnx::Model read_onnx(const std::filesystem::path& path, Budget& budget, const SpillOptions& spill_options = {},
                      Access access = Access::kMap, const std::filesystem::path& follow = {});
// How messages call a model: its path, or "standard input".
std::string shown_path(const std::filesystem::path& path);
// The same from any source (tests, fuzzing). External data is resolved in `folder`, and refused when that is empty.
onnx::Model read_onnx(std::shared_ptr<Source> source, const std::filesystem::path& folder, Budget& budget);

}  // namespace lowtide::stream
