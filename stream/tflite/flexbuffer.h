// SPDX-License-Identifier: Apache-2.0
// Flexbuffers: the options of TFLite's custom operators. Every offset, width and count is checked before it is used.
//
//     ... values ... | root value | type and width of the root | bytes of the root value
//
// The trap: values are found backwards, by offsets from the place that names them, and one value may be named from many
// places: a small buffer can describe an endless tree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lowtide::stream {

struct FlexValue {
  struct Blob {
    std::vector<uint8_t> bytes;
  };
  using List = std::vector<FlexValue>;
  struct Entry;
  using Map = std::vector<Entry>;  // in the order of the buffer: sorted by key
  // std::monostate: null
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Blob, List, Map> value;
};

struct FlexValue::Entry {
  std::string key;
  FlexValue value;
};

// Throws Error(kMalformed) for bytes that are no flexbuffer, or one that is deeper or larger than any options are.
FlexValue read_flexbuffer(std::span<const uint8_t> bytes);

}  // namespace lowtide::stream
