// SPDX-License-Identifier: Apache-2.0
// The file of `lowtide calibrate` (schemas/ranges.schema.json, docs/quantization.md), which people edit: nothing in it
// is believed.
#pragma once

#include <string>

#include "layout/quantize/calibrated.h"

namespace lowtide::tools {

// --range: "mse", "minmax" or "percentile:P". Throws Error(kUsage).
layout::RangeChoice range_choice(const std::string& text);

// The intervals for activations of type `activations`: i8 or i16. The file is read piece by piece, and of a histogram
// only the interval is kept, so memory grows with the number of tensors only. Throws Error(kMalformed) with the tensor
// and the value that is wrong, and the errors of reading.
layout::Calibrated read_ranges(const std::string& path, layout::RangeChoice choice, stream::DType activations);

}  // namespace lowtide::tools
