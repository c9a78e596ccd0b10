// SPDX-License-Identifier: Apache-2.0
// Clip: min(max(x, low), high), also where low > high. The limits 0..inf, 0..6, -1..1 and 0..1 become RELU, RELU6 and
// so on, which kernels can fuse. A limit at the end of a float's range is dropped: ONNX's defaults before opset 11 are
// the largest floats, exporters write them out, and they change only infinities.
#include <limits>
#include <optional>

#include "layout/lower/elementwise.h"
#include "layout/lower/lowering.h"

namespace lowtide::layout {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr double kLargestFloat = std::numeric_limits<float>::max();

struct Limit {
  Val at_run_time;               // a scalar, when the value is unknown
  std::optional<double> number;  // nullopt and no scalar: no limit
};

Limit limit_input(Lowering& lo, size_t i) {
  if (!lo.has_input(i)) return {};
  Val v = lo.input(i);
  if (lo.rank(v) > 1 || (lo.rank(v) == 1 && stream::is_static(lo.b.dim(v, 0)) && lo.b.dim(v, 0) != 1))
    lo.misfit("the limits 'min' and 'max' must be scalars; one has shape " + stream::to_string(lo.shape(v)));
  Val scalar = lo.b.reshape(v, Shape{});
  // A double does not hold all 64-bit integers.
  if (auto known = lo.numbers(v); known && stream::bits(lo.dtype(v)) < 64) return {scalar, known->at(0)};
  return {scalar, std::nullopt};
}

Limit limit_attribute(Lowering& lo, const char* name) {
  if (!lo.has_attr(name)) return {};
  if (!stream::is_float(lo.dtype(lo.input(0))))
    lo.malformed("attribute '" + std::string(name) + "' needs a float input");
  return {{}, lo.attr_f(name, 0)};
}

void drop_unlimited(Limit& limit, DType dtype, double sign) {
  if (!limit.number || !stream::is_float(dtype)) return;
  const double largest = dtype == DType::kFloat64 ? kUnlimited : kLargestFloat;
  if (*limit.number * sign >= largest) limit = {};
}

Val limit_scalar(Lowering& lo, const Limit& limit, Val like) {
  return limit.at_run_time ? limit.at_run_time : lo.b.scalar_like(*limit.number, like);
}

// The kernel that clips to these limits in one step, if there is one.
Val (Builder::*fused(const Limit& low, const Limit& high))(Val) {
  if (!low.number) return nullptr;
  const bool unlimited = !high.number && !high.at_run_time;
  if (unlimited) return *low.number == 0 ? &Builder::relu : nullptr;
  if (!high.number) return nullptr;
  if (*low.number == 0 && *high.number == 6) return &Builder::relu6;
  if (*low.number == 0 && *high.number == 1) return &Builder::relu_0_to_1;
  if (*low.number == -1 && *high.number == 1) return &Builder::relu_n1_to_1;
  return nullptr;
}

}  // namespace

void lower_clip(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.opset() < 6) lo.ignore_attr("consumed_inputs");
  Limit low, high;
  if (lo.opset() < 11) {
    low = limit_attribute(lo, "min");
    high = limit_attribute(lo, "max");
  } else {
    low = limit_input(lo, 1);
    high = limit_input(lo, 2);
  }
  drop_unlimited(low, lo.dtype(x), -1);
  drop_unlimited(high, lo.dtype(x), 1);
  if (stream::is_float(lo.dtype(x)))
    if (auto kernel = fused(low, high)) return lo.output(0, (lo.b.*kernel)(x));
  if (low.number || low.at_run_time) x = keeping_nan(lo.b, Kind::kMaximum, x, limit_scalar(lo, low, x));
  if (high.number || high.at_run_time) x = keeping_nan(lo.b, Kind::kMinimum, x, limit_scalar(lo, high, x));
  lo.output(0, x);
}

}  // namespace lowtide::layout
