// SPDX-License-Identifier: Apache-2.0
// What of a quantized model is computed in integers, for the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lowtide::core {

// An op that stays float although its data comes from integers.
struct FloatIsland {
  std::string node;  // the ONNX node's name
  std::string op;    // "LOGISTIC"
  std::string reason;
};

struct IntegerReport {
  uint64_t operators = 0;  // that read and give integers with scales; conversions are not counted
  uint64_t rescales = 0;   // QUANTIZEs from integers to integers
  uint64_t tables = 0;     // of the operators: GATHERs from tables of 256 entries
  std::vector<FloatIsland> islands;

  // Of several models that are written to one file.
  IntegerReport& operator+=(const IntegerReport& other) {
    operators += other.operators, rescales += other.rescales, tables += other.tables;
    islands.insert(islands.end(), other.islands.begin(), other.islands.end());
    return *this;
  }
};

}  // namespace lowtide::core
