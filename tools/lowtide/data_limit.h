// SPDX-License-Identifier: Apache-2.0
// The kernel's limit on the memory that this process allocates (RLIMIT_DATA): memory beyond what was expected is an
// error of the program, and does not exhaust the machine. The trap: it counts private writable mappings whether their
// pages are used or not: the heap, leases and the data of libraries, but also the whole stack of each thread and what
// sanitizers reserve.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace lowtide::tools {

class DataLimit {
 public:
  DataLimit();
  // Allows `more` bytes in addition to those in use, unless the process was started with a lower limit. Does nothing
  // where the kernel does not tell how much is in use.
  void leave(uint64_t more) const;
  // The limit of the construction, for the next of several models.
  void restore() const;

 private:
  rlimit started_with_ = {RLIM_INFINITY, RLIM_INFINITY};
};

// Bytes of the stacks of `threads` threads without the first one.
uint64_t stack_bytes(int threads);

}  // namespace lowtide::tools
