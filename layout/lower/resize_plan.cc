// SPDX-License-Identifier: Apache-2.0
// See resize_plan.h. Sources: ONNX's Resize (10, 11, 13, 18, 19) and Upsample (1, 7, 9); ONNX Runtime's rounding.
#include "layout/lower/resize_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/lower/attributes.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

Interpolation read_interpolation(Lowering& lo) {
  const std::string mode = lo.attr_s("mode", "nearest");
  if (mode == "nearest") return Interpolation::kNearest;
  if (mode == "linear" || mode == "bilinear" || mode == "trilinear") return Interpolation::kLinear;
  if (mode == "cubic") return Interpolation::kCubic;
  lo.malformed(fmt::format("attribute 'mode' has the unknown value '{}'", mode));
}

Transform read_transform(Lowering& lo) {
  static constexpr std::pair<const char*, Transform> kNames[] = {
      {"half_pixel", Transform::kHalfPixel},
      {"half_pixel_symmetric", Transform::kHalfPixelSymmetric},
      {"pytorch_half_pixel", Transform::kPytorchHalfPixel},
      {"align_corners", Transform::kAlignCorners},
      {"asymmetric", Transform::kAsymmetric},
      {"tf_half_pixel_for_nn", Transform::kTfHalfPixelForNn},
      {"tf_crop_and_resize", Transform::kTfCropAndResize}};
  const std::string text = lo.attr_s("coordinate_transformation_mode", "half_pixel");
  for (const auto& [name, transform] : kNames)
    if (text == name) return transform;
  lo.malformed(fmt::format("attribute 'coordinate_transformation_mode' has the unknown value '{}'", text));
}

NearestMode read_nearest(Lowering& lo) {
  static constexpr std::pair<const char*, NearestMode> kNames[] = {
      {"round_prefer_floor", NearestMode::kRoundPreferFloor},
      {"round_prefer_ceil", NearestMode::kRoundPreferCeil},
      {"floor", NearestMode::kFloor},
      {"ceil", NearestMode::kCeil}};
  const std::string text = lo.attr_s("nearest_mode", "round_prefer_floor");
  for (const auto& [name, mode] : kNames)
    if (text == name) return mode;
  lo.malformed(fmt::format("attribute 'nearest_mode' has the unknown value '{}'", text));
}

bool given(Lowering& lo, size_t i) {
  return lo.has_input(i) && !(lo.rank(lo.input(i)) == 1 && lo.b.dim(lo.input(i), 0) == 0);
}

// Whether the product of a dynamic extent and a scale, rounded down, is a formula: of a whole number or a power of two.
// That of any other is rounded to f32 first.
bool is_formula(double scale) {
  int exponent;
  return scale == std::floor(scale) || std::frexp(scale, &exponent) == 0.5;
}

// The scale is used as given; the output size is its product with the input size, rounded down.
void set_scale(Lowering& lo, ResizeAxis& axis, double scale) {
  if (!(scale > 0) || !std::isfinite(scale))
    lo.malformed(fmt::format("scales must be positive and finite; one is {}", scale));
  axis.scale = static_cast<float>(scale);
  axis.from_scale = true;
  core::Symbols& symbols = lo.b.graph.symbols;
  if (!core::is_symbol(axis.in)) {
    const float out = axis.scale * static_cast<float>(axis.in);
    if (!(out < 0x1p31f)) lo.malformed(fmt::format("scale {} makes an axis of {} elements too large", scale, axis.in));
    axis.out = static_cast<int64_t>(out);
  } else if (is_formula(scale) && scale >= 1 && scale < 0x1p31) {
    axis.out = symbols.mul(axis.in, static_cast<int64_t>(scale));
  } else if (int part; is_formula(scale) && std::frexp(scale, &part) == 0.5) {
    axis.out = symbols.floor_div(axis.in, int64_t{1} << std::clamp(1 - part, 0, 31));
  } else {
    lo.need_static(axis.in, "the size of an axis with a fractional scale");
  }
  axis.changes = scale != 1;
}

void set_size(Lowering& lo, ResizeAxis& axis, Dim size) {
  if (!core::is_symbol(size) && size < 0) lo.malformed(fmt::format("sizes must not be negative; one is {}", size));
  axis.out = size;
  axis.changes = axis.in != axis.out;
  if (axis.known() && axis.in > 0) axis.scale = static_cast<float>(axis.out) / static_cast<float>(axis.in);
}

