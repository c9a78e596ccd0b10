// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "emit/events.h"
#include "emit/report.h"
#include "tools/lowtide/messages.h"
#include "tools/lowtide/terminal.h"

namespace lowtide::tools {
namespace {

using emit::file_size;
using emit::memory_size;
using namespace std::chrono_literals;

constexpr auto kSampleEvery = 10ms;  // reading /proc takes some 20 us
constexpr auto kRedrawEvery = 100ms;
constexpr auto kPlainLineEvery = 3s;
constexpr size_t kUsualColumns = 80;

// Of the terminal, which may be resized at any time.
size_t columns() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}
}  // namespace

ProgressBar::ProgressBar(bool quiet, ResidentMarks& marks, int events)
    : quiet_(quiet), terminal_(can_rewrite_lines()), events_(events), marks_(marks) {}

void ProgressBar::begin(std::string_view what, uint64_t total) {
  std::lock_guard lock(mutex_);
  what_ = what;
  done_ = 0;
  total_ = total;
  begun_ = printed_ = Clock::now();
  marks_.begin_stage(what_, total_);
  if (events_ >= 0) write_progress(marks_.sample(), begun_);
}

void ProgressBar::advance(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  done_ += bytes;
  Clock::time_point now = Clock::now();
  if (now - sampled_ < kSampleEvery) return;
  sampled_ = now;
  Resident resident = marks_.sample();
  if (events_ >= 0 && now - written_ >= kRedrawEvery) write_progress(resident, now);
  if (quiet_) return;
  if (terminal_ ? now - printed_ < kRedrawEvery : now - printed_ < kPlainLineEvery) return;
  printed_ = now;
  shown_ = true;
  // By stdio, which does not throw: the conversion goes on when stderr cannot be written.
  const std::string text = line(resident, now);
  std::fputs(terminal_ ? ("\r" + text + "\x1b[K").c_str() : (text + "\n").c_str(), stderr);
  std::fflush(stderr);
}

void ProgressBar::write_progress(const Resident& resident, Clock::time_point now) {
  written_ = now;
  write_event(events_, emit::progress_line(what_, done_, total_, resident.now));
}

void ProgressBar::finish() {
  std::lock_guard lock(mutex_);
  marks_.end_stage();
  if (shown_ && terminal_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

std::string ProgressBar::line(const Resident& resident, Clock::time_point now) const {
  double seconds = std::chrono::duration<double>(now - begun_).count();
  double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  double part = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1;
  double left = rate > 0 && done_ < total_ ? static_cast<double>(total_ - done_) / rate : 0;
  std::string figures =
      fmt::format("{:3.0f} %  {} of {}  {}/s  {:.0f} s left  RSS {}", part * 100, file_size(done_), file_size(total_),
                  file_size(static_cast<uint64_t>(rate)), left, memory_size(resident.now));
  if (!terminal_) return fmt::format("{} {}", what_, figures);
  // A line that wraps cannot be rewritten: the bar gets the space that is left, and a text that is too long is cut.
  constexpr size_t kWidest = 24, kNarrowest = 4, kBrackets = 4, kCursor = 1;
  const size_t room = columns(), taken = what_.size() + figures.size() + kBrackets + kCursor;
  std::string out = what_ + " ";
  if (room >= taken + kNarrowest) {
    const size_t width = std::min(kWidest, room - taken);
    const size_t filled = std::min(width, static_cast<size_t>(part * static_cast<double>(width)));
    out += fmt::format("[{}{}] ", std::string(filled, '#'), std::string(width - filled, '.'));
  }
  return (out + figures).substr(0, room - kCursor);
}

}  // namespace lowtide::tools
