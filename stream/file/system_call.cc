// SPDX-License-Identifier: Apache-2.0
#include "stream/file/system_call.h"

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

}  // namespace lowtide::stream
