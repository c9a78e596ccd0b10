// SPDX-License-Identifier: Apache-2.0
// Adds core ops to a graph. Shapes and dtypes are inferred as ops are added, ops on constants become recipes, and ops
// that do nothing (a reshape to the same shape, an identity transpose) are not added. So Shape -> Gather -> Concat ->
// Reshape chains vanish, and a lowering needs no shape rules.
//
// Functions have the names of TFLite's builtins and their semantics (NHWC convolutions; LiteRT's kernels are the
// source). All throw stream::Error(kMalformed) when shapes or dtypes do not fit.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::core {

// A value in the graph under construction. Default: absent (an optional input that is not given).
struct Val {
  ValueId id = kAbsent;
  explicit operator bool() const { return id != kAbsent; }
  bool operator==(const Val&) const = default;
};

// Thrown where the dtype, shape or contents of a value of dtype kUndefined are asked for: it stands for the result of a
// node that was not lowered, so that nothing can be said of ops that use it. No stream::Error: it never leaves the
// lowering of a graph.
struct UnknownType {};

class Builder {
 public:
  explicit Builder(Graph& target) : graph(target) {}
  Graph& graph;
  uint32_t origin = 0;  // given to the ops that follow: index into graph.origins
  // The op that is rewritten, or -1: nothing that is built may need its results, as it will stand in its place.
  OpId built_for = -1;
  std::unordered_map<Dim, ValueId> computed_dims;  // from the graph's inputs, by run_time_dim
  // How many more results of ops may be added; beyond that, ops() and split() throw Unsupported.
  size_t ops_left = SIZE_MAX;

  // ---- what is known of a value ----
  // All throw UnknownType for a value of dtype kUndefined, as do the functions that add ops.
  const Shape& shape(Val v) const { return known(v).shape; }
  DType dtype(Val v) const { return known(v).dtype; }
  int rank(Val v) const { return known(v).rank(); }
  Dim dim(Val v, int axis) const;  // negative axes count from the end
  bool is_constant(Val v) const { return known(v).is_constant(); }
  const Value& known(Val v) const {
    const Value& value = graph.at(v.id);
    if (value.dtype == DType::kUndefined) throw UnknownType{};
    return value;
  }

  // A sequence of these (Kind::kTensorList).
  Val tensor_list(std::span<const Val> elements);
  bool is_tensor_list(Val v) const;

  // Whether an op of this kind moves the elements of `x` without the loss of bits: its kernel keeps them
  // (kernel_limits.h), or they are f64 that legalise computes in f32, so that there are no more bits.
  bool moves_exactly(Kind kind, Val x) const;

  // ---- constants ----
  Val constant(RecipeRef recipe, std::string name = {}) {
    return {graph.add_constant(std::move(recipe), std::move(name))};
  }
  Val scalar(double value, DType dtype);  // rank 0; throws when an integer dtype cannot hold it
  Val scalar_like(double value, Val like) { return scalar(value, dtype(like)); }
  Val filled(double value, DType dtype, Shape shape);  // any static shape: a recipe
  Val i32(std::span<const int64_t> elements);          // rank 1; short ones that are equal are one value
  Val i32(std::initializer_list<int64_t> elements) { return i32({elements.begin(), elements.size()}); }
  Val i32_scalar(int64_t value);
  // A rank-1 i32 (or given dtype) tensor of dimensions: a constant when all are static, else computed from the SHAPE of
  // a value that has the symbol. Throws Unsupported when a symbol cannot be computed at run time.
  // Symbols that the graph's inputs do not tell are taken from the shape of `of`, where it has them.
  Val dims(std::span<const Dim> dims, DType dtype = DType::kInt32, Val of = {});

  // ---- any builtin ----
  std::vector<Val> ops(Kind kind, std::initializer_list<Val> inputs, Options options, int output_count);
  std::vector<Val> ops(Kind kind, std::span<const Val> inputs, Options options, int output_count);
  Val op(Kind kind, std::initializer_list<Val> inputs, Options options = {}) {
    return ops(kind, inputs, std::move(options), 1)[0];
  }
  Val op(Kind kind, std::span<const Val> inputs, Options options = {}) {
    return ops(kind, inputs, std::move(options), 1)[0];
  }