// The scale that keeps the aspect ratio, for all axes.
void keep_aspect(Lowering& lo, ResizePlan& plan, const std::vector<int>& axes, const std::string& policy) {
  if (policy == "stretch" || axes.empty()) return;
  if (policy != "not_larger" && policy != "not_smaller")
    lo.malformed(fmt::format("attribute 'keep_aspect_ratio_policy' has the unknown value '{}'", policy));
  std::vector<float> scales;
  for (int i : axes) {
    ResizeAxis& axis = plan.axes[static_cast<size_t>(i)];
    lo.need_static(axis.in, "the size of an axis with a keep_aspect_ratio_policy");
    lo.need_static(axis.out, "the size of an axis with a keep_aspect_ratio_policy");
    scales.push_back(axis.scale);
  }
  const float scale = policy == "not_larger" ? *std::min_element(scales.begin(), scales.end())
                                             : *std::max_element(scales.begin(), scales.end());
  for (int i : axes) {
    ResizeAxis& axis = plan.axes[static_cast<size_t>(i)];
    const float wanted = std::round(scale * static_cast<float>(axis.in));
    if (!(wanted >= 0 && wanted < 0x1p31F))  // also so that it fits an int64_t
      lo.unsupported(fmt::format("resizing an axis of {} to {} elements is not supported", axis.in, wanted));
    axis.scale = scale;
    axis.out = static_cast<int64_t>(wanted);
    axis.from_scale = true;
    axis.changes = scale != 1;
  }
}

void read_roi(Lowering& lo, ResizePlan& plan, const std::vector<int>& axes) {
  const std::vector<double> roi = lo.need_numbers(lo.input(1), "roi");
  if (roi.size() != 2 * axes.size())
    lo.malformed(fmt::format("input 'roi' must have {} elements; it has {}", 2 * axes.size(), roi.size()));
  for (double number : roi)
    if (!std::isfinite(static_cast<float>(number))) lo.malformed("input 'roi' must be finite, as 32-bit floats too");
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& axis = plan.axes[static_cast<size_t>(axes[i])];
    axis.roi_start = static_cast<float>(roi[i]);
    axis.roi_end = static_cast<float>(roi[axes.size() + i]);
    axis.changes |= axis.roi_start != 0 || axis.roi_end != 1;
  }
}

void set_scales(Lowering& lo, ResizePlan& plan, const std::vector<int>& axes, const std::vector<double>& scales) {
  if (scales.size() != axes.size())
    lo.malformed(
        fmt::format("'scales' must have {} elements, one for each axis; it has {}", axes.size(), scales.size()));
  for (size_t i = 0; i < axes.size(); ++i) set_scale(lo, plan.axes[static_cast<size_t>(axes[i])], scales[i]);
}

ResizePlan start_plan(Lowering& lo, Val x) {
  ResizePlan plan;
  plan.how.interpolation = read_interpolation(lo);
  for (Dim dim : lo.shape(x)) plan.axes.push_back({.in = dim, .out = dim});
  return plan;
}

// What the attributes say, and which inputs there are.
ResizeOperands read_resize_attributes(Lowering& lo, Val x) {
  ResizeOperands out;
  out.how.interpolation = read_interpolation(lo);
  out.axes = axes_from(0, lo.rank(x));
  if (lo.opset() < 11) {
    out.how.transform = Transform::kAsymmetric;
    out.how.nearest = NearestMode::kSimple;
    out.scales = lo.input(1);
    return out;
  }
  out.how.transform = read_transform(lo);
  out.how.nearest = read_nearest(lo);
  out.how.cubic_a = lo.attr_f("cubic_coeff_a", -0.75f);
  out.how.exclude_outside = lo.attr_i("exclude_outside", 0) != 0;
  out.extrapolation = lo.attr_f("extrapolation_value", 0);
  if (!stream::is_float(lo.dtype(lo.input(0)))) {  // ONNX Runtime casts it to the data's type
    if (!std::isfinite(out.extrapolation))
      lo.unsupported(fmt::format("'extrapolation_value' {} of integers is not supported", out.extrapolation));
    out.extrapolation = std::trunc(out.extrapolation);
  }
  if (lo.opset() >= 18) {
    out.how.antialias = lo.attr_i("antialias", 0) != 0;
    out.policy = lo.attr_s("keep_aspect_ratio_policy", out.policy);
    if (auto some = lo.attr_ints("axes")) out.axes = lo.axes(*some, lo.rank(x));
  }
  const bool scales = given(lo, 2), sizes = given(lo, 3);
  if (scales == sizes) lo.malformed("exactly one of the inputs 'scales' and 'sizes' must be given");
  (scales ? out.scales : out.sizes) = lo.input(scales ? 2 : 3);
  if (out.how.transform == Transform::kTfCropAndResize) out.roi = lo.input(1);
  return out;
}

// The scales are known, and with them the sizes of the result.
bool gives_sizes(Lowering& lo, Val x, const ResizeOperands& operands) {
  const auto scales = lo.numbers(operands.scales);
  if (!scales) return false;
  if (scales->size() != operands.axes.size() || operands.how.antialias) return true;  // refused later
  for (size_t i = 0; i < scales->size(); ++i)
    if (core::is_symbol(lo.b.dim(x, operands.axes[i])) && !is_formula((*scales)[i])) return false;
  return true;
}

