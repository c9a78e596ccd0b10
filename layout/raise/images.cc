// SPDX-License-Identifier: Apache-2.0
// The image ops, which are in ONNX's axis order here (channels_first.h).
//
// The traps: SAME pads unevenly, the smaller half first, and by the size of the image; TRANSPOSE_CONV derives its pads
// from the shape of its result; average pools divide by the elements inside; a window's activation is part of the op.
// Source of the semantics: LiteRT's tflite/kernels (padding.h, transpose_conv.cc, resize_*.cc).
#include <fmt/format.h>

#include <algorithm>

#include "layout/raise/bilinear_16.h"
#include "layout/raise/families.h"
#include "layout/raise/nearest_places.h"
#include "layout/raise/raising.h"
#include "layout/raise/windows.h"

namespace lowtide::layout {
namespace {

using core::Padding;

Names with_bias(Raising& r, Names inputs, size_t data, size_t weights, size_t bias) {
  if (r.has(bias)) inputs.push_back(raised_bias(r, data, weights, bias));
  return inputs;
}

// Weights are [out, in / groups, spatial...].
void convolution(Raising& r, std::span<const int64_t> strides, std::span<const int64_t> dilations, Padding padding,
                 Activation activation) {
  need_scales_by_output(r, 1, 0);
  const Shape &image = r.in(0).shape, &weights = r.in(1).shape;
  std::vector<WindowSize> axes;
  for (size_t i = 0; i < strides.size(); ++i)
    axes.push_back(
        {image[i + 2], r.need_static(weights[i + 2], "the shape of the weights is"), strides[i], dilations[i]});
  Attributes attributes =
      window_attributes(axes, padding, WindowOf::kConvolution, r.onnx.model.from, r.joined_pads()).attributes;
  const int64_t channels = r.need_static(image[1], "the number of channels is");
  const int64_t in_group = r.need_static(weights[1], "the shape of the weights is");
  attributes.push_back(attribute("group", channels / in_group));
  r.give_activated(
      r.node("Conv", with_bias(r, {r.real(0), raised_weights(r, 1, r.in(0).dtype)}, 0, 1, 2), std::move(attributes)),
      activation);
}

void raise_conv_2d(Raising& r) {
  const auto& o = r.options<core::Conv2dOptions>();
  const int64_t strides[] = {o.stride_h, o.stride_w}, dilations[] = {o.dilation_h, o.dilation_w};
  convolution(r, strides, dilations, o.padding, o.activation);
}

void raise_conv_3d(Raising& r) {
  const auto& o = r.options<core::Conv3dOptions>();
  const int64_t strides[] = {o.stride_d, o.stride_h, o.stride_w};
  const int64_t dilations[] = {o.dilation_d, o.dilation_h, o.dilation_w};
  convolution(r, strides, dilations, o.padding, o.activation);
}

// An axis of a transposed convolution. Its pads are those of the convolution that would make the data of the result;
// what they leave over at the end is cut off, or added as zeros.
struct TransposedAxis {
  core::Dim size, made;
  int64_t filter, stride;
};

// Where both sizes are known, or the result has a known number of elements more than the image times the stride. The
// pads do not depend on the sizes then.
bool has_known_pads(core::Symbols& symbols, const TransposedAxis& axis) {
  return !core::is_symbol(symbols.sub(axis.made, symbols.mul(axis.size, axis.stride)));
}

void add_transposed_attributes(Raising& r, std::span<const TransposedAxis> axes, Padding padding,
                               Attributes& attributes) {
  constexpr int64_t kAnySize = 1 << 24;
  std::vector<int64_t> pads, after, extra;
  for (const TransposedAxis& axis : axes) {
    const bool is_open = core::is_symbol(axis.size);
    core::Symbols& symbols = r.graph.symbols;
    const int64_t size = is_open ? kAnySize : axis.size;
    const int64_t made =
        is_open ? size * axis.stride + symbols.sub(axis.made, symbols.mul(axis.size, axis.stride)) : axis.made;
    const WindowSize window{size, axis.filter, axis.stride, 1};
    const int64_t total = padding == Padding::kSame ? missing(ceil_of(made, axis.stride), window, made) : 0;
    const int64_t rest = axis.stride * (size - 1) + axis.filter - total / 2 - made;
    if (-rest >= axis.stride && rest < 0)
      r.unsupported(
          fmt::format("a result of {} elements from {} is larger than ONNX's ConvTranspose can make", made, size));
    pads.push_back(total / 2);
    after.push_back(std::max<int64_t>(0, rest));
    extra.push_back(std::max<int64_t>(0, -rest));
  }
  pads.insert(pads.end(), after.begin(), after.end());
  attributes.push_back(attribute("pads", pads));
  attributes.push_back(attribute("output_padding", extra));
}

// The part of `whole`, which has no pads, that the list of input 0 asks for. It may end behind it.
std::string computed_part(Raising& r, const std::string& whole, std::span<const TransposedAxis> axes, Padding padding) {
  const auto count = static_cast<int64_t>(axes.size());
  std::vector<int64_t> strides, filters, all_axes;
  for (const TransposedAxis& axis : axes) {
    strides.push_back(axis.stride);
    filters.push_back(axis.filter - axis.stride);
    all_axes.push_back(static_cast<int64_t>(all_axes.size() + 2));
  }
  const std::string made = r.node("Slice", {r.int64_input(0), r.int64_list({1}), r.int64_list({1 + count})});
  std::string begin = r.int64_list(std::vector<int64_t>(axes.size(), 0));
  const std::string zero = begin;
  if (padding == Padding::kSame) {
    // Of so many windows: (windows - 1) * stride + filter - made.
    std::vector<int64_t> almost = strides;
    for (int64_t& stride : almost) --stride;
    const std::string steps = r.int64_list(strides);
    const std::string windows = r.node("Div", {r.node("Add", {made, r.int64_list(almost)}), steps});
    const std::string reach = r.node("Add", {r.node("Mul", {windows, steps}), r.int64_list(filters)});
    const std::string total = r.node("Max", {r.node("Sub", {reach, made}), zero});
    begin = r.node("Div", {total, r.int64_list({2})});
  }
  const std::string end = r.node("Add", {begin, made});
  const std::string there = r.node("Shape", {whole}, {attribute("start", int64_t{2})});
  const std::string lacks = r.node("Max", {r.node("Sub", {end, there}), zero});
  const std::string pads = r.node("Concat", {r.int64_list(std::vector<int64_t>(axes.size() + 4, 0)), lacks},
                                  {attribute("axis", int64_t{0})});
  return r.node("Slice", {r.node("Pad", {whole, pads}), begin, end, r.int64_list(all_axes)});
}

// Input 0 is the shape of the result, which is that of the value.
void transposed_convolution(Raising& r, std::span<const int64_t> strides, Padding padding, Activation activation) {
  need_scales_by_output(r, 1, 1);
  const Shape &image = r.in(2).shape, &weights = r.in(1).shape, &result = r.out().shape;
  std::vector<TransposedAxis> axes;
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < strides.size(); ++i) {
    kernel.push_back(r.need_static(weights[i + 2], "the shape of the weights is"));
    axes.push_back({image[i + 2], result[i + 2], kernel.back(), strides[i]});
  }
  Attributes attributes = {attribute("kernel_shape", kernel),
                           attribute("strides", std::vector<int64_t>(strides.begin(), strides.end()))};
  const Names operands = {r.real(2), raised_weights(r, 1, r.in(2).dtype)};
  core::Symbols& symbols = r.graph.symbols;
  if (std::all_of(axes.begin(), axes.end(),
                  [&](const TransposedAxis& axis) { return has_known_pads(symbols, axis); })) {
    add_transposed_attributes(r, axes, padding, attributes);
    return r.give_activated(r.node("ConvTranspose", with_bias(r, operands, 2, 1, 3), std::move(attributes)),
                            activation);
  }
  // The bias is in what stands behind the images, too.
  std::string made = computed_part(r, r.node("ConvTranspose", operands, std::move(attributes)), axes, padding);
  if (r.has(3)) {
    std::vector<int64_t> places(strides.size(), 1);
    places.insert(places.begin(), -1);
    const Names bias = with_bias(r, {}, 2, 1, 3);
    made = r.node("Add", {made, r.node("Reshape", {bias[0], r.int64_list(places)})});
  }
  r.give_activated(made, activation);
}

void raise_transpose_conv(Raising& r) {
  const auto& o = r.options<core::TransposeConvOptions>();
  const int64_t strides[] = {o.stride_h, o.stride_w};
  transposed_convolution(r, strides, o.padding, o.activation);
}

void raise_conv_3d_transpose(Raising& r) {
  const auto& o = r.options<core::Conv3dOptions>();
  if (o.dilation_d != 1 || o.dilation_h != 1 || o.dilation_w != 1) r.unsupported("dilations, which LiteRT refuses");
  const int64_t strides[] = {o.stride_d, o.stride_h, o.stride_w};
  transposed_convolution(r, strides, o.padding, o.activation);
}

// Whether the data are a PAD's, in another order of axes perhaps.
bool is_padded(const Raising& r) {
  ValueId id = r.op.inputs[0];
  for (;;) {
    const core::OpId producer = r.graph.at(id).producer;
    if (producer < 0) return false;
    const core::Op& op = r.graph.op(producer);
    if (op.kind != Kind::kTranspose) return op.kind == Kind::kPad || op.kind == Kind::kPadv2;
    id = op.inputs[0];
  }
}

WindowAttributes pool_attributes(Raising& r) {
  const auto& o = r.options<core::PoolOptions>();
  const Shape& image = r.in(0).shape;
  const WindowSize axes[] = {{image[2], o.filter_h, o.stride_h, 1}, {image[3], o.filter_w, o.stride_w, 1}};
  WindowAttributes out = window_attributes(axes, o.padding, WindowOf::kPool, r.onnx.model.from, r.joined_pads());
  // ONNX Runtime makes a Pad with zeros the pads of the pool behind it, whatever the pool is (pad_fusion.cc): a maximum
  // would lose the zeros, an average would not count them, and pads as large as the window would be refused. It leaves
  // pools with auto_pad alone.
  if (o.padding == Padding::kValid && !r.joined_pads() && is_padded(r))
    out.attributes.push_back(attribute("auto_pad", std::string_view("VALID")));
  return out;
}

// Elements that a node only chooses from, in a type for which ONNX Runtime has a kernel: as they are stored, in a wider
// type that holds them exactly, or as numbers.
enum class Form : uint8_t { kStored, kWide, kReal };
struct Choice {
  std::string from;
  Form form;
};
Choice choice(Raising& r, std::span<const DType> types, DType wide, std::span<const DType> narrow) {
  if (r.moves_stored(types)) return {r.stored(0), Form::kStored};
  const core::Value& image = r.in(0);
  if (image.quantization || stream::is_float(image.dtype)) return {r.real(0), Form::kReal};
  if (!r.moves_stored(narrow)) r.unsupported(fmt::format("{} without a scale", stream::dtype_name(image.dtype)));
  return {r.cast(r.stored(0), wide), Form::kWide};
}
void give_chosen(Raising& r, const Choice& choice, const std::string& name) {
  if (choice.form == Form::kReal) return r.give(name);
  r.give_stored(choice.form == Form::kWide ? r.cast(name, r.out().dtype) : name);
}

void raise_average_pool(Raising& r) {
  WindowAttributes window = pool_attributes(r);
  if (r.joined_pads())
    window.attributes.push_back(attribute("count_include_pad", int64_t{1}));
  else if (window.has_pads)
    window.attributes.push_back(attribute("count_include_pad", int64_t{0}));
  r.give_activated(r.node("AveragePool", {r.real(0)}, std::move(window.attributes)),
                   r.options<core::PoolOptions>().activation);
}

void raise_max_pool(Raising& r) {
  Attributes attributes = pool_attributes(r).attributes;
  const Activation activation = r.options<core::PoolOptions>().activation;
  constexpr DType kTypes[] = {DType::kFloat32, DType::kInt8, DType::kUint8};
  constexpr DType kNarrow[] = {DType::kInt16, DType::kUint16};
  if (activation == Activation::kNone && !r.is_quantized()) {
    const Choice image = choice(r, kTypes, DType::kFloat32, kNarrow);
    return give_chosen(r, image, r.node("MaxPool", {image.from}, std::move(attributes)));
  }
  r.give_activated(r.node("MaxPool", {r.real(0)}, std::move(attributes)), activation);
}

// Inputs of Resize: the image, no region, no scales, the sizes.
Names resize_inputs(Raising& r, const std::string& image) {
  const Shape& shape = r.out().shape;
  if (stream::is_static(shape)) return {image, "", "", r.int64_list(shape)};
  const std::string all = r.node("Shape", {image});
  const std::string front = r.node("Slice", {all, r.int64_list({0}), r.int64_list({2})});
  return {image, "", "", r.node("Concat", {front, r.int64_input(1)}, {attribute("axis", int64_t{0})})};
}

Coordinates coordinates(Raising& r) {
  const auto& o = r.options<core::ResizeOptions>();
  if (o.align_corners && o.half_pixel_centers) r.unsupported("align_corners and half_pixel_centers are both set");
  return o.align_corners        ? Coordinates::kAlignCorners
         : o.half_pixel_centers ? Coordinates::kHalfPixel
                                : Coordinates::kAsymmetric;
}

void raise_resize_bilinear(Raising& r) {
  const Coordinates mode = coordinates(r);
  const Shape &image = r.in(0).shape, &result = r.out().shape;
  const auto is_exact = [&](size_t axis) { return has_exact_places(r.graph.symbols, mode, image[axis], result[axis]); };
  if (r.in(0).dtype == DType::kInt16 && (!is_exact(2) || !is_exact(3))) return raise_bilinear_16(r, mode);
  r.give(r.node(
      "Resize", resize_inputs(r, r.real(0)),
      {attribute("mode", std::string_view("linear")), attribute("coordinate_transformation_mode", name_of(mode))}));
}

// Rows and columns are looked up where Resize would take others, or has no kernel.
void raise_resize_nearest(Raising& r) {
  const Coordinates mode = coordinates(r);
  const Shape &image = r.in(0).shape, &result = r.out().shape;
  constexpr DType kWide[] = {DType::kUint32, DType::kInt64};
  bool is_resize = !r.moves_stored(kWide);
  std::vector<NearestAxis> axes;
  for (size_t axis = 2; axis < image.size(); ++axis) {
    if (image[axis] == 0 && result[axis] != 0) r.unsupported("an image without rows or columns");
    axes.push_back({mode, stream::bits(r.in(0).dtype) == 8, image[axis], result[axis]});
    is_resize = is_resize && resize_takes_the_same(r.graph.symbols, axes.back());
  }
  if (is_resize) {
    const Attributes attributes = {
        attribute("mode", std::string_view("nearest")), attribute("coordinate_transformation_mode", name_of(mode)),
        attribute("nearest_mode", std::string_view(mode == Coordinates::kAsymmetric ? "floor" : "round_prefer_ceil"))};
    constexpr DType kTypes[] = {DType::kFloat32, DType::kInt8, DType::kUint8, DType::kInt32};
    constexpr DType kNarrow[] = {DType::kInt16, DType::kUint16, DType::kBool};
    const Choice from = choice(r, kTypes, DType::kInt32, kNarrow);
    return give_chosen(r, from, r.node("Resize", resize_inputs(r, from.from), attributes));
  }
  std::string made = r.data(0);
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].from != axes[i].to)
      made =
          r.node("Gather", {made, nearest_places(r, axes[i], i + 2)}, {attribute("axis", static_cast<int64_t>(i + 2))});
  r.give_data(made);
}

