// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/resident.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace lowtide::tools {
namespace {

constexpr size_t kMostSamples = 1000;

// "VmRSS:      1234 kB" as bytes; 0 when the line is missing.
uint64_t field(std::string_view status, std::string_view name) {
  size_t at = status.find(name);
  if (at == std::string_view::npos) return 0;
  at = status.find_first_of("0123456789", at);
  if (at == std::string_view::npos) return 0;
  uint64_t kib = 0;
  std::from_chars(status.data() + at, status.data() + status.size(), kib);
  return kib * 1024;
}

}  // namespace

Resident resident() {
  char text[4096];
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  ssize_t bytes = read(file, text, sizeof text);
  close(file);
  std::string_view status(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  Resident out = {.now = field(status, "VmRSS:"),
                  .peak = field(status, "VmHWM:"),
                  .anonymous = field(status, "RssAnon:"),
                  .data = field(status, "VmData:"),
                  .file = field(status, "RssFile:")};
  out.peak = std::max(out.peak, out.now);
  return out;
}

Resident ResidentMarks::sample() {
  Resident seen = resident();
  anonymous_ = std::max(anonymous_, seen.anonymous);
  file_ = std::max(file_, seen.file);
  highest_ = std::max({highest_, seen.peak, seen.anonymous + seen.file});
  if (has_history_) keep({now(), seen.anonymous, seen.file});
  return seen;
}

void ResidentMarks::keep_history() {
  has_history_ = true;
  samples_.reserve(kMostSamples);
  sample();
}

// When there is no more room, of two samples each the higher one stays, and intervals are twice as long from then on.
void ResidentMarks::keep(const MemorySample& sample) {
  const auto total = [](const MemorySample& s) { return s.anonymous + s.file; };
  if (!samples_.empty() && sample.seconds < interval_end_) {
    if (total(sample) > total(samples_.back())) samples_.back() = sample;
    return;
  }
  if (samples_.size() == kMostSamples) {
    for (size_t i = 0; i < kMostSamples / 2; ++i)
      samples_[i] = total(samples_[2 * i]) < total(samples_[2 * i + 1]) ? samples_[2 * i + 1] : samples_[2 * i];
    samples_.resize(kMostSamples / 2);
    interval_ = sample.seconds / static_cast<double>(samples_.size());
  }
  samples_.push_back(sample);
  interval_end_ = sample.seconds + interval_;
}

void ResidentMarks::end_phase(std::string_view name) {
  end_stage();
  const double end = now();
  if (has_history_) phases_.push_back({std::string(name), phase_begin_, end - phase_begin_, 0});
  phase_begin_ = end;
}

void ResidentMarks::begin_stage(std::string_view name, uint64_t bytes) {
  end_stage();
  if (!has_history_) return;
  stage_ = static_cast<ptrdiff_t>(phases_.size());
  phases_.push_back({std::string(name), now(), 0, bytes});
}

void ResidentMarks::end_stage() {
  if (stage_ < 0) return;
  Phase& stage = phases_[static_cast<size_t>(stage_)];
  stage.seconds = now() - stage.begin;
  stage_ = -1;
}

}  // namespace lowtide::tools
