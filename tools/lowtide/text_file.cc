// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/text_file.h"

#include "stream/file/out_file.h"

namespace lowtide::tools {

void write_text(const std::filesystem::path& path, std::string_view text) {
  stream::OutFile file(path, text.size());
  file.write_at(0, std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace lowtide::tools
