// SPDX-License-Identifier: Apache-2.0
// DeformConv: a convolution whose positions are computed from an input. The image is sampled at all positions
// (image_sampling.h); the rest is a matrix product. Sources: ONNX's DeformConv (19, 22); ONNX Runtime's rules at the
// border.
#include <fmt/format.h>

#include <limits>

#include "layout/lower/attributes.h"
#include "layout/lower/image_sampling.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// The tap positions of an ordinary convolution: [2, positions * taps], rows first. Each coordinate is the sum of a
// sequence over the output positions and one over the taps.
Val plain_positions(Lowering& lo, std::span<const int64_t> out, std::span<const int64_t> kernel,
                    std::span<const int64_t> stride, std::span<const int64_t> dilation, std::span<const int64_t> pads) {
  Builder& b = lo.b;
  const Shape box = {out[0], out[1], kernel[0], kernel[1]};
  const Dim count = b.graph.symbols.product(box);
  std::vector<Val> by_axis;
  for (size_t i = 0; i < 2; ++i) {
    Shape place(4, 1), tap(4, 1);
    place[i] = out[i];
    tap[i + 2] = kernel[i];
    Val at = b.add(b.reshape(b.constant(stream::recipe::iota(-pads[i], stride[i], DType::kInt32, out[i])), place),
                   b.reshape(b.constant(stream::recipe::iota(0, dilation[i], DType::kInt32, kernel[i])), tap));
    by_axis.push_back(b.reshape(b.broadcast_to(at, box), {1, count}));
  }
  return b.cast(b.concat(by_axis, 0), DType::kFloat32);
}

// [N, offset groups * taps * per, H, W] as [N, per, places * taps] for one group.
Val of_group(Lowering& lo, Val x, int64_t group, int64_t taps, int64_t per, int64_t places) {
  Builder& b = lo.b;
  Val part = b.slice(x, std::vector<int64_t>{0, group * taps * per, 0, 0}, std::vector<Dim>{-1, taps * per, -1, -1});
  const Dim batch = lo.b.dim(x, 0);
  part = b.transpose(reshape_to(lo, part, std::vector<Dim>{batch, taps, per, places}), {0, 2, 3, 1});
  return reshape_to(lo, part, std::vector<Dim>{batch, per, places * taps});
}

// One group of the product: values [N, places, taps, C], weights ONNX's [M, C, h, w].
Val contracted(Lowering& lo, Val values, Val weights, Val bias) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(values), w = lo.shape(weights);
  weights = b.reshape(b.transpose(weights, {0, 2, 3, 1}), {w[0], w[1] * w[2] * w[3]});
  values = reshape_to(lo, values, std::vector<Dim>{shape[0], shape[1], w[1] * w[2] * w[3]});
  return b.fully_connected(values, weights, bias, true);
}

}  // namespace