// Whether the region of a resized or cropped axis depends on an extent that is known at run time only. `operands` are
// known.
bool crops_open_axis(Lowering& lo, Val x, const ResizeOperands& operands) {
  if (!operands.roi) return false;
  const std::vector<double> roi = *lo.numbers(operands.roi);
  const size_t count = operands.axes.size();
  const auto scales = operands.scales ? lo.numbers(operands.scales) : std::nullopt;
  const auto sizes = operands.sizes ? lo.dims(operands.sizes) : std::nullopt;
  if (roi.size() != 2 * count || (scales ? scales->size() : sizes->size()) != count) return false;  // refused later
  for (size_t i = 0; i < count; ++i) {
    const Dim extent = lo.b.dim(x, operands.axes[i]);
    const bool stays = scales ? (*scales)[i] == 1 : (*sizes)[i] == extent;
    if (core::is_symbol(extent) && !(stays && roi[i] == 0 && roi[count + i] == 1)) return true;
  }
  return false;
}

// A list that is computed at run time. The standard wants one axis, ONNX Runtime (1.31) takes any shape of that many
// elements.
Val listed_operand(Lowering& lo, Val list, const char* name, size_t elements) {
  if (!list) return list;
  const auto count = static_cast<Dim>(elements);
  const Shape& shape = lo.shape(list);
  const bool fits = stream::is_static(shape) ? stream::element_count(shape) == elements
                                             : shape.size() != 1 || !known_to_differ(shape[0], count);
  if (!fits)
    lo.malformed(
        fmt::format("'{}' must be a list of {} elements; its shape is {}", name, elements, stream::to_string(shape)));
  return shape.size() == 1 ? list : lo.b.reshape(list, {count});
}

}  // namespace

std::optional<ResizeOperands> read_resize_operands(Lowering& lo, Val x) {
  ResizeOperands out = read_resize_attributes(lo, x);
  const bool is_known = (!out.scales || gives_sizes(lo, x, out)) && (!out.sizes || lo.dims(out.sizes)) &&
                        (!out.roi || lo.numbers(out.roi));
  if (is_known && !crops_open_axis(lo, x, out)) return std::nullopt;
  if (out.policy != "stretch" && out.policy != "not_larger" && out.policy != "not_smaller")
    lo.malformed(fmt::format("attribute 'keep_aspect_ratio_policy' has the unknown value '{}'", out.policy));
  out.scales = listed_operand(lo, out.scales, "scales", out.axes.size());
  out.sizes = listed_operand(lo, out.sizes, "sizes", out.axes.size());
  out.roi = listed_operand(lo, out.roi, "roi", 2 * out.axes.size());
  return out;
}

std::optional<ResizeOperands> read_upsample_operands(Lowering& lo, Val x) {
  if (lo.opset() < 9) return std::nullopt;
  ResizeOperands out;
  out.how.interpolation = read_interpolation(lo);
  out.how.transform = Transform::kAsymmetric;
  out.how.nearest = NearestMode::kSimple;
  out.axes = axes_from(0, lo.rank(x));
  out.scales = lo.input(1);
  if (gives_sizes(lo, x, out)) return std::nullopt;
  out.scales = listed_operand(lo, out.scales, "scales", out.axes.size());
  return out;
}

ResizePlan read_resize(Lowering& lo, Val x) {
  ResizePlan plan = start_plan(lo, x);
  const ResizeOperands operands = read_resize_attributes(lo, x);
  const std::vector<int>& axes = operands.axes;
  plan.how = operands.how;
  plan.extrapolation = operands.extrapolation;
  if (lo.opset() < 11) {
    set_scales(lo, plan, axes, lo.need_numbers(operands.scales, "scales"));
    return plan;
  }
  if (operands.scales) {
    set_scales(lo, plan, axes, lo.need_numbers(operands.scales, "scales"));
  } else {
    const std::vector<Dim> wanted = lo.need_dims(operands.sizes, "sizes");
    if (wanted.size() != axes.size())
      lo.malformed(
          fmt::format("'sizes' must have {} elements, one for each axis; it has {}", axes.size(), wanted.size()));
    for (size_t i = 0; i < axes.size(); ++i) set_size(lo, plan.axes[static_cast<size_t>(axes[i])], wanted[i]);
    keep_aspect(lo, plan, axes, operands.policy);
  }
  if (plan.how.transform == Transform::kTfCropAndResize) read_roi(lo, plan, axes);
  return plan;
}

// The scales are attributes for height and width in version 1, a list attribute in version 7, an input in version 9.
ResizePlan read_upsample(Lowering& lo, Val x) {
  ResizePlan plan = start_plan(lo, x);
  plan.how.transform = Transform::kAsymmetric;
  plan.how.nearest = NearestMode::kSimple;
  std::vector<double> scales;
  if (lo.opset() >= 9) {
    scales = lo.need_numbers(lo.input(1), "scales");
  } else if (lo.opset() >= 7) {
    const std::vector<float> listed = lo.attr_floats("scales").value_or(std::vector<float>());
    scales.assign(listed.begin(), listed.end());
  } else {
    if (lo.rank(x) != 4) lo.malformed(fmt::format("the input must have rank 4; it has rank {}", lo.rank(x)));
    scales = {1, 1, lo.attr_f("height_scale", 0), lo.attr_f("width_scale", 0)};
  }
  set_scales(lo, plan, axes_from(0, lo.rank(x)), scales);
  return plan;
}

}  // namespace lowtide::layout
