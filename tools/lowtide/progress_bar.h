// SPDX-License-Identifier: Apache-2.0
// Progress of a conversion on stderr: one line that is rewritten where that is possible (terminal.h), else plain lines.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "stream/progress.h"
#include "tools/lowtide/resident.h"

namespace lowtide::tools {

class ProgressBar : public stream::Progress {
 public:
  // Takes samples of resident memory into `marks` while it runs. Writes lines for programs to the descriptor
  // `events`, unless that is -1.
  ProgressBar(bool quiet, ResidentMarks& marks, int events = -1);
  ~ProgressBar() override { finish(); }
  void begin(std::string_view what, uint64_t total) override;
  void advance(uint64_t bytes) override;
  // Clears the line.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(const Resident& resident, Clock::time_point now) const;

  void write_progress(const Resident& resident, Clock::time_point now);

  bool quiet_, terminal_;
  int events_;
  ResidentMarks& marks_;
  bool shown_ = false;
  std::mutex mutex_;
  std::string what_;
  uint64_t done_ = 0, total_ = 0;
  Clock::time_point begun_, sampled_, printed_, written_;
};

}  // namespace lowtide::tools
