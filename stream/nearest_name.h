// SPDX-License-Identifier: Apache-2.0
// Help for a name that was mistyped: the nearest of the names that exist, and a list of them for a message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lowtide::stream {

// The one of `names` that `word` was probably meant to be: equal but for upper and lower case, or the nearest by edit
// distance (letters inserted, left out, replaced, or swapped with their neighbour) within a third of its length, or
// else the only one that begins with `word`. Empty when there is none.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);
// "; did you mean 'images'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);
// "images, mask", or the first ten and "and 7 more"; "none" of no names.
std::string listed(const std::vector<std::string>& names);

}  // namespace lowtide::stream
