// SPDX-License-Identifier: Apache-2.0
#include "stream/file/system_call.h"

#include <fmt/format.h>

#include <cstring>

namespace lowtide::stream {

Code opening_code(int error) {
  switch (error) {
    case EACCES:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOTDIR:
    case ENXIO:
    case EPERM:
    case EROFS:
      return Code::kNotFound;
    default:
      return Code::kIo;
  }
}

bool is_no_space(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

Error unwritable_output(int error) {
  return {is_no_space(error) ? Code::kNoSpace : Code::kIo,
          fmt::format("standard output cannot be written: {}", std::strerror(error))};
}

}  // namespace lowtide::stream
