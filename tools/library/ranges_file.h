// SPDX-License-Identifier: Apache-2.0
// The file of `lowtide calibrate` (schemas/ranges.schema.json, docs/ranges-file.md), which people edit: nothing in it
// is believed.
#pragma once

#include <string>

#include "layout/quantize/calibrated.h"

namespace lowtide::tools {

// How ranges are used, as the options are spelled; empty: not given. What is not given is taken from the file, which
// says what calibration found to be best, and otherwise is "mse", "channels" and "means".
struct QuantizeSettings {
  std::string range;     // "mse", "minmax" or "percentile:P"
  std::string equalize;  // "channels" or "none"
  std::string correct;   // "means", "layers" or "none"
};

// The intervals for activations of type `activations`: i8 or i16. The file is read piece by piece, and of a histogram
// only the interval is kept, so memory grows with the number of tensors only. Throws Error(kMalformed) with the tensor
// and the value that is wrong, Error(kUsage) for a range that is no method and for "layers" where the file has no
// shifts of channels, and the errors of reading.
layout::Calibrated read_ranges(const std::string& path, const QuantizeSettings& given, stream::DType activations);

}  // namespace lowtide::tools
