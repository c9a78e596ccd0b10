// SPDX-License-Identifier: Apache-2.0
// A limit of the kernel's on what this process allocates (RLIMIT_DATA), so that memory that nobody has counted ends in
// an error and not in a machine without memory.
//
// The trap: it counts private writable mappings whether they are touched or not. That is the heap, leases and the data
// of libraries, but also the whole stack of each thread, and what sanitizers reserve.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace lowtide::tools {

class DataLimit {
 public:
  DataLimit();
  // From now on `more` bytes beside those that are in use, unless the process was started with a lower limit. Does
  // nothing where the kernel does not say how much is in use.
  void leave(uint64_t more) const;

 private:
  rlimit started_with_ = {RLIM_INFINITY, RLIM_INFINITY};
};

// What the stacks of so many threads count, the first one aside.
uint64_t stack_bytes(int threads);

}  // namespace lowtide::tools
