// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/weight_modes.h"

#include <map>

namespace lowtide::tools {
namespace {

using layout::WeightForm;

const std::map<std::string, WeightForm> kWeights = {
    {"stored", WeightForm::kStored}, {"float", WeightForm::kFloat}, {"f16", WeightForm::kHalf},
    {"int8", WeightForm::kInt8},     {"int4", WeightForm::kInt4},   {"in-place", WeightForm::kInPlace}};

}  // namespace

std::vector<std::string> weight_modes() {
  std::vector<std::string> out;
  for (const auto& [name, form] : kWeights) out.push_back(name);
  return out;
}

WeightForm weight_form(const std::string& mode) { return kWeights.at(mode); }

bool shrinks(WeightForm form) {
  return form == WeightForm::kHalf || form == WeightForm::kInt8 || form == WeightForm::kInt4;
}

}  // namespace lowtide::tools