  // ---- elementwise, unary ----
  Val abs(Val x) { return op(Kind::kAbs, {x}); }
  Val neg(Val x) { return op(Kind::kNeg, {x}); }
  Val exp(Val x) { return op(Kind::kExp, {x}); }
  Val log(Val x) { return op(Kind::kLog, {x}); }
  Val sqrt(Val x) { return op(Kind::kSqrt, {x}); }
  Val rsqrt(Val x) { return op(Kind::kRsqrt, {x}); }
  Val square(Val x) { return op(Kind::kSquare, {x}); }
  Val sin(Val x) { return op(Kind::kSin, {x}); }
  Val cos(Val x) { return op(Kind::kCos, {x}); }
  Val tanh(Val x) { return op(Kind::kTanh, {x}); }
  Val logistic(Val x) { return op(Kind::kLogistic, {x}); }
  Val floor(Val x) { return op(Kind::kFloor, {x}); }
  Val ceil(Val x) { return op(Kind::kCeil, {x}); }
  Val round(Val x) { return op(Kind::kRound, {x}); }  // half to even
  Val sign(Val x) { return op(Kind::kSign, {x}); }
  Val relu(Val x) { return op(Kind::kRelu, {x}); }
  Val relu6(Val x) { return op(Kind::kRelu6, {x}); }
  Val relu_n1_to_1(Val x) { return op(Kind::kReluN1To1, {x}); }
  Val relu_0_to_1(Val x) { return op(Kind::kRelu0To1, {x}); }
  Val elu(Val x) { return op(Kind::kElu, {x}); }  // alpha 1
  Val leaky_relu(Val x, float alpha) { return op(Kind::kLeakyRelu, {x}, LeakyReluOptions{alpha}); }
  Val prelu(Val x, Val alpha) { return op(Kind::kPrelu, {x, alpha}); }
  Val hard_swish(Val x) { return op(Kind::kHardSwish, {x}); }
  Val gelu(Val x, bool approximate) { return op(Kind::kGelu, {x}, GeluOptions{approximate}); }
  Val logical_not(Val x) { return op(Kind::kLogicalNot, {x}); }
  Val cast(Val x, DType to);  // TFLite's CAST; nothing when the dtype is the same
  // ---- elementwise, binary: two-way broadcasting ----
  Val add(Val a, Val b) { return op(Kind::kAdd, {a, b}, BinaryOptions{}); }
  Val sub(Val a, Val b) { return op(Kind::kSub, {a, b}, BinaryOptions{}); }
  Val mul(Val a, Val b) { return op(Kind::kMul, {a, b}, BinaryOptions{}); }
  Val div(Val a, Val b) { return op(Kind::kDiv, {a, b}, BinaryOptions{}); }
  Val add(Val a, double b) { return add(a, scalar_like(b, a)); }
  Val sub(Val a, double b) { return sub(a, scalar_like(b, a)); }
  Val mul(Val a, double b) { return mul(a, scalar_like(b, a)); }
  Val div(Val a, double b) { return div(a, scalar_like(b, a)); }
  Val floor_div(Val a, Val b) { return op(Kind::kFloorDiv, {a, b}); }
  Val floor_mod(Val a, Val b) { return op(Kind::kFloorMod, {a, b}); }
  Val pow(Val a, Val b) { return op(Kind::kPow, {a, b}); }
  Val maximum(Val a, Val b) { return op(Kind::kMaximum, {a, b}); }
  Val minimum(Val a, Val b) { return op(Kind::kMinimum, {a, b}); }
  Val atan2(Val a, Val b) { return op(Kind::kAtan2, {a, b}); }
  Val equal(Val a, Val b) { return op(Kind::kEqual, {a, b}); }
  Val not_equal(Val a, Val b) { return op(Kind::kNotEqual, {a, b}); }
  Val less(Val a, Val b) { return op(Kind::kLess, {a, b}); }
  Val less_equal(Val a, Val b) { return op(Kind::kLessEqual, {a, b}); }
  Val greater(Val a, Val b) { return op(Kind::kGreater, {a, b}); }
  Val greater_equal(Val a, Val b) { return op(Kind::kGreaterEqual, {a, b}); }
  Val logical_and(Val a, Val b) { return op(Kind::kLogicalAnd, {a, b}); }
  Val logical_or(Val a, Val b) { return op(Kind::kLogicalOr, {a, b}); }
  Val bitwise_xor(Val a, Val b) { return op(Kind::kBitwiseXor, {a, b}); }
  Val right_shift(Val a, Val b) { return op(Kind::kRightShift, {a, b}); }
  Val select(Val condition, Val yes, Val no) { return op(Kind::kSelectV2, {condition, yes, no}); }

