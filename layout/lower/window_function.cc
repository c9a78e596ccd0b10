// SPDX-License-Identifier: Apache-2.0
// HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix: what stands around a spectrum.
//
// A window is a sum of cosines of n / N turns, N its size, or its size - 1 when it is symmetric (`periodic` = 0). The
// size may be known at run time only. MelWeightMatrix rounds frequencies down to bins, which is done here in doubles as
// ONNX Runtime does it: kernels in floats would fall into other bins.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

// The first two harmonics: constant + first * cos(turn) + second * cos(2 turns).
struct Harmonics {
  double constant, first, second;
};

void window(Lowering& lo, const Harmonics& harmonics) {
  Builder& b = lo.b;
  const bool periodic = lo.attr_i("periodic", 1) != 0;
  const DType dtype = lo.attr_dtype("output_datatype", DType::kFloat32);
  Val size = as_scalar(lo, lo.input(0));
  const auto known = lo.ints(size);
  if (known && (*known)[0] < 0) lo.malformed(fmt::format("a window of {} elements", (*known)[0]));
  const DType work = known || dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Val n =
      known ? counting(lo, (*known)[0], DType::kInt64) : b.range(b.scalar_like(0, size), size, b.scalar_like(1, size));
  Val whole = b.cast(size, work);
  if (!periodic) whole = b.sub(whole, 1);
  Val angle = b.mul(b.div(b.cast(n, work), whole), 2 * std::numbers::pi);
  Val y = b.add(b.mul(b.cos(angle), harmonics.first), harmonics.constant);
  if (harmonics.second != 0) y = b.add(y, b.mul(b.cos(b.mul(angle, 2)), harmonics.second));
  lo.output(0, b.cast(y, dtype));
}

constexpr int64_t kMostBins = 1 << 16;

int64_t need_size(Lowering& lo, size_t i, const char* what) {
  const std::vector<int64_t> value = lo.need_ints(lo.input(i), what);
  if (value.size() != 1 || value[0] < 1 || value[0] > kMostBins)
    lo.malformed(fmt::format("{} is no number from 1 to {}", what, kMostBins));
  return value[0];
}

double need_number(Lowering& lo, size_t i, const char* what) {
  const std::vector<double> value = lo.need_numbers(lo.input(i), what);
  if (value.size() != 1 || !std::isfinite(value[0])) lo.malformed(fmt::format("{} is not one finite number", what));
  return value[0];
}

double to_mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double to_hertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

}  // namespace

void lower_hann_window(Lowering& lo) { window(lo, {0.5, -0.5, 0}); }
void lower_hamming_window(Lowering& lo) { window(lo, {25.0 / 46, -21.0 / 46, 0}); }
void lower_blackman_window(Lowering& lo) { window(lo, {0.42, -0.5, 0.08}); }

// Triangles: from 0 at one bin's edge over 1 at its centre to 0 at the next one's centre.
void lower_mel_weight_matrix(Lowering& lo) {
  Builder& b = lo.b;
  const int64_t mels = need_size(lo, 0, "num_mel_bins"), length = need_size(lo, 1, "dft_length");
  const double rate = need_number(lo, 2, "sample_rate");
  if (rate < 1) lo.malformed(fmt::format("a sample rate of {}", rate));
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
      lo.malformed(fmt::format("mel bin {} does not lie within the {} bins of the spectrum", i, bins));
    edges.push_back(static_cast<float>(bin));
  }
  auto row = [&](int64_t first) {
    const auto begin = edges.begin() + first;
    return b.constant(stream::recipe::floats(std::vector<float>(begin, begin + mels), {1, mels}));
  };
  Val left = row(0), centre = row(1), right = row(2);
  Val bin = b.reshape(b.cast(counting(lo, bins, DType::kInt32), DType::kFloat32), {bins, 1});
  Val one = b.scalar_like(1, bin);
  Val rising = b.div(b.sub(bin, left), b.maximum(b.sub(centre, left), one));
  Val falling = b.div(b.sub(right, bin), b.maximum(b.sub(right, centre), one));
  Val slope = b.maximum(b.minimum(rising, falling), b.scalar_like(0, bin));
  // Bins that fall together leave no slope, but their centre counts.
  lo.output(0, b.cast(b.select(b.equal(bin, centre), one, slope), dtype));
}

}  // namespace lowtide::layout
