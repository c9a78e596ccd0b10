// SPDX-License-Identifier: Apache-2.0
// What of a converted model a target runs, for the summary and the report of `convert --for`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lowtide::core {

// Operators of one kind that one rule leaves outside.
struct OutsideOperators {
  std::string op;      // "GATHER"
  std::string node;    // the ONNX node of the first of them; may be empty
  std::string reason;  // what that one has, and what the rule asks for
  std::string source;  // where the rule is from; may be empty
  uint64_t count = 0;
  double share = 0;  // of the model's work, from 0 to 1
};

struct TargetCoverage {
  std::string target;     // its name; empty: --for is not given
  bool of_nodes = false;  // ONNX nodes are counted, not TFLite operators
  uint64_t operators = 0, inside = 0;
  double share = 1;                       // of the work that is inside
  std::vector<OutsideOperators> outside;  // the largest share first
};

}  // namespace lowtide::core
