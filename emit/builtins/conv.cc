// SPDX-License-Identifier: Apache-2.0
// The image ops.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable conv_2d_options(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  const auto& o = options_of<core::Conv2dOptions>(op);
  return table_of(tflite::BuiltinOptions::Conv2DOptions,
                  tflite::CreateConv2DOptions(fbb, schema(o.padding), o.stride_w, o.stride_h, schema(o.activation),
                                              o.dilation_w, o.dilation_h, bias_type(graph, op, 0, 2)));
}

OptionsTable depthwise_conv_2d_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::Conv2dOptions>(op);
  return table_of(
      tflite::BuiltinOptions::DepthwiseConv2DOptions,
      tflite::CreateDepthwiseConv2DOptions(fbb, schema(o.padding), o.stride_w, o.stride_h, o.depth_multiplier,
                                           schema(o.activation), o.dilation_w, o.dilation_h));
}

OptionsTable transpose_conv_options(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  const auto& o = options_of<core::TransposeConvOptions>(op);
  return table_of(tflite::BuiltinOptions::TransposeConvOptions,
                  tflite::CreateTransposeConvOptions(fbb, schema(o.padding), o.stride_w, o.stride_h,
                                                     schema(o.activation), bias_type(graph, op, 2, 3)));
}

OptionsTable conv_3d_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::Conv3dOptions>(op);
  return table_of(tflite::BuiltinOptions::Conv3DOptions,
                  tflite::CreateConv3DOptions(fbb, schema(o.padding), o.stride_d, o.stride_w, o.stride_h,
                                              schema(o.activation), o.dilation_d, o.dilation_w, o.dilation_h));
}

OptionsTable pool_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::PoolOptions>(op);
  return table_of(tflite::BuiltinOptions::Pool2DOptions,
                  tflite::CreatePool2DOptions(fbb, schema(o.padding), o.stride_w, o.stride_h, o.filter_w, o.filter_h,
                                              schema(o.activation)));
}

OptionsTable resize_bilinear_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::ResizeOptions>(op);
  return table_of(tflite::BuiltinOptions::ResizeBilinearOptions,
                  tflite::CreateResizeBilinearOptions(fbb, o.align_corners, o.half_pixel_centers));
}

OptionsTable resize_nearest_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::ResizeOptions>(op);
  return table_of(tflite::BuiltinOptions::ResizeNearestNeighborOptions,
                  tflite::CreateResizeNearestNeighborOptions(fbb, o.align_corners, o.half_pixel_centers));
}

OptionsTable space_to_depth_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::BlockOptions>(op);
  return table_of(tflite::BuiltinOptions::SpaceToDepthOptions, tflite::CreateSpaceToDepthOptions(fbb, o.block_size));
}

OptionsTable depth_to_space_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::BlockOptions>(op);
  return table_of(tflite::BuiltinOptions::DepthToSpaceOptions, tflite::CreateDepthToSpaceOptions(fbb, o.block_size));
}

OptionsTable local_response_normalization_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::LrnOptions>(op);
  return table_of(tflite::BuiltinOptions::LocalResponseNormalizationOptions,
                  tflite::CreateLocalResponseNormalizationOptions(fbb, o.radius, o.bias, o.alpha, o.beta));
}

// ---- versions ----

int conv_2d_version(const OperandTypes& s) {
  const Value *x = s.input(0), *weights = s.input(1);
  if (s.in(0) == kI16 && s.in(2) == kI32) return 8;
  if (x && weights && x->rank() == 4 && weights->rank() == 4 && x->shape[3] != weights->shape[3]) return 6;  // groups
  if (s.in(0) == kI16 && s.in(1) == kI16) return 4;
  if (s.all(kI8)) return 3;
  if (s.types(kI8, kI4, kI8)) return 7;
  if (s.hybrid()) return s.per_channel(1) ? 5 : 2;
  return 1;
}

int depthwise_conv_2d_version(const OperandTypes& s) {
  if (s.in(0) == kI16 && s.in(1) == kI16) return 5;
  if (s.hybrid()) return s.per_channel(1) ? 6 : 4;
  if (s.all(kI8)) return 3;
  if (s.types(kI8, kI4, kI8)) return 7;
  const auto& o = s.options<core::Conv2dOptions>();
  return o.dilation_w != 1 || o.dilation_h != 1 ? 2 : 1;
}

int transpose_conv_version(const OperandTypes& s) {
  if (s.in(2) == kI16 && s.in(3) == kI32) return 5;
  if (s.options<core::TransposeConvOptions>().activation != core::Activation::kNone) return 4;
  if (s.input(3)) return 3;
  return s.in(1) == kI8 ? 2 : 1;
}

int resize_bilinear_version(const OperandTypes& s) {
  if (s.in(0) == kI16) return 4;
  if (s.options<core::ResizeOptions>().half_pixel_centers) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

int resize_nearest_version(const OperandTypes& s) {
  const auto& o = s.options<core::ResizeOptions>();
  if (s.in(0) == kI16) return 4;
  if (o.half_pixel_centers || o.align_corners) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

constexpr BuiltinForm kConvForms[] = {
    {Kind::kConv2d,
     conv_2d_options,
     conv_2d_version,
     {"1.5.0", "1.14.0", "1.14.0", "2.3.0", "2.4.0", "2.9.0", "2.11.0", "2.15.0"}},
    {Kind::kDepthwiseConv2d,
     depthwise_conv_2d_options,
     depthwise_conv_2d_version,
     {"1.5.0", "1.12.0", "1.14.0", "2.2.0", "2.3.0", "2.3.0", "2.11.0"}},
    {Kind::kTransposeConv,
     transpose_conv_options,
     transpose_conv_version,
     {"1.9.0", "2.2.0", "2.3.0", "2.13.0", "2.15.0"}},
    {Kind::kConv3d, conv_3d_options, kOneVersion, {"2.5.0"}},
    {Kind::kConv3dTranspose, conv_3d_options, kOneVersion, {"2.6.0"}},
    {Kind::kAveragePool2d, pool_options, by_type({{kI16, 3}, {kI8, 2}}), {"1.5.0", "1.14.0", "2.3.0"}},
    {Kind::kMaxPool2d, pool_options, by_type({{kI16, 3}, {kI8, 2}}), {"1.5.0", "1.14.0", "2.3.0"}},
    {Kind::kResizeBilinear, resize_bilinear_options, resize_bilinear_version, {"1.7.0", "1.14.0", "2.2.0", "2.5.0"}},
    {Kind::kResizeNearestNeighbor,
     resize_nearest_options,
     resize_nearest_version,
     {"1.13.1", "1.14.0", "2.3.0", "2.4.0"}},
    {Kind::kSpaceToDepth, space_to_depth_options, by_type({{kI8, 2}}), {"1.5.0", "1.14.0"}},
    {Kind::kDepthToSpace, depth_to_space_options, by_type({{kI8, 2}}), {"2.1.0", "2.5.0"}},
    {Kind::kLocalResponseNormalization, local_response_normalization_options, kOneVersion, {"1.5.0"}},
};

}  // namespace

std::span<const BuiltinForm> conv_forms() { return kConvForms; }

}  // namespace lowtide::emit