// ONNX Runtime's kernels of these take floats and 8 bits.
bool moves_as_blocks(Raising& r) {
  const core::Value& image = r.in(0);
  return !image.quantization && !stream::is_float(image.dtype) && image.dtype != DType::kInt8 &&
         image.dtype != DType::kUint8;
}

// The blocks' axes [N, channels, blocks, place in the block, blocks, place] are exchanged.
void move_blocks(Raising& r, const Shape& apart, std::vector<int64_t> perm) {
  const std::string split = r.reshaped(r.stored(0), apart);
  r.give_stored(r.reshaped(r.node("Transpose", {split}, {attribute("perm", std::move(perm))}), r.out().shape));
}

void raise_space_to_depth(Raising& r) {
  const int64_t block = r.options<core::BlockOptions>().block_size;
  const Shape& deep = r.out().shape;
  if (moves_as_blocks(r))
    return move_blocks(r, {deep[0], r.in(0).shape[1], deep[2], block, deep[3], block}, {0, 3, 5, 1, 2, 4});
  r.give(r.node("SpaceToDepth", {r.real(0)}, {attribute("blocksize", block)}));
}
void raise_depth_to_space(Raising& r) {
  const int64_t block = r.options<core::BlockOptions>().block_size;
  const Shape& deep = r.in(0).shape;
  if (moves_as_blocks(r))
    return move_blocks(r, {deep[0], block, block, r.out().shape[1], deep[2], deep[3]}, {0, 3, 4, 1, 5, 2});
  r.give(
      r.node("DepthToSpace", {r.real(0)}, {attribute("blocksize", block), attribute("mode", std::string_view("DCR"))}));
}

