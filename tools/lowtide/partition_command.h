// SPDX-License-Identifier: Apache-2.0
// The options of `lowtide partition` as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stream/file/zstd_source.h"

namespace lowtide::tools {

struct PartitionCommand {
  std::string input, output;  // output: empty: not given
  std::string prefer = "cheap";
  uint64_t max_piece = 0, max_pieces = 0;  // bytes, a number; 0: not given
  double penalty = 2;
  std::string weights = "copy", costs;                  // costs: a file; empty: not given
  std::string target;                                   // a name or a file; empty: TFLite
  std::vector<std::string> exclude_ops, exclude_nodes;  // names
  std::vector<std::string> values;                      // "NAME=f32[1,n,?]" as given
  std::string probe;                                    // a file; of the Python package
  bool dry_run = false, json = false, quiet = false;
  uint64_t max_rss = 0;  // bytes; 0: not given
  uint64_t max_zstd_ratio = stream::kMaxZstdRatio;
  std::string follow_links;  // a folder; empty: links are refused
};

}  // namespace lowtide::tools
