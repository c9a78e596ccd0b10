// SPDX-License-Identifier: Apache-2.0
// What every system call here needs: to be repeated after a signal, and its errno told as one of our errors.
#pragma once

#include <cerrno>

#include "stream/error.h"

namespace lowtide::stream {

// The result of a system call, made again as long as signals interrupt it.
template <typename Call>
auto uninterrupted(Call&& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}
// What the errno of an open says: the path is wrong (kNotFound), or the system has failed (kIo).
Code opening_code(int error);
bool is_no_space(int error);
// Of standard output; `error` is errno: kNoSpace, kIo.
Error unwritable_output(int error);

}  // namespace lowtide::stream
