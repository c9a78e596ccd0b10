// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/known_at_run_time.h"

#include <fmt/format.h>

#include <algorithm>

namespace lowtide::layout {

stream::Unsupported known_at_run_time(std::string_view what, const core::Model& model) {
  const core::Graph& main = *model.graphs[0];
  const bool has_open_inputs = std::any_of(main.inputs.begin(), main.inputs.end(),
                                           [&](core::ValueId id) { return !stream::is_static(main.at(id).shape); });
  return stream::Unsupported(fmt::format("{} known at run time only", what),
                             has_open_inputs ? "fix the inputs' open dimensions with --shape INPUT=..." : "");
}

}  // namespace lowtide::layout