// ONNX divides alpha by the size of the window, TFLite does not.
void raise_lrn(Raising& r) {
  const auto& o = r.options<core::LrnOptions>();
  constexpr int kMostRadius = 1 << 20;
  if (o.radius < 0 || o.radius > kMostRadius) r.unsupported(fmt::format("radius {} is not supported", o.radius));
  const int64_t size = 2 * int64_t{o.radius} + 1;
  r.give(r.node("LRN", {r.real(0)},
                {attribute("size", size), attribute("alpha", o.alpha * static_cast<float>(size)),
                 attribute("beta", o.beta), attribute("bias", o.bias)}));
}

constexpr RaiseRow kImages[] = {
    {Kind::kConv2d, 2, 3, raise_conv_2d, Takes::kReals},
    {Kind::kDepthwiseConv2d, 2, 3, raise_conv_2d, Takes::kReals},
    {Kind::kConv3d, 2, 3, raise_conv_3d, Takes::kReals},
    {Kind::kConv3dTranspose, 3, 4, raise_conv_3d_transpose, Takes::kReals},
    {Kind::kTransposeConv, 3, 4, raise_transpose_conv, Takes::kReals},
    {Kind::kAveragePool2d, 1, 1, raise_average_pool, Takes::kReals},
    {Kind::kMaxPool2d, 1, 1, raise_max_pool},
    {Kind::kResizeBilinear, 2, 2, raise_resize_bilinear, Takes::kReals},
    {Kind::kResizeNearestNeighbor, 2, 2, raise_resize_nearest},
    {Kind::kSpaceToDepth, 1, 1, raise_space_to_depth},
    {Kind::kDepthToSpace, 1, 1, raise_depth_to_space},
    {Kind::kLocalResponseNormalization, 1, 1, raise_lrn, Takes::kReals},
};

}  // namespace

