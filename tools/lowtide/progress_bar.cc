#include "tools/lowtide/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "emit/report.h"

using lowtide::emit::file_size;
using lowtide::emit::memory_size;
using namespace std::chrono_literals;

namespace {
constexpr auto kSampleEvery = 10ms;  // reading /proc takes some 20 us
constexpr auto kRedrawEvery = 100ms;
constexpr auto kPlainLineEvery = 3s;
}  // namespace

ProgressBar::ProgressBar(bool quiet, lowtide::emit::ResidentMarks& marks)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), marks_(marks) {}

void ProgressBar::begin(std::string_view what, uint64_t total) {
  std::lock_guard lock(mutex_);
  what_ = what;
  done_ = 0;
  total_ = total;
  begun_ = printed_ = Clock::now();
}

void ProgressBar::advance(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  done_ += bytes;
  Clock::time_point now = Clock::now();
  if (now - sampled_ < kSampleEvery) return;
  sampled_ = now;
  lowtide::emit::Resident resident = marks_.sample();
  if (quiet_) return;
  if (terminal_ ? now - printed_ < kRedrawEvery : now - printed_ < kPlainLineEvery) return;
  printed_ = now;
  shown_ = true;
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line(resident, now), terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
}

void ProgressBar::finish() {
  std::lock_guard lock(mutex_);
  if (shown_ && terminal_) fmt::print(stderr, "\r\x1b[K");
  shown_ = false;
}

std::string ProgressBar::line(const lowtide::emit::Resident& resident, Clock::time_point now) const {
  double seconds = std::chrono::duration<double>(now - begun_).count();
  double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  double part = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1;
  double left = rate > 0 && done_ < total_ ? static_cast<double>(total_ - done_) / rate : 0;
  constexpr size_t kWidth = 24;
  auto filled = std::min(kWidth, static_cast<size_t>(part * kWidth));
  std::string bar =
      terminal_ ? fmt::format("[{}{}] ", std::string(filled, '#'), std::string(kWidth - filled, '.')) : "";
  return fmt::format("{} {}{:3.0f} %  {} of {}  {}/s  {:.0f} s left  RSS {}", what_, bar, part * 100, file_size(done_),
                     file_size(total_), file_size(static_cast<uint64_t>(rate)), left, memory_size(resident.now));
}
