// SPDX-License-Identifier: Apache-2.0
// What a constant shape of a Reshape becomes with another batch, where only one reading of it is possible.
#pragma once

#include <optional>
#include <set>
#include <utility>

#include "stream/shape.h"

namespace lowtide::layout {

// Of an input of the model: the extent of axis 0 that the file gives, and the new one.
using OtherBatch = std::pair<stream::Dim, stream::Dim>;

struct BatchReshape {
  stream::Shape input, new_input;  // with one axis that differs, `axis`
  size_t axis = 0;
  stream::Shape target;  // as it is written
  stream::Shape output;  // what it stood for
};

// nullopt: there is no reading, or there are several.
std::optional<stream::Shape> reshape_for(const BatchReshape& reshape, const std::set<OtherBatch>& batches);

}  // namespace lowtide::layout
