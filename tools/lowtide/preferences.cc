// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/preferences.h"

#include <algorithm>
#include <iterator>

namespace lowtide::tools {
namespace {

using Prefer = layout::DivideOptions::Prefer;

struct Preference {
  const char* name;
  Prefer prefer;
};
constexpr Preference kPreferences[] = {
    {"cheap", Prefer::kCheap}, {"fewest", Prefer::kFewest}, {"coverage", Prefer::kCoverage}};

}  // namespace

std::vector<std::string> preference_names() {
  std::vector<std::string> out;
  for (const Preference& known : kPreferences) out.emplace_back(known.name);
  return out;
}

Prefer preference(const std::string& name) {
  return std::find_if(std::begin(kPreferences), std::end(kPreferences),
                      [&](const Preference& known) { return known.name == name; })
      ->prefer;
}

}  // namespace lowtide::tools
