// SPDX-License-Identifier: Apache-2.0
// Normalisations: BatchNormalization, InstanceNormalization, GroupNormalization, LayerNormalization, RMSNormalization,
// LRN, LpNormalization, MeanVarianceNormalization. TFLite has kernels for the local response (odd windows only; its
// alpha is not divided by the window's size) and the L2 norm (with an epsilon that ONNX does not have); the others are
// composed. A BatchNormalization in inference is one MUL and one ADD with constant recipes. Sources: ONNX's operator
// definitions; LiteRT's local_response_norm.cc and l2norm.cc.
#include "layout/lower/norm.h"

#include <fmt/format.h>

#include <algorithm>

#include "layout/lower/attributes.h"
#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

// [C] as [1, C, 1, ...], to broadcast over x [N, C, ...].
Val broadcast_per_channel(Lowering& lo, Val v, Val x) {
  check_per_channel(lo, v, lo.b.dim(x, 1));
  Shape shape(static_cast<size_t>(lo.rank(x)), 1);
  shape[1] = lo.b.dim(v, 0);
  return lo.b.reshape(v, shape);
}

// Exporters write a group normalisation as an instance normalisation with scale 1 and shift 0.
bool is_filled(Lowering& lo, Val v, double number) {
  const auto numbers = lo.numbers(v);
  return numbers && std::count(numbers->begin(), numbers->end(), number) == std::ssize(*numbers);
}

// 1 / sqrt(v + epsilon).
Val inverse_deviation(Lowering& lo, Val variance, float epsilon) {
  Builder& b = lo.b;
  return b.rsqrt(b.add(variance, epsilon));
}

struct Moments {
  Val centered, variance, mean;
};
Moments moments(Lowering& lo, Val x, std::span<const int> axes) {
  Builder& b = lo.b;
  Val mean = b.mean(x, axes, true);
  Val centered = b.sub(x, mean);
  return {centered, b.mean(b.square(centered), axes, true), mean};
}

// stash_type: the dtype in which statistics are computed, float32 unless the model says otherwise.
DType read_stash_type(Lowering& lo) { return attr_float_dtype(lo, "stash_type", DType::kFloat32); }

// In training mode the statistics are those of the batch, and running means and variances are outputs.
void lower_training_batch_norm(Lowering& lo, Val x, float epsilon) {
  Builder& b = lo.b;
  const float momentum = lo.attr_f("momentum", 0.9f);
  std::vector<int> axes = {0};
  for (int axis : axes_from(2, lo.rank(x))) axes.push_back(axis);
  const Moments m = moments(lo, x, axes);
  const Val scale = broadcast_per_channel(lo, lo.input(1), x);
  Val y = b.mul(m.centered, b.mul(inverse_deviation(lo, m.variance, epsilon), scale));
  lo.output(0, b.add(y, broadcast_per_channel(lo, lo.input(2), x)));
  const Shape channels = {lo.b.dim(x, 1)};
  const std::array<Val, 2> batch = {b.reshape(m.mean, channels), b.reshape(m.variance, channels)};
  for (size_t i = 0; i < 2; ++i)
    if (lo.wants_output(i + 1)) {
      const Val added = b.mul(b.cast(batch[i], lo.dtype(lo.input(i + 3))), 1.0 - momentum);
      lo.output(i + 1, b.add(b.mul(lo.input(i + 3), momentum), added));
    }
  // Up to version 13. 'saved_var' is what ONNX Runtime returns (docs/decisions/disputed-semantics.md).
  if (lo.wants_output(3)) lo.output(3, batch[0]);
  if (lo.wants_output(4)) lo.output(4, inverse_deviation(lo, batch[1], epsilon));
}

// Version 14 has an attribute; before, statistics as outputs tell that those of the batch are used. PyTorch's exporter
// names all of them for `batch_norm(training=True)`, with which networks standardise their weights.
bool is_training_batch_norm(Lowering& lo) {
  if (lo.opset() >= 14) return lo.attr_i("training_mode", 0) != 0;
  for (size_t i = 1; i < lo.output_count(); ++i)
    if (lo.wants_output(i)) return true;
  return false;
}

// An even window is one channel longer after the centre than before it: channels are pooled as rows of an image.
Val lrn_even_window(Lowering& lo, Val x, int64_t size, float alpha, float beta, float bias) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x);
  const Dim rest = b.graph.symbols.product(std::span(shape).subspan(2));
  Val squares = b.reshape(b.square(x), {shape[0], shape[1], 1, rest});
  const int64_t before = (size - 1) / 2;
  squares = b.pad(squares, std::vector<int64_t>{0, before, 0, 0}, std::vector<int64_t>{0, size - 1 - before, 0, 0}, 0);
  const core::PoolOptions options{.filter_h = to_int(lo, size, "size"), .filter_w = 1};
  Val mean = b.reshape(b.average_pool_2d(squares, options), shape);
  Val base = b.add(b.mul(mean, alpha), bias);
  return b.div(x, beta == 1 ? base : b.pow(base, b.scalar_like(beta, base)));
}

