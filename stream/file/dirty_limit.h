// SPDX-License-Identifier: Apache-2.0
// How much written data the kernel keeps in memory before it stops a writer until the disk has caught up.
#pragma once

#include <cstdint>

namespace lowtide::stream {

struct WriteBack {
  uint64_t dirty_bytes = 0;      // that may wait to be written (vm.dirty_ratio or vm.dirty_bytes)
  uint64_t available_bytes = 0;  // of memory for the page cache, with what a cgroup leaves of it
};
// As it is now. Where the system does not say, a sixteenth of the memory may wait.
WriteBack write_back();

}  // namespace lowtide::stream
