// SPDX-License-Identifier: Apache-2.0
// The constants of a TFLite model that lie in other files: LiteRT's external buffers. Their names come from a
// stranger's model, so they are confined to its folder as ONNX's external data are (external_data.h).
//
// The trap: such a file may be missing where the model is looked at, which is no fault of the model. What cannot be had
// is reported, not refused.
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
  // `folder` is the model's. Empty: nobody knows it, and no file can be had. Throws Error(kMalformed).
  ExternalBuffers(const TableView& root, const std::filesystem::path& folder, Budget& budget);

  struct Place {
    std::shared_ptr<Source> source;  // null when it cannot be had
    uint64_t offset = 0;
  };
  // Where the `bytes` of a constant lie; `id` is not 0. Throws Error(kMalformed).
  Place place(uint32_t id, uint64_t bytes);
  // The files that constants were asked for of.
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
