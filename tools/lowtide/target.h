// SPDX-License-Identifier: Apache-2.0
// A target of `lowtide partition`: which nodes an accelerator runs (schemas/target.schema.json). A node may be there if
// one of the entries of its operator fits. What an entry asks of a type that nobody knows does not fit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layout/model_types.h"
#include "stream/onnx/model.h"

namespace lowtide::tools {

struct Target {
  struct Range {
    int64_t least = 0, most = 0;
  };
  struct Attribute {
    std::string name;
    std::optional<Range> range;       // of a number, or of each of several
    std::vector<int64_t> numbers;     // one of these, each
    std::vector<std::string> texts;   // one of these
    std::optional<int64_t> number;    // what it is where the node does not have it
    std::optional<std::string> text;  // the same of a text
  };
  struct Operand {
    std::optional<size_t> at;  // its place; absent: each
    std::optional<bool> constant;
    std::vector<stream::DType> dtypes;
    std::optional<Range> rank, wide_rank, extents;  // wide_rank: of extents that are not 1
  };
  struct Entry {
    std::string source;  // where the rule is from
    std::optional<Range> input_count, output_count;
    std::vector<Attribute> attributes;
    std::vector<Operand> inputs, outputs;
  };

  std::string name;
  bool writes_tflite = true;  // else its pieces are .onnx
  size_t max_pieces = 0;      // 0: any
  std::map<std::string, std::vector<Entry>> operators;
};

// Of a file, or a shipped one by its name. Throws Error(kUsage) for an unknown name, Error(kNotFound, kMalformed) for a
// file that is not as the schema says, or whose conditions nothing can meet.
Target read_target(const std::string& name_or_path);

// Answers for the nodes of one model, which outlives it.
class TargetRules {
 public:
  TargetRules(const Target& target, const onnx::Model& model);
  // Why the node may not be there; empty: it may.
  std::string refuse(const onnx::Node& node, const layout::ModelTypes& types) const;

 private:
  struct Facts;
  std::string misfit(const Target::Entry& entry, const onnx::Node& node, const Facts& facts) const;
  std::string misfit(const Target::Operand& operand, const std::string& value, const Facts& facts) const;

  const Target& target_;
  std::map<std::string, onnx::ValueInfo> constants_;  // by name; types only of initializers
};

}  // namespace lowtide::tools