// An odd window. A tensor of any rank is reshaped to a channels-last image and back.
Val lrn_odd_window(Lowering& lo, Val x, const core::LrnOptions& options) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x);
  if (lo.rank(x) == 4) return from_image(lo, b.local_response_normalization(to_image(lo, x), options), 2);
  x = b.reshape(x, {shape[0], shape[1], 1, b.graph.symbols.product(std::span(shape).subspan(2))});
  return b.reshape(from_image(lo, b.local_response_normalization(to_image(lo, x), options), 2), shape);
}

// Whether x [N, C, ...] has no spatial extents: a group is a row of its channels.
bool is_list_of_channels(const Shape& shape) {
  return std::all_of(shape.begin() + 2, shape.end(), [](Dim extent) { return extent == 1; });
}

// A number for each channel, or for each group, as [groups, channels / groups or 1].
Val by_group_and_channel(Lowering& lo, Val scale, int64_t groups) {
  const int64_t each = lo.need_static(lo.b.dim(scale, 0), "the number of channels") / groups;
  return lo.b.reshape(scale, {groups, each});
}

}  // namespace

void check_per_channel(Lowering& lo, Val factors, Dim channels) {
  if (lo.rank(factors) != 1)
    lo.malformed(fmt::format("a per-channel operand must have rank 1; it has rank {}", lo.rank(factors)));
  const Dim have = lo.b.dim(factors, 0);
  if (known_to_differ(have, channels))
    lo.malformed(fmt::format("a per-channel operand has {} elements, but there are {} channels", have, channels));
}

Val group_normalized(Lowering& lo, Val x, int64_t groups, float epsilon, Val scale) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x);
  const int64_t channels = lo.need_static(shape[1], "the number of channels");
  if (groups < 1 || channels % groups != 0)
    lo.malformed(
        fmt::format("the number of channels {} must be a multiple of the number of groups {}", channels, groups));
  const Shape by_group = {shape[0], groups, channels / groups};
  if (is_list_of_channels(shape)) {
    Val y = normalized(lo, b.reshape(x, by_group), epsilon, false);
    if (scale) y = b.mul(y, by_group_and_channel(lo, scale, groups));
    return b.reshape(y, shape);
  }
  // Statistics are taken by channel first, and only those few numbers are grouped: x stays an image of four axes, which
  // kernels and delegates take, and whose channels settle_layouts may put last.
  Shape by_channel = shape;
  std::fill(by_channel.begin() + 2, by_channel.end(), 1);
  const std::vector<int> spatial = axes_from(2, lo.rank(x)), in_group = {2};
  auto group_mean = [&](Val v) {
    v = b.mean(v, spatial, true);
    return b.mean(b.reshape(v, by_group), in_group, true);
  };
  // [N, groups, 1 or channels / groups] for each channel; the number of a single group stays one, which broadcasts.
  auto for_channels = [&](Val v) {
    const bool is_one = groups == 1 && b.dim(v, 2) == 1;
    if (!is_one && b.dim(v, 2) != by_group[2]) v = b.mul(v, b.filled(1, lo.dtype(v), {by_group[2]}));
    Shape factors = by_channel;
    if (is_one) factors[1] = 1;
    return b.reshape(v, factors);
  };
  const Val mean = for_channels(group_mean(x));
  const Val centered = b.sub(x, mean);
  Val factor = inverse_deviation(lo, group_mean(b.square(centered)), epsilon);
  if (scale) factor = b.mul(factor, by_group_and_channel(lo, scale, groups));
  return b.mul(centered, for_channels(factor));
}

Val normalized(Lowering& lo, Val x, float epsilon, bool simplified) {
  Builder& b = lo.b;
  const std::vector<int> last = {lo.rank(x) - 1};
  if (simplified) return b.mul(x, inverse_deviation(lo, b.mean(b.square(x), last, true), epsilon));
  const Moments m = moments(lo, x, last);
  return b.mul(m.centered, inverse_deviation(lo, m.variance, epsilon));
}

