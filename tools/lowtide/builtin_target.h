// SPDX-License-Identifier: Apache-2.0
// A target of `lowtide convert --for`: which TFLite operators a delegate takes (schemas/builtin_target.schema.json). An
// operator is taken if it is listed and meets all of its rules and the rules for every operator. A target of
// `lowtide partition` is about ONNX nodes instead (target.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/core/graph.h"
#include "layout/core/target_coverage.h"
#include "tools/lowtide/number_range.h"

namespace lowtide::tools {

struct BuiltinTarget {
  using Range = NumberRange;
  // Which operands a condition is about.
  struct Operands {
    enum class Which : uint8_t { kOne, kEach, kComputed };  // kComputed: those that are no constants
    bool outputs = false;
    Which which = Which::kEach;
    size_t at = 0;  // of kOne; an operand that is absent meets every condition
  };
  struct Rule {
    std::optional<Operands> operands;  // of the conditions on operands, all of which must hold
    std::optional<Range> rank;
    std::vector<stream::DType> dtypes;
    std::optional<bool> constant;
    std::vector<Range> extents;     // by axis
    std::optional<Range> elements;  // each, of a small integer constant
    bool like_output = false;       // the shape of the first result, or one element
    bool fixed = false;             // no extent that only the run knows
    // Conditions on the operator.
    std::optional<Range> version, computed_inputs;
    bool different_inputs = false;
    std::optional<Range> result_rank;  // `when`: the rule is only about operators whose first result has such a rank
    std::string says, source;          // the delegate's own words, and where the rule is from
  };

  std::string name;
  bool gpu_forms = false;  // operators are written as for a GPU (layout/plain/gpu_forms.h)
  std::vector<Rule> every;
  std::map<core::Kind, std::vector<Rule>> operators;
};

// Of a file FILE.json, or a shipped one by its name. Throws Error(kUsage) for an unknown name, Error(kNotFound,
// kMalformed) for a file that is not as the schema says.
BuiltinTarget read_builtin_target(const std::string& name_or_path);

// What the target takes of a model that is ready to be written. Constants of the model are not read.
core::TargetCoverage coverage(const BuiltinTarget& target, core::Model& model);

}  // namespace lowtide::tools
