// SPDX-License-Identifier: Apache-2.0
// A target of `lowtide partition`: which nodes an accelerator runs (schemas/target.schema.json). A node may be there if
// one of the entries of its operator fits (target_rules.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stream/dtype.h"
#include "tools/lowtide/number_range.h"

namespace lowtide::tools {

struct Target {
  using Range = NumberRange;
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
    bool only_in_pattern = false;
    bool only_at_border = false;  // where a piece begins or ends
  };

  std::string name;
  bool writes_tflite = true;                       // else its pieces are .onnx
  size_t max_pieces = 0;                           // 0: any
  uint64_t max_piece_bytes = 0;                    // weights and the largest activations; 0: any
  bool takes_all = false;                          // every operator, whatever `operators` has
  std::vector<std::vector<std::string>> patterns;  // operators of nodes in a row, which become one unit
  std::map<std::string, std::vector<Entry>> operators;
};

// Of a file, or a shipped one by its name. Throws Error(kUsage) for an unknown name, Error(kNotFound, kMalformed) for a
// file that is not as the schema says, or whose conditions nothing can meet.
Target read_target(const std::string& name_or_path);

}  // namespace lowtide::tools
