// SPDX-License-Identifier: Apache-2.0
// Resident memory of this process as the kernel counts it.
//
// The trap: getrusage's maximum survives exec, so a child shows its parent's; /proc/self/status does not. And the
// kernel keeps the high-water mark of the sum only: the marks of its parts come from samples.
#pragma once

#include <cstdint>

namespace lowtide::tools {

struct Resident {
  uint64_t now = 0;        // VmRSS, bytes
  uint64_t peak = 0;       // VmHWM
  uint64_t anonymous = 0;  // heap, stacks, leases
  uint64_t data = 0;       // VmData: private and writable, resident or not
  uint64_t file = 0;       // mapped files: the program itself, its libraries, windows of input
};

// All zero where /proc is not mounted.
Resident resident();

// The high-water marks of the parts over all samples. Not thread-safe.
class ResidentMarks {
 public:
  Resident sample();  // takes one and returns it
  uint64_t anonymous() const { return anonymous_; }
  uint64_t file() const { return file_; }

 private:
  uint64_t anonymous_ = 0, file_ = 0;
};

}  // namespace lowtide::tools
