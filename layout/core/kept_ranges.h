// SPDX-License-Identifier: Apache-2.0
// With --quantize the range of a value is known by its ONNX name. Passes that multiply a value give the product a name
// of its own, which says of what it is a multiple. Such names, and those that layout/quantize/made_ranges.h gives, are
// for the conversion only: no file has them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_set>

namespace lowtide::core {

struct KeptRanges {
  struct Multiple {
    std::string of;
    double factor = 1;
  };
  std::map<std::string, Multiple> multiples;
  std::unordered_set<std::string> made;  // all names that the conversion has given
  std::shared_ptr<const std::unordered_set<std::string>> onnx_names;

  // A name that no value has, and that begins with another one.
  std::string new_name(const std::string& like) {
    std::string name = like;
    for (size_t i = made.size(); made.contains(name) || onnx_names->contains(name); ++i)
      name = like + "*" + std::to_string(i);
    made.insert(name);
    return name;
  }
  // The name of a multiple of a value.
  std::string times(std::string name, double factor) {
    if (name.empty()) return name;
    if (const auto known = multiples.find(name); known != multiples.end()) {
      known->second.factor *= factor;
      return name;
    }
    std::string multiple = new_name(name);
    multiples.emplace(multiple, Multiple{std::move(name), factor});
    return multiple;
  }
};

}  // namespace lowtide::core
