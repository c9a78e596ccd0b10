// SPDX-License-Identifier: Apache-2.0
// What of a TFLite model is converted.
#pragma once

#include <map>
#include <string>

#include "layout/raise/kept_operators.h"
#include "stream/shape.h"

namespace lowtide::layout {

struct ImportOptions {
  KeptOperators kept;     // custom operators that stay what they are
  std::string signature;  // the key of the one that is converted; empty: the model's only one
  // --shape: for inputs with open dimensions. The others must be those of the file.
  std::map<std::string, stream::Shape> shapes;
};

}  // namespace lowtide::layout
