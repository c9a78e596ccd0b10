// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/since.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace lowtide::layout {
namespace {

// Operator, attribute ("" for the operator itself), first opset; sorted. Versions of 1 are left out.
// tests/layout/test_since.py compares the list with ONNX's own definitions.
// clang-format off
#define LOWTIDE_SINCE(ROW) \
  ROW("Acos", "", 7) \
  ROW("Acosh", "", 9) \
  ROW("AffineGrid", "", 20) \
  ROW("ArgMax", "select_last_index", 12) \
  ROW("ArgMin", "select_last_index", 12) \
  ROW("Asin", "", 7) \
  ROW("Asinh", "", 9) \
  ROW("Atan", "", 7) \
  ROW("Atanh", "", 9) \
  ROW("Attention", "", 23) \
  ROW("AveragePool", "ceil_mode", 10) \
  ROW("AveragePool", "count_include_pad", 7) \
  ROW("AveragePool", "dilations", 19) \
  ROW("BatchNormalization", "training_mode", 14) \
  ROW("Bernoulli", "", 15) \
  ROW("BitCast", "", 26) \
  ROW("BitShift", "", 11) \
  ROW("BitwiseAnd", "", 18) \
  ROW("BitwiseNot", "", 18) \
  ROW("BitwiseOr", "", 18) \
  ROW("BitwiseXor", "", 18) \
  ROW("BlackmanWindow", "", 17) \
  ROW("Cast", "round_mode", 24) \
  ROW("Cast", "saturate", 19) \
  ROW("CastLike", "", 15) \
  ROW("CastLike", "round_mode", 24) \
  ROW("CastLike", "saturate", 19) \
  ROW("Celu", "", 12) \
  ROW("CenterCropPad", "", 18) \
  ROW("Col2Im", "", 18) \
  ROW("Compress", "", 9) \
  ROW("ConcatFromSequence", "", 11) \
  ROW("Constant", "sparse_value", 11) \
  ROW("Constant", "value_float", 12) \
  ROW("Constant", "value_floats", 12) \
  ROW("Constant", "value_int", 12) \
  ROW("Constant", "value_ints", 12) \
  ROW("Constant", "value_string", 12) \
  ROW("Constant", "value_strings", 12) \
  ROW("ConstantOfShape", "", 9) \
  ROW("ConvInteger", "", 10) \
  ROW("Cos", "", 7) \
  ROW("Cosh", "", 9) \
  ROW("CumProd", "", 26) \
  ROW("CumSum", "", 11) \
  ROW("DFT", "", 17) \
  ROW("DeformConv", "", 19) \
  ROW("DepthToSpace", "mode", 11) \
  ROW("DequantizeLinear", "", 10) \
  ROW("DequantizeLinear", "axis", 13) \
  ROW("DequantizeLinear", "block_size", 21) \
  ROW("DequantizeLinear", "output_dtype", 23) \
  ROW("Det", "", 11) \
  ROW("Dropout", "seed", 12) \
  ROW("DynamicQuantizeLinear", "", 11) \
  ROW("Einsum", "", 12) \
  ROW("Erf", "", 9) \
  ROW("Expand", "", 8) \
  ROW("EyeLike", "", 9) \
  ROW("GRU", "layout", 14) \
  ROW("GRU", "linear_before_reset", 3) \
  ROW("GatherElements", "", 11) \
  ROW("GatherND", "", 11) \
  ROW("GatherND", "batch_dims", 12) \
  ROW("Gelu", "", 20) \
  ROW("GreaterOrEqual", "", 12) \
  ROW("GridSample", "", 16) \
  ROW("GroupNormalization", "", 18) \
  ROW("GroupNormalization", "stash_type", 21) \
  ROW("HammingWindow", "", 17) \
  ROW("HannWindow", "", 17) \
  ROW("HardSwish", "", 14) \
  ROW("IsInf", "", 10) \
  ROW("IsNaN", "", 9) \
  ROW("LSTM", "layout", 14) \
  ROW("LayerNormalization", "", 17) \
  ROW("LessOrEqual", "", 12) \
  ROW("LpPool", "ceil_mode", 18) \
  ROW("LpPool", "dilations", 18) \
  ROW("MatMulInteger", "", 10) \
  ROW("MaxPool", "ceil_mode", 10) \
  ROW("MaxPool", "dilations", 10) \
  ROW("MaxPool", "storage_order", 8) \
  ROW("MaxUnpool", "", 9) \
  ROW("MeanVarianceNormalization", "", 9) \
  ROW("MelWeightMatrix", "", 17) \
  ROW("Mish", "", 18) \
  ROW("Mod", "", 10) \
  ROW("Multinomial", "", 7) \
  ROW("NegativeLogLikelihoodLoss", "", 12) \
  ROW("NonMaxSuppression", "", 10) \
  ROW("NonZero", "", 9) \
  ROW("OneHot", "", 9) \
  ROW("Optional", "", 15) \
  ROW("OptionalGetElement", "", 15) \
  ROW("OptionalHasElement", "", 15) \
  ROW("Pad", "pads", 2) \
  ROW("QLinearConv", "", 10) \
  ROW("QLinearMatMul", "", 10) \
  ROW("QuantizeLinear", "", 10) \
  ROW("QuantizeLinear", "axis", 13) \
  ROW("QuantizeLinear", "block_size", 21) \
  ROW("QuantizeLinear", "output_dtype", 21) \
  ROW("QuantizeLinear", "precision", 23) \
  ROW("QuantizeLinear", "saturate", 19) \
  ROW("RMSNormalization", "", 23) \
  ROW("RNN", "layout", 14) \
  ROW("Range", "", 11) \
  ROW("ReduceL1", "noop_with_empty_axes", 18) \
  ROW("ReduceL2", "noop_with_empty_axes", 18) \
  ROW("ReduceLogSum", "noop_with_empty_axes", 18) \
  ROW("ReduceLogSumExp", "noop_with_empty_axes", 18) \
  ROW("ReduceMax", "noop_with_empty_axes", 18) \
  ROW("ReduceMean", "noop_with_empty_axes", 18) \
  ROW("ReduceMin", "noop_with_empty_axes", 18) \
  ROW("ReduceProd", "noop_with_empty_axes", 18) \
  ROW("ReduceSum", "noop_with_empty_axes", 13) \
  ROW("ReduceSumSquare", "noop_with_empty_axes", 18) \
  ROW("Reshape", "allowzero", 14) \
  ROW("Resize", "", 10) \
  ROW("Resize", "antialias", 18) \
  ROW("Resize", "axes", 18) \
  ROW("Resize", "coordinate_transformation_mode", 11) \
  ROW("Resize", "cubic_coeff_a", 11) \
  ROW("Resize", "exclude_outside", 11) \
  ROW("Resize", "extrapolation_value", 11) \
  ROW("Resize", "keep_aspect_ratio_policy", 18) \
  ROW("Resize", "nearest_mode", 11) \
  ROW("ReverseSequence", "", 10) \
  ROW("RoiAlign", "", 10) \
  ROW("RoiAlign", "coordinate_transformation_mode", 16) \
  ROW("RotaryEmbedding", "", 23) \
  ROW("Round", "", 11) \
  ROW("STFT", "", 17) \
  ROW("Scan", "", 8) \
  ROW("Scan", "scan_input_axes", 9) \
  ROW("Scan", "scan_input_directions", 9) \
  ROW("Scan", "scan_output_axes", 9) \
  ROW("Scan", "scan_output_directions", 9) \
  ROW("Scatter", "", 9) \
  ROW("ScatterElements", "", 11) \
  ROW("ScatterElements", "reduction", 16) \
  ROW("ScatterND", "", 11) \
  ROW("ScatterND", "reduction", 16) \
  ROW("SequenceAt", "", 11) \
  ROW("SequenceConstruct", "", 11) \
  ROW("SequenceEmpty", "", 11) \
  ROW("SequenceErase", "", 11) \
  ROW("SequenceInsert", "", 11) \
  ROW("SequenceLength", "", 11) \
  ROW("SequenceMap", "", 17) \
  ROW("Shape", "end", 15) \
  ROW("Shape", "start", 15) \
  ROW("Shrink", "", 9) \
  ROW("Sign", "", 9) \
  ROW("Sin", "", 7) \
  ROW("Sinh", "", 9) \
  ROW("SoftmaxCrossEntropyLoss", "", 12) \
  ROW("Split", "num_outputs", 18) \
  ROW("SplitToSequence", "", 11) \
  ROW("Swish", "", 24) \
  ROW("Tan", "", 7) \
  ROW("TensorScatter", "", 24) \
  ROW("TfIdfVectorizer", "", 9) \
  ROW("ThresholdedRelu", "", 10) \
  ROW("TopK", "largest", 11) \
  ROW("TopK", "sorted", 11) \
  ROW("Trilu", "", 14) \
  ROW("Unique", "", 11) \
  ROW("Upsample", "scales", 7) \
  ROW("Where", "", 9)

// Operator, number and name of the input, first opset that does not have it, opset that brings it; sorted. Resize's
// input 1 was called scales before opset 11. The test compares this list, too.
#define LOWTIDE_NEWER_INPUTS(ROW) \
  ROW("Attention", 6, "nonpad_kv_seqlen", 1, 24) \
  ROW("Clip", 1, "min", 1, 11) \
  ROW("Clip", 2, "max", 1, 11) \
  ROW("DFT", 2, "axis", 1, 20) \
  ROW("Dropout", 1, "ratio", 1, 12) \
  ROW("Dropout", 2, "training_mode", 1, 12) \
  ROW("Pad", 1, "pads", 1, 11) \
  ROW("Pad", 2, "constant_value", 1, 11) \
  ROW("Pad", 3, "axes", 1, 18) \
  ROW("ReduceL1", 1, "axes", 1, 18) \
  ROW("ReduceL2", 1, "axes", 1, 18) \
  ROW("ReduceLogSum", 1, "axes", 1, 18) \
  ROW("ReduceLogSumExp", 1, "axes", 1, 18) \
  ROW("ReduceMax", 1, "axes", 1, 18) \
  ROW("ReduceMean", 1, "axes", 1, 18) \
  ROW("ReduceMin", 1, "axes", 1, 18) \
  ROW("ReduceProd", 1, "axes", 1, 18) \
  ROW("ReduceSum", 1, "axes", 1, 13) \
  ROW("ReduceSumSquare", 1, "axes", 1, 18) \
  ROW("Reshape", 1, "shape", 1, 5) \
  ROW("Resize", 2, "scales", 1, 11) \
  ROW("Resize", 3, "sizes", 1, 11) \
  ROW("Slice", 1, "starts", 1, 10) \
  ROW("Slice", 2, "ends", 1, 10) \
  ROW("Slice", 3, "axes", 1, 10) \
  ROW("Slice", 4, "steps", 1, 10) \
  ROW("Split", 1, "split", 2, 13) \
  ROW("Squeeze", 1, "axes", 1, 13) \
  ROW("TopK", 1, "K", 1, 10) \
  ROW("Unsqueeze", 1, "axes", 1, 13) \
  ROW("Upsample", 1, "scales", 1, 9)
// clang-format on

struct SinceRow {
  std::string_view op, attribute;
  int64_t version;
};
#define AS_SINCE_ROW(op, attribute, version) SinceRow{op, attribute, version},
constexpr std::array kSinceRows = {LOWTIDE_SINCE(AS_SINCE_ROW)};
#undef AS_SINCE_ROW

constexpr auto since_key(const SinceRow& row) { return std::tuple(row.op, row.attribute); }
constexpr bool since_rows_ascend() {
  for (size_t i = 1; i < kSinceRows.size(); ++i)
    if (!(since_key(kSinceRows[i - 1]) < since_key(kSinceRows[i]))) return false;
  return true;
}
static_assert(since_rows_ascend(), "rows are searched by bisection");

#define AS_NEWER_INPUT(op, index, name, absent_from, since) NewerInput{op, index, name, absent_from, since},
constexpr std::array kNewerInputs = {LOWTIDE_NEWER_INPUTS(AS_NEWER_INPUT)};
#undef AS_NEWER_INPUT

constexpr auto input_key(const NewerInput& row) { return std::tuple(row.op, row.index); }
constexpr bool newer_inputs_ascend() {
  for (size_t i = 1; i < kNewerInputs.size(); ++i)
    if (!(input_key(kNewerInputs[i - 1]) < input_key(kNewerInputs[i]))) return false;
  return true;
}
static_assert(newer_inputs_ascend(), "rows are searched by bisection");

}  // namespace

int64_t since_version(std::string_view op, std::string_view attribute) {
  const auto key = std::tuple(op, attribute);
  const auto* it = std::lower_bound(kSinceRows.begin(), kSinceRows.end(), key,
                                    [](const SinceRow& row, const auto& wanted) { return since_key(row) < wanted; });
  return it != kSinceRows.end() && since_key(*it) == key ? it->version : 1;
}

std::vector<NewerAttribute> attributes_since(std::string_view op) {
  std::vector<NewerAttribute> out;
  for (const SinceRow& row : kSinceRows)
    if (row.op == op && !row.attribute.empty()) out.push_back({row.attribute, row.version});
  return out;
}

const NewerInput* newer_input(std::string_view op, size_t index, int64_t opset) {
  const auto key = std::tuple(op, index);
  const auto* it = std::lower_bound(kNewerInputs.begin(), kNewerInputs.end(), key,
                                    [](const NewerInput& row, const auto& wanted) { return input_key(row) < wanted; });
  const bool is_listed = it != kNewerInputs.end() && input_key(*it) == key;
  return is_listed && opset >= it->absent_from && opset < it->since ? it : nullptr;
}

}  // namespace lowtide::layout
