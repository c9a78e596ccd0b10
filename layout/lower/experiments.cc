// SPDX-License-Identifier: Apache-2.0
// Affine, Crop, ImageScaler, ParametricSoftplus, Scale and ScaledTanh: experimental operators of opsets 1 to 9, which
// converters from Caffe2 and Core ML wrote. ONNX has removed them; ONNX Runtime still runs them in models of these
// opsets, and its schemas (contrib_ops/cpu and core/graph/contrib_ops/onnx_deprecated_opset.cc) say what they mean.
#include <fmt/format.h>

#include <array>

#include "layout/lower/lowering.h"
#include "layout/lower/recurrent.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kRemoved = 10;  // ai.onnx

void need_old_opset(Lowering& lo) {
  if (lo.opset() >= kRemoved)
    lo.malformed(fmt::format("the operator was experimental and does not exist in opset {} and later", kRemoved));
}

}  // namespace

void lower_affine(Lowering& lo) {
  need_old_opset(lo);
  lo.output(0, lo.b.add(lo.b.mul(lo.input(0), lo.attr_f("alpha", 1)), lo.attr_f("beta", 0)));
}

void lower_scale(Lowering& lo) {
  need_old_opset(lo);
  lo.output(0, lo.b.mul(lo.input(0), lo.attr_f("scale", 1)));
}

void lower_scaled_tanh(Lowering& lo) {
  need_old_opset(lo);
  const float alpha = lo.need_attr_f("alpha"), beta = lo.need_attr_f("beta");
  lo.output(0, apply(lo.b, {"scaledtanh", alpha, beta}, lo.input(0)));
}

void lower_parametric_softplus(Lowering& lo) {
  need_old_opset(lo);
  const float alpha = lo.need_attr_f("alpha"), beta = lo.need_attr_f("beta");
  lo.output(0, lo.b.mul(apply(lo.b, {"softplus"}, lo.b.mul(lo.input(0), beta)), alpha));
}

// [N, C, H, W] * scale + a bias for each channel.
void lower_image_scaler(Lowering& lo) {
  need_old_opset(lo);
  Builder& b = lo.b;
  const Val x = lo.input(0);
  const std::optional<std::vector<float>> bias = lo.attr_floats("bias");
  if (!bias || bias->empty()) lo.malformed("required attribute 'bias' is missing");
  if (lo.rank(x) != 4) lo.malformed(fmt::format("the input must have rank 4; it has rank {}", lo.rank(x)));
  const auto channels = static_cast<Dim>(bias->size());
  if (b.dim(x, 1) >= 0 && b.dim(x, 1) != channels)
    lo.malformed(fmt::format("'bias' has {} elements for {} channels", channels, b.dim(x, 1)));
  const Val of_channels = b.constant(stream::recipe::floats(*bias, {channels, 1, 1}));
  lo.output(0, b.add(b.mul(x, lo.attr_f("scale", 1)), of_channels));
}

// [N, C, H, W] without its borders (left, top, right, bottom); with 'scale', so many rows and columns from there on.
void lower_crop(Lowering& lo) {
  need_old_opset(lo);
  Builder& b = lo.b;
  const Val x = lo.input(0);
  if (lo.rank(x) != 4) lo.malformed(fmt::format("the input must have rank 4; it has rank {}", lo.rank(x)));
  const std::vector<int64_t> border = lo.attr_ints("border").value_or(std::vector<int64_t>{});
  const std::optional<std::vector<int64_t>> size = lo.attr_ints("scale");
  if (border.size() != 4) lo.malformed(fmt::format("'border' must have 4 elements; it has {}", border.size()));
  if (size && size->size() != 2) lo.malformed(fmt::format("'scale' must have 2 elements; it has {}", size->size()));
  const int64_t rows = lo.need_static(b.dim(x, 2), "the height"), columns = lo.need_static(b.dim(x, 3), "the width");
  const auto check = [&](int64_t begin, int64_t end, int64_t extent, const char* what) {
    if (begin < 0 || end < begin || end > extent)
      lo.malformed(fmt::format("{} {} to {} are outside of the input's {}", what, begin, end, extent));
  };
  const int64_t left = border[0], top = border[1];
  const auto end = [](int64_t begin, int64_t count, int64_t extent) {
    return count > extent || begin > extent ? extent + 1 : begin + count;
  };
  const int64_t bottom = size ? end(top, size->at(0), rows) : rows - border[3];
  const int64_t right = size ? end(left, size->at(1), columns) : columns - border[2];
  check(top, bottom, rows, "rows");
  check(left, right, columns, "columns");
  lo.output(
      0, b.slice(x, std::array<int64_t, 4>{0, 0, top, left}, std::array<Dim, 4>{-1, -1, bottom - top, right - left}));
}

}  // namespace lowtide::layout
