// Ops that exist only between lowering and legalising: no kernel computes them, but patterns are found in them that
// could not be found in what they expand to.
#pragma once

#include "layout/core.h"

namespace lowtide::core {

// Error function, elementwise. Exporters write Gelu with it.
inline constexpr Kind kErf = static_cast<Kind>(240);  // builtin codes end at 209

// Writes what is left of them with TFLite's builtins.
void expand_intermediate(Graph& graph);

}  // namespace lowtide::core
