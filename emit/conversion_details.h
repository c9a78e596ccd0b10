// SPDX-License-Identifier: Apache-2.0
// What a report says of a conversion beside its figures: parts of schemas/report.schema.json. Each list is bounded.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "layout/core/graph.h"
#include "stream/onnx/model.h"

namespace lowtide::emit {

// {"Conv": 12}: nodes of the main graph and of the graphs inside its nodes.
nlohmann::ordered_json operator_counts(const onnx::Model& model);
// {"CONV_2D": 12}: ops of all graphs.
nlohmann::ordered_json operator_counts(const core::Model& model);
// TRANSPOSE ops, at most 1,000: the tensor, its order, and the two whose orders differ.
nlohmann::ordered_json kept_transposes(core::Model& model);
// The 50 largest constants, and what is done to them.
nlohmann::ordered_json largest_tensors(const core::Model& model);
// Constants whose elements have fewer bits than in the ONNX model, and values that are cast to fewer bits for a kernel,
// by pairs of types.
nlohmann::ordered_json narrowed_types(const core::Model& model);
// Versions of the formats, of the operators' sets, and the producer.
nlohmann::ordered_json model_versions(const onnx::Model& model);

}  // namespace lowtide::emit
