// SPDX-License-Identifier: Apache-2.0
#include "emit/plan.h"

#include <algorithm>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::emit {

uint64_t least_scratch(const Plan& plan) {
  uint64_t most = 0;
  for (const Payload& payload : plan.payloads) most = std::max(most, stream::least_scratch(*payload.recipe));
  return most;
}

}  // namespace lowtide::emit