std::span<const RaiseRow> raised_images() { return kImages; }

void need_scales_by_output(Raising& r, size_t weights, int64_t axis) {
  const auto& w = r.in(weights).quantization;
  if (!w || w->scale.size() <= 1 || w->axis == axis) return;
  r.unsupported("weights with scales along another axis than that of the output channels, for which LiteRT takes them",
                "quantize the weights along their output channels");
}

StoredNumbers stored_weights(Raising& r, size_t weights, DType data) {
  const core::Value& value = r.in(weights);
  StoredNumbers out{{}, value.dtype, *value.quantization};
  // The kernel of CONV_2D reads them as floats; other kernels refuse them.
  const bool has_kernel_of_2_bits = r.kind() == Kind::kFullyConnected || r.kind() == Kind::kEmbeddingLookup;
  if (stream::bits(value.dtype) == 2 && !has_kernel_of_2_bits)
    r.unsupported("float data and weights of 2 bits, for which LiteRT has no kernel");
  if (stream::is_float(data)) {
    std::fill(out.quantization.zero_point.begin(), out.quantization.zero_point.end(), 0);
    if (value.dtype == DType::kUint8) out.dtype = DType::kInt8;
  }
  if (out.dtype == value.dtype)
    out.name = r.stored(weights);
  else if (r.kind() != Kind::kConv2d && r.kind() != Kind::kFullyConnected && r.kind() != Kind::kEmbeddingLookup)
    r.unsupported("float data and u8 weights, for which LiteRT has no kernel");
  else if (r.kind() == Kind::kConv2d && out.quantization.scale.size() > 1)
    r.unsupported("float data and u8 weights with several scales, of which LiteRT's kernel takes the first");
  else if (value.is_constant())
    out.name = r.onnx.initializer(stream::recipe::cast(value.constant, out.dtype), value.name);
  else
    out.name = r.cast(r.stored(weights), out.dtype);
  return out;
}

