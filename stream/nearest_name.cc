// SPDX-License-Identifier: Apache-2.0
#include "stream/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>

namespace lowtide::stream {
namespace {

// Names come from files and may be of any length: what is compared is bounded.
constexpr size_t kLongestCompared = 200;
constexpr size_t kListed = 10;
constexpr size_t kShortestPrefix = 3;

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& letter : out)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return out;
}

// The optimal string alignment distance, by rows of its table.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& names) {
  if (word.empty() || word.size() > kLongestCompared) return {};
  const std::string wanted = lower_case(word);
  const size_t bound = (word.size() + 2) / 3;
  const std::string* nearest = nullptr;
  size_t least = bound + 1, beginnings = 0;
  const std::string* beginning = nullptr;
  for (const std::string& name : names) {
    if (name.size() <= kLongestCompared) {
      const size_t distance = edit_distance(wanted, lower_case(name));
      if (distance < least && distance < std::max(word.size(), name.size())) {
        least = distance;
        nearest = &name;
      }
    }
    if (wanted.size() >= kShortestPrefix && lower_case(name).starts_with(wanted)) {
      beginning = &name;
      ++beginnings;
    }
  }
  if (nearest != nullptr) return *nearest;
  return beginnings == 1 ? *beginning : std::string();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(word, names);
  return nearest.empty() ? nearest : fmt::format("; did you mean '{}'?", nearest);
}

std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  const size_t shown = std::min(names.size(), kListed);
  const std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

}  // namespace lowtide::stream