void lower_batch_normalization(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const Shape whole = lo.shape(x);
  if (whole.empty()) lo.malformed("the input must have rank 1 or more; it has rank 0");
  const float epsilon = lo.attr_f("epsilon", 1e-5f);
  if (lo.opset() < 7) {
    lo.ignore_attr("consumed_inputs");  // a hint to reuse memory
    if (lo.attr_i("is_test", 0) == 0)
      lo.unsupported("training mode (is_test = 0) is not supported", "export the model for inference");
  }
  const bool training = lo.opset() >= 7 && is_training_batch_norm(lo);
  const bool spatial = lo.opset() >= 9 || lo.attr_i("spatial", 1) != 0;
  if (training && !spatial) lo.unsupported("statistics of the batch with 'spatial' 0 are not supported");
  if (whole.size() == 1) {  // a batch of one channel
    if (training || !spatial)
      lo.unsupported("an input of rank 1 in training mode or with 'spatial' 0 is not supported");
    const Dim column[] = {whole[0], 1};
    x = reshape_to(lo, x, column);
  }
  if (training) return lower_training_batch_norm(lo, x, epsilon);
  lo.ignore_attr("momentum");  // used in training only
  for (size_t i = 1; i < lo.output_count(); ++i)
    if (lo.wants_output(i)) lo.unsupported("statistics as outputs are not supported", "export the model for inference");

  Val scale = lo.input(1), shift = lo.input(2), mean = lo.input(3), variance = lo.input(4);
  for (Val* v : {&scale, &shift, &mean, &variance}) {
    if (lo.dtype(*v) != lo.dtype(variance)) *v = b.cast(*v, lo.dtype(variance));
    if (spatial) {
      *v = broadcast_per_channel(lo, *v, x);
    } else {  // [C, spatial...]: per element
      Shape shape = lo.shape(*v);
      shape.insert(shape.begin(), 1);
      *v = b.reshape(*v, shape);
    }
  }
  Val factor = b.div(scale, b.sqrt(b.add(variance, epsilon)));
  Val rest = b.sub(shift, b.mul(mean, factor));
  rest = b.cast(rest, lo.dtype(x));
  const Val y = b.add(b.mul(x, b.cast(factor, lo.dtype(x))), rest);
  lo.output(0, whole.size() == 1 ? reshape_to(lo, y, whole) : y);
}

// The image [N, C, ...] of which x [N, G, L] is a RESHAPE with the channels in G groups; absent where x is none, or
// where the rows of x are the groups.
Val grouped_image(Lowering& lo, Val x) {
  if (lo.rank(x) != 3 || x.id < 0) return {};
  const core::OpId producer = lo.b.graph.at(x.id).producer;
  if (producer < 0) return {};
  const core::Op& op = lo.b.graph.ops[static_cast<size_t>(producer)];
  if (op.kind != Kind::kReshape) return {};
  const Val image{op.inputs[0]};
  const Shape& from = lo.shape(image);
  const Shape& to = lo.shape(x);
  const bool fits = from.size() >= 3 && !is_list_of_channels(from) && from[0] == to[0] && !core::is_symbol(from[1]) &&
                    !core::is_symbol(to[1]) && to[1] > 0 && from[1] > to[1] && from[1] % to[1] == 0;
  return fits ? image : Val();
}

void lower_instance_normalization(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const int rank = lo.rank(x);
  if (rank < 3) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", rank));
  lo.ignore_attr("consumed_inputs");  // version 1's hint to reuse memory
  const float epsilon = lo.attr_f("epsilon", 1e-5f);
  Val scale = broadcast_per_channel(lo, lo.input(1), x), shift = broadcast_per_channel(lo, lo.input(2), x);
  const bool is_scaled = !is_filled(lo, scale, 1);
  Val y;
  if (const Val image = grouped_image(lo, x)) {
    const Val normal = group_normalized(lo, image, lo.shape(x)[1], epsilon, is_scaled ? lo.input(1) : Val());
    y = b.reshape(normal, lo.shape(x));
  } else {
    const Moments m = moments(lo, x, axes_from(2, rank));
    Val factor = inverse_deviation(lo, m.variance, epsilon);
    if (is_scaled) factor = b.mul(factor, scale);
    y = b.mul(m.centered, factor);
  }
  lo.output(0, is_filled(lo, shift, 0) ? y : b.add(y, shift));
}

