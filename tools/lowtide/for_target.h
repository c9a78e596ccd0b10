// SPDX-License-Identifier: Apache-2.0
// What `lowtide convert --for` names: a target of TFLite operators, or one of ONNX nodes as of `lowtide partition`.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "layout/core/graph.h"
#include "layout/core/target_coverage.h"
#include "stream/onnx/model.h"
#include "tools/lowtide/builtin_target.h"
#include "tools/lowtide/target.h"

namespace lowtide::tools {

using ForTarget = std::variant<BuiltinTarget, Target>;

// Of a file FILE.json, or a shipped one of either kind by its name. Throws as read_builtin_target() and read_target()
// do.
ForTarget read_for_target(const std::string& name_or_path);

// What the target takes of the nodes of a model that is to be converted, as one piece. What conversion computes is
// counted nowhere. `shapes`: those that --shape fixes. Work is estimated as a division does it (layout/model_units.h).
core::TargetCoverage coverage(const Target& target, const onnx::Model& model,
                              const std::map<std::string, core::Shape>& shapes, stream::Budget& budget);

}  // namespace lowtide::tools