  // ---- shape ----
  // Symbols allowed; nothing when the shape is the same. Integers with one scale for all keep it.
  Val reshape(Val x, std::span<const Dim> shape);
  Val reshape(Val x, std::initializer_list<Dim> shape) {
    return reshape(x, std::span<const Dim>(shape.begin(), shape.size()));
  }
  Val transpose(Val x, const Perm& perm);  // two in a row become one; constants become recipes
  // Whether reshape() to this shape can be written, with the extents that are known at run time only. Adds nothing.
  bool can_reshape_to(std::span<const Dim> shape);
  Val squeeze(Val x, std::span<const int> axes);    // a reshape
  Val unsqueeze(Val x, std::span<const int> axes);  // axes of the result; a reshape
  Val lift(Val x, int rank);                        // leading 1s up to `rank`
  Val shape_of(Val x, DType dtype = DType::kInt32) { return op(Kind::kShape, {x}, IndexOptions{dtype}); }
  Val concat(std::span<const Val> parts, int axis);
  Val concat(std::initializer_list<Val> parts, int axis) {
    return concat(std::span<const Val>(parts.begin(), parts.size()), axis);
  }
  // SPLIT when equal, else SPLIT_V; SLICEs of a known extent whose data's bits these would not keep.
  std::vector<Val> split(Val x, std::span<const int64_t> sizes, int axis);
  std::vector<Val> split(Val x, int64_t parts, int64_t size, int axis);         // all of one size
  Val slice(Val x, std::span<const int64_t> begin, std::span<const Dim> size);  // size -1: to the end
  // As numpy's x[begin:end:stride] on each axis, all of them given; ends may be outside. Negative strides allowed.
  Val strided_slice(Val x, std::span<const int64_t> begin, std::span<const int64_t> end,
                    std::span<const int64_t> stride);
  Val pad(Val x, std::span<const int64_t> before, std::span<const int64_t> after, double value);  // PAD or PADV2
  Val mirror_pad(Val x, std::span<const int64_t> before, std::span<const int64_t> after, bool symmetric);
  Val tile(Val x, std::span<const int64_t> repeats);
  Val broadcast_to(Val x, std::span<const Dim> shape);
  // The same by a TILE, whose kernel is faster. Absent where a dimension may or may not be 1 at run time, or where a
  // number of repetitions is known at run time only.
  Val tile_to(Val x, std::span<const Dim> shape);
  Val reverse(Val x, std::span<const int> axes);
  Val gather(Val x, Val indices, int axis, int batch_dims = 0) {
    return op(Kind::kGather, {x, indices}, GatherOptions{axis, batch_dims});
  }
  Val gather_nd(Val x, Val indices) { return op(Kind::kGatherNd, {x, indices}); }
  Val scatter_nd(Val indices, Val updates, Val shape) { return op(Kind::kScatterNd, {indices, updates, shape}); }
  Val pack(std::span<const Val> parts, int axis);
  // Or parts and SQUEEZEs, where UNPACK would not keep the bits of the data, or may refuse them.
  std::vector<Val> unpack(Val x, int axis);
  // Whether a run may give x no element, such as a past of length 0: an extent is open, other than the batch, which is
  // axis 0 of an input of the model. LiteRT's UNPACK refuses such data.
  bool may_have_no_element(Val x) const;
  Val fill(Val dims, Val value) { return op(Kind::kFill, {dims, value}); }
  Val range(Val start, Val limit, Val delta) { return op(Kind::kRange, {start, limit, delta}); }
  Val where(Val condition) { return op(Kind::kWhere, {condition}); }  // indices of non-zero elements, [count, rank] i64
  Val one_hot(Val indices, Val depth, Val on, Val off, int axis) {
    return op(Kind::kOneHot, {indices, depth, on, off}, OneHotOptions{axis});
  }

  // ---- reductions and other ops along axes; axes may be negative ----
  Val sum(Val x, std::span<const int> axes, bool keep_dims) { return reduce(Kind::kSum, x, axes, keep_dims); }
  Val mean(Val x, std::span<const int> axes, bool keep_dims) { return reduce(Kind::kMean, x, axes, keep_dims); }
  Val reduce_max(Val x, std::span<const int> axes, bool keep_dims) {
    return reduce(Kind::kReduceMax, x, axes, keep_dims);
  }
  Val reduce_min(Val x, std::span<const int> axes, bool keep_dims) {
    return reduce(Kind::kReduceMin, x, axes, keep_dims);
  }
  Val reduce_prod(Val x, std::span<const int> axes, bool keep_dims) {
    return reduce(Kind::kReduceProd, x, axes, keep_dims);
  }
  Val reduce_any(Val x, std::span<const int> axes, bool keep_dims) {
    return reduce(Kind::kReduceAny, x, axes, keep_dims);
  }
  Val reduce(Kind kind, Val x, std::span<const int> axes, bool keep_dims);
  Val arg_max(Val x, int axis, DType to) {
    return op(Kind::kArgMax, {x, i32_scalar(axis)}, IndexOptions{to});
  }  // drops the axis
  Val arg_min(Val x, int axis, DType to) { return op(Kind::kArgMin, {x, i32_scalar(axis)}, IndexOptions{to}); }
  Val cumsum(Val x, int axis, bool exclusive, bool reverse_order) {
    return op(Kind::kCumsum, {x, i32_scalar(axis)}, CumsumOptions{exclusive, reverse_order});
  }
  Val softmax(Val x) { return op(Kind::kSoftmax, {x}, SoftmaxOptions{}); }  // last axis
  Val log_softmax(Val x) { return op(Kind::kLogSoftmax, {x}); }             // last axis
  std::vector<Val> top_k(Val x, Val k) {
    return ops(Kind::kTopkV2, {x, k}, {}, 2);
  }  // last axis, largest first: values, i32 indices

