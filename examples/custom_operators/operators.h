// SPDX-License-Identifier: Apache-2.0
// What the operators compute, apart from how a runtime calls them.
#pragma once

// Reading numbers from text, which needs FlatBuffers' library otherwise, is not used: the header is enough.
#define FLATBUFFERS_LOCALE_INDEPENDENT 0
#include <flatbuffers/flexbuffers.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

struct Atan {
  bool read(const uint8_t*, size_t) { return true; }  // it has no attributes
  float operator()(float x) const { return std::atan(x); }
};

struct Clamp {
  float min = 0, max = 0;

  // The attributes of the ONNX node, as Lowtide writes them (docs/custom-operators.md). False: they are not there.
  bool read(const uint8_t* options, size_t bytes) {
    if (options == nullptr || !flexbuffers::VerifyBuffer(options, bytes)) return false;
    const flexbuffers::Reference root = flexbuffers::GetRoot(options, bytes);
    if (!root.IsMap()) return false;
    const flexbuffers::Map map = root.AsMap();
    if (!map["min"].IsNumeric() || !map["max"].IsNumeric()) return false;
    min = map["min"].AsFloat();
    max = map["max"].AsFloat();
    return min <= max;
  }
  float operator()(float x) const { return x < min ? min : x > max ? max : x; }
};