std::string raised_weights(Raising& r, size_t weights, DType data) {
  const std::optional<core::Quantization>& scales = r.in(weights).quantization;
  if (!scales || !stream::is_float(data)) return r.real(weights);
  const StoredNumbers made = stored_weights(r, weights, data);
  if (made.dtype == r.in(weights).dtype && made.quantization == *scales) return r.real(weights);
  return r.onnx.dequantized(made.name, made.quantization, made.dtype, false);
}

std::string raised_bias(Raising& r, size_t data, size_t weights, size_t bias) {
  const core::Value& value = r.in(bias);
  if (!stream::is_integer(value.dtype)) return r.real(bias);
  const auto &x = r.in(data).quantization, &w = r.in(weights).quantization;
  if (!x || !w || x->scale.size() != 1) r.unsupported("an integer bias with data or weights that have no scale");
  core::Quantization product{.scale = w->scale, .zero_point = {}, .axis = 0};
  for (float& scale : product.scale) scale *= x->scale[0];
  if (value.rank() != 1) r.unsupported("an integer bias whose rank is not 1");
  if (product.scale.size() > 1 && static_cast<core::Dim>(product.scale.size()) != value.shape[0])
    r.unsupported(fmt::format("{} scales for {} elements of the bias", product.scale.size(), value.shape[0]));
  if (value.dtype == DType::kInt32) return r.onnx.dequantized(r.stored(bias), product, value.dtype, true);
  // DequantizeLinear takes integers up to 32 bits.
  if (!value.is_constant()) r.unsupported("a bias of 64 bits that is computed at run time");
  namespace recipe = stream::recipe;
  Shape shape;
  if (product.scale.size() > 1) shape.push_back(value.shape[0]);
  const stream::RecipeRef scales = recipe::cast(recipe::floats(product.scale, std::move(shape)), DType::kFloat64);
  const stream::RecipeRef numbers =
      recipe::binary(stream::Binary::kMul, recipe::cast(value.constant, DType::kFloat64), scales);
  return r.onnx.initializer(recipe::cast(numbers, DType::kFloat32), value.name);
}

}  // namespace lowtide::layout
