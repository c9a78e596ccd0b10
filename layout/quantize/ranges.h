// SPDX-License-Identifier: Apache-2.0
// Which interval of real numbers a tensor's integers represent, chosen from what calibration saw of it.
//
// Values outside of the interval are clipped to it; the others are rounded to steps of (high - low) / steps. A narrower
// interval clips more and rounds less. docs/calibration.md describes how values are observed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lowtide::layout {

// What calibration saw of one tensor, in real numbers. Bin i of the histogram has the values in
// [low + i * width, low + (i + 1) * width). The reader of the ranges file has checked it: least <= most, all finite,
// width > 0, and at least one count that is not 0.
struct Observed {
  double least = 0, most = 0;
  double low = 0, width = 1;
  std::span<const uint64_t> counts;
  // Of the values between -kMask and kMask of unmasked.h, where others were seen too; nullopt: not known.
  std::optional<double> inner_least, inner_most;
};

struct RangeChoice {
  enum class Method : uint8_t {
    kMinMax,      // all that was seen
    kPercentile,  // the middle `percent` of the values; the rest is split evenly between both ends
    kLeastError,  // the least sum of squared errors by rounding and clipping
  };
  Method method = Method::kLeastError;
  double percent = 99.99;  // more than 0, at most 100
};

// Always has low <= 0 <= high: kernels pad with the integer of 0, so 0 has to have one. Both are 0 only for a tensor
// that is 0 in all samples.
struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

// `steps`: how many steps the interval is divided into, 255 for 8 bits. `symmetric`: low = -high, for types without a
// zero point; `steps` are counted over both halves.
Interval choose_range(const Observed& seen, RangeChoice choice, int64_t steps, bool symmetric);

// The mean of the values' squares, as the histogram tells it.
double mean_square(const Observed& seen);

// The smallest interval that has both, for tensors that share one scale.
Interval unite(const Interval& a, const Interval& b);

}  // namespace lowtide::layout
