// SPDX-License-Identifier: Apache-2.0
// Equal recipes, found without reading a weight: two recipes get the same number when they do the same steps to the
// same bytes. Inline bytes are compared, stored ones by their place in the file.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stream/file/budget.h"
#include "stream/recipe/recipe.h"

namespace lowtide::stream {

class RecipeKeys {
 public:
  explicit RecipeKeys(Budget& budget) : budget_(budget) {}
  // A number that equal recipes share.
  int key(const RecipeRef& recipe);

 private:
  struct Place {
    RecipeRef recipe;  // stored as it is
    int number;
  };
  int stored_number(const RecipeRef& recipe);
  bool same_bytes(const Recipe& a, const Recipe& b);

  Budget& budget_;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Place>> places_;  // by length and a hash of the first bytes
  int next_number_ = 0;
  std::unordered_map<const Recipe*, int> known_;  // the same object need not be looked at again
  std::unordered_map<std::string, int> keys_;
  std::vector<RecipeRef> kept_;  // so that addresses in known_ stay theirs
};

}  // namespace lowtide::stream
