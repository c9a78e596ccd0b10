// SPDX-License-Identifier: Apache-2.0
// MelWeightMatrix.
//
// It rounds frequencies down to bins. That is done here in doubles, as in ONNX Runtime: in floats some would be rounded
// to other bins.
#include <fmt/format.h>

#include <cmath>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kMostBins = 1 << 16;

int64_t need_size(Lowering& lo, size_t i, const char* what) {
  const std::vector<int64_t> value = lo.need_ints(lo.input(i), what);
  if (value.size() != 1 || value[0] < 1 || value[0] > kMostBins)
    lo.malformed(fmt::format("'{}' must be a number from 1 to {}", what, kMostBins));
  return value[0];
}

double need_number(Lowering& lo, size_t i, const char* what) {
  const std::vector<double> value = lo.need_numbers(lo.input(i), what);
  if (value.size() != 1 || !std::isfinite(value[0])) lo.malformed(fmt::format("'{}' must be a finite number", what));
  return value[0];
}

double to_mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double to_hertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

}  // namespace

// Triangular filters: 0 at the centre of the previous bin, 1 at the own centre, 0 at the next one's.
void lower_mel_weight_matrix(Lowering& lo) {
  Builder& b = lo.b;
  const int64_t mels = need_size(lo, 0, "num_mel_bins"), length = need_size(lo, 1, "dft_length");
  const double rate = need_number(lo, 2, "sample_rate");
  if (rate < 1) lo.malformed(fmt::format("'sample_rate' must be 1 or more; it is {}", rate));
  const double low = to_mel(need_number(lo, 3, "lower_edge_hertz"));
  const double high = to_mel(need_number(lo, 4, "upper_edge_hertz"));
  const DType dtype = lo.attr_dtype("output_datatype", DType::kFloat32);
  const int64_t bins = length / 2 + 1;
  const double step = (high - low) / static_cast<double>(mels + 2);
  std::vector<float> edges;
  for (int64_t i = 0; i < mels + 2; ++i) {
    const double bin =
        std::floor(static_cast<double>(length + 1) * to_hertz(static_cast<double>(i) * step + low) / rate);
    if (!(bin >= 0 && bin < static_cast<double>(bins)) || (i > 0 && bin < edges.back()))
      lo.malformed(fmt::format("mel bin {} is outside the {} bins of the spectrum", i, bins));
    edges.push_back(static_cast<float>(bin));
  }
  auto row = [&](int64_t first) {
    const auto begin = edges.begin() + first;
    return b.constant(stream::recipe::floats(std::vector<float>(begin, begin + mels), {1, mels}));
  };
  Val left = row(0), centre = row(1), right = row(2);
  Val bin = b.reshape(b.cast(iota(lo, bins, DType::kInt32), DType::kFloat32), {bins, 1});
  Val one = b.scalar_like(1, bin);
  const Val width_left = b.maximum(b.sub(centre, left), one);
  Val rising = b.div(b.sub(bin, left), width_left);
  const Val width_right = b.maximum(b.sub(right, centre), one);
  Val falling = b.div(b.sub(right, bin), width_right);
  Val slope = b.maximum(b.minimum(rising, falling), b.scalar_like(0, bin));
  // Where two centres are the same bin there is no slope, but the centre is 1.
  lo.output(0, b.cast(b.select(b.equal(bin, centre), one, slope), dtype));
}

}  // namespace lowtide::layout
