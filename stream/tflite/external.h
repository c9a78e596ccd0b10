// SPDX-License-Identifier: Apache-2.0
// The constants of a TFLite model that are in other files: LiteRT's external buffers. File names come from an untrusted
// model, so they are confined to its folder like ONNX's external data (external_data.h): a name that leads out of it by
// its text is refused, whether or not a tensor is in that file.
//
// The trap: such a file may be missing where the model is inspected, which does not make the model malformed. Data that
// cannot be read are reported, not refused.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "stream/file/external_data.h"
#include "stream/tflite/flatbuffer_view.h"
#include "stream/tflite/model.h"

namespace lowtide::stream {

class ExternalBuffers {
 public:
  // `folder` is the model's; empty when unknown, then no file is opened. Throws
  // Error(kMalformed, kUnsafePath).
  ExternalBuffers(const TableView& root, const std::filesystem::path& folder, Budget& budget);

  struct Place {
    std::shared_ptr<Source> source;  // null when it cannot be read
    uint64_t offset = 0;
  };
  // The place of a constant of `bytes` bytes in external buffer `id`, which is not 0. Throws Error(kMalformed).
  Place place(uint32_t id, uint64_t bytes);
  // The files that place() was called for.
  std::vector<tfl::ExternalFile> files() &&;

 private:
  struct Buffer {
    uint32_t group = 0;
    uint64_t offset = 0, length = 0;
  };
  struct Group {
    tfl::ExternalFile file;
    std::shared_ptr<Source> source;
    bool is_used = false;
  };
  void use(Group& group);

  Spill spill_{{}};
  std::optional<ExternalFiles> folder_;
  std::vector<Group> groups_;
  std::map<uint32_t, Buffer> buffers_;
};

}  // namespace lowtide::stream