// Scale and shift are per group in version 18, per channel from version 21 on.
void lower_group_normalization(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), scale = lo.input(1), shift = lo.input(2);
  const int rank = lo.rank(x);
  if (rank < 2) lo.malformed(fmt::format("the input must have rank 2 or more; it has rank {}", rank));
  const int64_t groups = lo.need_attr_count("num_groups");
  const float epsilon = lo.attr_f("epsilon", 1e-5f);
  const DType stash = lo.opset() >= 21 ? read_stash_type(lo) : lo.dtype(x);
  const Shape shape = lo.shape(x);
  // Per group: a row of factors for [N, groups, C / groups, ...].
  auto for_channels = [&](Val v) {
    if (lo.opset() >= 21) return broadcast_per_channel(lo, v, x);
    check_per_channel(lo, v, groups);
    const int64_t each = groups > 0 ? lo.need_static(shape[1], "the number of channels") / groups : 0;
    const Val row = b.filled(1, lo.dtype(v), {1, each});
    Shape by_channel(shape.size(), 1);
    by_channel[1] = shape[1];
    return b.reshape(b.mul(b.reshape(v, {groups, 1}), row), by_channel);
  };
  check_per_channel(lo, scale, lo.opset() >= 21 ? shape[1] : Dim{groups});
  const bool is_folded = stash == lo.dtype(x);
  Val y = b.cast(group_normalized(lo, b.cast(x, stash), groups, epsilon, is_folded ? scale : Val()), lo.dtype(x));
  if (!is_folded) y = b.mul(y, for_channels(scale));
  lo.output(0, b.add(y, for_channels(shift)));
}

void lower_layer_normalization(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const int axis = lo.axis(lo.attr_i("axis", -1), lo.rank(x));
  const float epsilon = lo.attr_f("epsilon", 1e-5f);
  const DType stash = read_stash_type(lo);
  const Moments m = moments(lo, b.cast(x, stash), axes_from(axis, lo.rank(x)));
  Val inverse = inverse_deviation(lo, m.variance, epsilon);
  Val y = b.mul(b.cast(b.mul(m.centered, inverse), lo.dtype(x)), lo.input(1));
  if (lo.has_input(2)) y = b.add(y, lo.input(2));
  lo.output(0, y);
  lo.output(1, m.mean);
  lo.output(2, inverse);
}

// Also SimplifiedLayerNormalization, ONNX Runtime's name for it before opset 23; it has a second output, and the dtype
// of its scale may differ from that of x.
void lower_rms_normalization(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const int axis = lo.axis(lo.attr_i("axis", -1), lo.rank(x));
  const float epsilon = lo.attr_f("epsilon", 1e-5f);
  Val wide = b.cast(x, read_stash_type(lo));
  Val inverse = inverse_deviation(lo, b.mean(b.square(wide), axes_from(axis, lo.rank(x)), true), epsilon);
  lo.output(0, b.mul(b.cast(b.mul(wide, inverse), lo.dtype(lo.input(1))), lo.input(1)));
  lo.output(1, inverse);
}

void lower_lrn(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) < 3) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", lo.rank(x)));
  const int64_t size = lo.need_attr_i("size");
  if (size < 1 || size > (1 << 20))
    lo.malformed(fmt::format("attribute 'size' must be from 1 to {}; it is {}", 1 << 20, size));
  const float alpha = lo.attr_f("alpha", 1e-4f), beta = lo.attr_f("beta", 0.75f), bias = lo.attr_f("bias", 1.0f);
  if (size % 2 == 0) return lo.output(0, lrn_even_window(lo, x, size, alpha, beta, bias));
  lo.output(0, lrn_odd_window(lo, x,
                              {.radius = static_cast<int>(size / 2),
                               .bias = bias,
                               .alpha = alpha / static_cast<float>(size),
                               .beta = beta}));
}

void lower_lp_normalization(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const std::vector<int> axes = {lo.axis(lo.attr_i("axis", -1), lo.rank(x))};
  const int64_t p = lo.attr_i("p", 2);
  if (p != 1 && p != 2) lo.malformed(fmt::format("attribute 'p' must be 1 or 2; it is {}", p));
  Val norm = p == 1 ? b.sum(b.abs(x), axes, true) : b.sqrt(b.sum(b.square(x), axes, true));
  // Zeros divided by a norm of zero give NaN, as in ONNX's node tests; ONNX Runtime gives zeros.
  lo.output(0, b.div(x, norm));
}

void lower_mean_variance_normalization(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  lo.ignore_attr("across_channels");  // of ONNX Runtime's version 1; replaced by axes
  const std::vector<int> axes = lo.axis_set(lo.attr_ints("axes").value_or(std::vector<int64_t>{0, 2, 3}), lo.rank(x));
  if (axes.empty()) lo.malformed("attribute 'axes' must not be empty");  // reductions and ONNX Runtime disagree on it
  const Moments m = moments(lo, x, axes);
  lo.output(0, b.div(m.centered, b.add(b.sqrt(m.variance), 1e-9)));
}

}  // namespace lowtide::layout