  // ---- matrices: x [.., K] times weights [N, K]; batch_matmul with ONNX's broadcasting of batch axes ----
  Val fully_connected(Val x, Val weights, Val bias, bool keep_num_dims) {
    return op(Kind::kFullyConnected, {x, weights, bias}, FullyConnectedOptions{.keep_num_dims = keep_num_dims});
  }
  Val batch_matmul(Val a, Val b, bool adj_a = false, bool adj_b = false) {
    return op(Kind::kBatchMatmul, {a, b}, BatchMatmulOptions{adj_a, adj_b});
  }

  // ---- images: NHWC. Weights: CONV_2D OHWI (I = channels / groups), depthwise 1HWC, TRANSPOSE_CONV OHWI, CONV_3D
  // DHWIO,
  //      CONV_3D_TRANSPOSE DHWOI. Bias may be absent. ----
  Val conv_2d(Val x, Val weights, Val bias, Conv2dOptions options) {
    return op(Kind::kConv2d, {x, weights, bias_or_zeros(Kind::kConv2d, weights, bias)}, options);
  }
  Val depthwise_conv_2d(Val x, Val weights, Val bias, Conv2dOptions options) {
    return op(Kind::kDepthwiseConv2d, {x, weights, bias_or_zeros(Kind::kDepthwiseConv2d, weights, bias)}, options);
  }
  Val transpose_conv(Val output_shape, Val weights, Val x, Val bias, TransposeConvOptions options) {
    return op(Kind::kTransposeConv, {output_shape, weights, x, bias}, options);
  }
  Val conv_3d(Val x, Val weights, Val bias, Conv3dOptions options) {
    return op(Kind::kConv3d, {x, weights, bias}, options);
  }
  Val conv_3d_transpose(Val output_shape, Val weights, Val x, Val bias, Conv3dOptions options) {
    return op(Kind::kConv3dTranspose, {output_shape, weights, x, bias}, options);
  }
  Val average_pool_2d(Val x, PoolOptions options) {
    return op(Kind::kAveragePool2d, {x}, options);
  }  // divides by the elements inside
  Val max_pool_2d(Val x, PoolOptions options) { return op(Kind::kMaxPool2d, {x}, options); }
  Val resize_bilinear(Val x, Val size, ResizeOptions options) { return op(Kind::kResizeBilinear, {x, size}, options); }
  Val resize_nearest_neighbor(Val x, Val size, ResizeOptions options) {
    return op(Kind::kResizeNearestNeighbor, {x, size}, options);
  }
  Val space_to_depth(Val x, int block) { return op(Kind::kSpaceToDepth, {x}, BlockOptions{block}); }
  Val depth_to_space(Val x, int block) { return op(Kind::kDepthToSpace, {x}, BlockOptions{block}); }
  Val local_response_normalization(Val x, LrnOptions options) {
    return op(Kind::kLocalResponseNormalization, {x}, options);
  }

 private:
  void check_ops_left(size_t results) const;
  std::vector<Val> slices(Val x, std::span<const int64_t> sizes, int axis);  // adjacent, of these extents
  // For kernels that require a bias.
  Val bias_or_zeros(Kind kind, Val weights, Val bias);

  // By elements, what i32() made: every TRANSPOSE has a permutation, and few differ.
  struct List {
    RecipeRef recipe;
    ValueId id = kAbsent;
  };
  std::map<std::vector<int64_t>, List> lists_;
};

// An i32 list of one element with the value of a symbolic dimension; absent when no value tells it. It is taken from
// the shape of `of`, if that is given and has it, rather than from other values' than the graph's inputs.
// run_time_dims.cc
Val run_time_dim(Builder& b, Dim dim, Val of = {});
// Whether run_time_dim finds it. Adds nothing.
bool has_run_time_dim(Builder& b, Dim dim);

}  // namespace lowtide::core