void lower_deform_conv(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), weights = lo.input(1), offset = lo.input(2);
  if (lo.rank(x) != 4 || lo.rank(weights) != 4 || lo.rank(offset) != 4)
    lo.unsupported(
        fmt::format("only 2-D images are supported: X, W and offset must have rank 4; the ranks are {}, {} and {}",
                    lo.rank(x), lo.rank(weights), lo.rank(offset)));
  const Shape shape = lo.shape(x);
  const std::vector<int64_t> w = lo.need_static(lo.shape(weights), "the shape of the weights");
  const std::vector<int64_t> sizes = {lo.need_static(shape[2], "the height"), lo.need_static(shape[3], "the width")};
  const std::vector<int64_t> kernel = {w[2], w[3]};
  if (auto given = lo.attr_ints("kernel_shape"); given && *given != kernel)
    lo.malformed(fmt::format("attribute 'kernel_shape' is {}, but the weights have {}", stream::to_string(*given),
                             stream::to_string(kernel)));
  const std::vector<int64_t> stride = attr_int_list(lo, "strides", 2, 1, 1),
                             dilation = attr_int_list(lo, "dilations", 2, 1, 1);
  const std::vector<int64_t> pads = attr_int_list(lo, "pads", 4, 0, 0);
  for (int64_t axis_size : {kernel[0], kernel[1], sizes[0], sizes[1]})
    if (axis_size < 1 || axis_size > std::numeric_limits<int32_t>::max())
      lo.unsupported(fmt::format("an axis of {} elements is not supported", axis_size));
  const int64_t group = lo.attr_count("group", 1), offset_group = lo.attr_count("offset_group", 1);
  const int64_t channels = lo.need_static(shape[1], "the number of channels");
  if (group < 1 || offset_group < 1 || channels % offset_group != 0 || channels % group != 0 ||
      channels / group != w[1] || w[0] % group != 0)
    lo.misfit(fmt::format("{} channels, group {}, offset_group {} and weights of shape {} do not fit", channels, group,
                          offset_group, stream::to_string(lo.shape(weights))));
  std::vector<int64_t> out;
  for (size_t i = 0; i < 2; ++i) {
    out.push_back((sizes[i] + pads[i] + pads[i + 2] - ((kernel[i] - 1) * dilation[i] + 1)) / stride[i] + 1);
    if (out[i] < 1 || (stream::is_static(lo.shape(offset)[i + 2]) && lo.shape(offset)[i + 2] != out[i]))
      lo.misfit(fmt::format("input 'offset' of shape {} does not fit spatial axis {} of the output, {}",
                            stream::to_string(lo.shape(offset)), i, out[i]));
  }
  const int64_t taps = kernel[0] * kernel[1], most = std::numeric_limits<int32_t>::max();
  // Not their product before it is known to fit 64 bits.
  if (out[0] > most / taps || out[1] > most / taps / out[0])
    lo.unsupported(fmt::format("{} x {} places of {} taps are not supported: too many", out[0], out[1], taps));
  const int64_t places = out[0] * out[1];
  Val plain = plain_positions(lo, out, kernel, stride, dilation, pads);

  const std::vector<Val> images = b.split(x, offset_group, channels / offset_group, 1);
  std::vector<Val> parts;
  for (int64_t i = 0; i < offset_group; ++i) {
    const ImageRows rows = as_rows(lo, images[static_cast<size_t>(i)], sizes[0] * sizes[1]);
    Val at = b.add(b.cast(of_group(lo, offset, i, taps, 2, places), DType::kFloat32), plain);
    Val values = sampled(lo, rows.image, rows.first, at,
                         {.mode = Sampling::kLinear, .outside = Outside::kZeros, .sizes = sizes});
    if (lo.has_input(4)) {
      const Val mask = of_group(lo, lo.input(4), i, taps, 1, places);
      values = b.mul(values, reshape_to(lo, mask, std::vector<Dim>{shape[0], places * taps, 1}));
    }
    parts.push_back(reshape_to(lo, values, std::vector<Dim>{shape[0], places, taps, channels / offset_group}));
  }
  Val values = parts.size() == 1 ? parts[0] : b.concat(parts, 3);
  const Val bias = lo.optional_input(3);
  Val y;
  if (group == 1) {
    y = contracted(lo, values, weights, bias);
  } else {
    const size_t count = static_cast<size_t>(group);
    std::vector<Val> vs = b.split(values, group, w[1], 3);
    std::vector<Val> ws = b.split(weights, group, w[0] / group, 0), biases(count);
    if (bias) biases = b.split(bias, group, w[0] / group, 0);
    for (size_t i = 0; i < count; ++i) vs[i] = contracted(lo, vs[i], ws[i], biases[i]);
    y = b.concat(vs, 2);
  }
  y = reshape_to(lo, y, std::vector<Dim>{shape[0], out[0], out[1], w[0]});
  lo.output(0, b.transpose(y, {0, 3, 1, 2}));
}

}  // namespace lowtide::layout
