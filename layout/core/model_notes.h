// SPDX-License-Identifier: Apache-2.0
// What is written into a model's metadata beside its graph: what inputs and outputs mean. No pass reads it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lowtide::core {

struct ModelNotes {
  std::string name, description, version, author, license;
  // Of an image input: what the application does before it calls the model, (x - mean) / std.
  struct Normalization {
    std::vector<float> mean, std;  // one value, or one for each channel
    uint64_t channels = 0;
  };
  std::map<std::string, Normalization> inputs;  // by the names of the main graph's inputs
  std::string labels;                           // the contents of a label file, a label in each line; may be empty
  std::map<std::string, std::string> onnx;      // the ONNX model's metadata_props
};

}  // namespace lowtide::core
