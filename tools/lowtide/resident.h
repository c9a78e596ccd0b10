// SPDX-License-Identifier: Apache-2.0
// Resident memory of this process as the kernel counts it.
//
// The trap: getrusage's maximum survives exec, so a child shows its parent's; /proc/self/status does not. And the
// kernel keeps the high-water mark of the sum only: the marks of its parts come from samples.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

struct MemorySample {
  double seconds = 0;  // since the start
  uint64_t anonymous = 0, file = 0;
};
// A part of the work. A stage that reads or writes weights knows its bytes, and may be inside another phase.
struct Phase {
  std::string name;
  double begin = 0, seconds = 0;
  uint64_t bytes = 0;
};

// The high-water marks of the parts over all samples; on demand also the samples and the phases of the work, for a
// report. There is no thread that takes samples: the work does it between its steps. Not thread-safe.
class ResidentMarks {
 public:
  ResidentMarks() : start_(Clock::now()) {}
  // From now on samples and phases are kept.
  void keep_history();
  Resident sample();  // takes one and returns it
  uint64_t anonymous() const { return anonymous_; }
  uint64_t file() const { return file_; }
  // Of the sum. VmHWM may be some KiB less: the kernel updates it from counters of which each processor keeps a part.
  uint64_t highest() const { return highest_; }

  // The phase that began at the end of the one before.
  void end_phase(std::string_view name);
  void begin_stage(std::string_view name, uint64_t bytes);
  void end_stage();
  // At most 1,000, evenly over the time so far: each is the highest of its interval.
  const std::vector<MemorySample>& samples() const { return samples_; }
  const std::vector<Phase>& phases() const { return phases_; }

 private:
  using Clock = std::chrono::steady_clock;
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void keep(const MemorySample& sample);

  Clock::time_point start_;
  uint64_t anonymous_ = 0, file_ = 0, highest_ = 0;
  bool has_history_ = false;
  std::vector<MemorySample> samples_;
  double interval_ = 0, interval_end_ = 0;  // seconds
  std::vector<Phase> phases_;
  double phase_begin_ = 0;
  ptrdiff_t stage_ = -1;  // index of the open one
};

}  // namespace lowtide::tools
