// The one table of ONNX operators: alphabetical within a domain, one row an operator, naming its function in
// lower/<family>.cc. Old opset forms end in the same function.
#include <algorithm>
#include <array>
#include <tuple>

#include "layout/lowering.h"

namespace lowtide::layout {

// domain, operator, fewest inputs, most inputs (-1: any number), most outputs (-1: any number), function
// clang-format off
#define LOWTIDE_LOWERINGS(ROW) \
  ROW("", "Abs", 1, 1, 1, lower_abs) \
  ROW("", "Acos", 1, 1, 1, lower_acos) \
  ROW("", "Acosh", 1, 1, 1, lower_acosh) \
  ROW("", "Add", 2, 2, 1, lower_add) \
  ROW("", "AffineGrid", 2, 2, 1, lower_affine_grid) \
  ROW("", "And", 2, 2, 1, lower_and) \
  ROW("", "ArgMax", 1, 1, 1, lower_arg_max) \
  ROW("", "ArgMin", 1, 1, 1, lower_arg_min) \
  ROW("", "Asin", 1, 1, 1, lower_asin) \
  ROW("", "Asinh", 1, 1, 1, lower_asinh) \
  ROW("", "Atan", 1, 1, 1, lower_atan) \
  ROW("", "Atanh", 1, 1, 1, lower_atanh) \
  ROW("", "Attention", 3, 7, 4, lower_attention) \
  ROW("", "AveragePool", 1, 1, 1, lower_average_pool) \
  ROW("", "BatchNormalization", 5, 5, 5, lower_batch_normalization) \
  ROW("", "Bernoulli", 1, 1, 1, lower_random) \
  ROW("", "BitShift", 2, 2, 1, lower_bit_shift) \
  ROW("", "BitwiseAnd", 2, 2, 1, lower_bitwise_and) \
  ROW("", "BitwiseNot", 1, 1, 1, lower_bitwise_not) \
  ROW("", "BitwiseOr", 2, 2, 1, lower_bitwise_or) \
  ROW("", "BitwiseXor", 2, 2, 1, lower_bitwise_xor) \
  ROW("", "BlackmanWindow", 1, 1, 1, lower_blackman_window) \
  ROW("", "Cast", 1, 1, 1, lower_cast) \
  ROW("", "CastLike", 2, 2, 1, lower_cast_like) \
  ROW("", "Ceil", 1, 1, 1, lower_ceil) \
  ROW("", "Celu", 1, 1, 1, lower_celu) \
  ROW("", "CenterCropPad", 2, 2, 1, lower_center_crop_pad) \
  ROW("", "Clip", 1, 3, 1, lower_clip) \
  ROW("", "Col2Im", 3, 3, 1, lower_col2im) \
  ROW("", "Compress", 2, 2, 1, lower_compress) \
  ROW("", "Concat", 1, -1, 1, lower_concat) \
  ROW("", "ConcatFromSequence", 1, 1, 1, lower_concat_from_sequence) \
  ROW("", "Constant", 0, 0, 1, lower_constant) \
  ROW("", "ConstantOfShape", 1, 1, 1, lower_constant_of_shape) \
  ROW("", "Conv", 2, 3, 1, lower_conv) \
  ROW("", "ConvInteger", 2, 4, 1, lower_conv_integer) \
  ROW("", "ConvTranspose", 2, 3, 1, lower_conv_transpose) \
  ROW("", "Cos", 1, 1, 1, lower_cos) \
  ROW("", "Cosh", 1, 1, 1, lower_cosh) \
  ROW("", "CumSum", 2, 2, 1, lower_cum_sum) \
  ROW("", "DFT", 1, 3, 1, lower_dft) \
  ROW("", "DeformConv", 3, 5, 1, lower_deform_conv) \
  ROW("", "DepthToSpace", 1, 1, 1, lower_depth_to_space) \
  ROW("", "DequantizeLinear", 2, 3, 1, lower_dequantize_linear) \
  ROW("", "Det", 1, 1, 1, lower_det) \
  ROW("", "Div", 2, 2, 1, lower_div) \
  ROW("", "Dropout", 1, 3, 2, lower_dropout) \
  ROW("", "DynamicQuantizeLinear", 1, 1, 3, lower_dynamic_quantize_linear) \
  ROW("", "Einsum", 1, -1, 1, lower_einsum) \
  ROW("", "Elu", 1, 1, 1, lower_elu) \
  ROW("", "Equal", 2, 2, 1, lower_equal) \
  ROW("", "Erf", 1, 1, 1, lower_erf) \
  ROW("", "Exp", 1, 1, 1, lower_exp) \
  ROW("", "Expand", 2, 2, 1, lower_expand) \
  ROW("", "EyeLike", 1, 1, 1, lower_eye_like) \
  ROW("", "Flatten", 1, 1, 1, lower_flatten) \
  ROW("", "Floor", 1, 1, 1, lower_floor) \
  ROW("", "GRU", 3, 6, 2, lower_gru) \
  ROW("", "Gather", 2, 2, 1, lower_gather) \
  ROW("", "GatherElements", 2, 2, 1, lower_gather_elements) \
  ROW("", "GatherND", 2, 2, 1, lower_gather_nd) \
  ROW("", "Gelu", 1, 1, 1, lower_gelu) \
  ROW("", "Gemm", 2, 3, 1, lower_gemm) \
  ROW("", "GlobalAveragePool", 1, 1, 1, lower_global_average_pool) \
  ROW("", "GlobalLpPool", 1, 1, 1, lower_global_lp_pool) \
  ROW("", "GlobalMaxPool", 1, 1, 1, lower_global_max_pool) \
  ROW("", "Greater", 2, 2, 1, lower_greater) \
  ROW("", "GreaterOrEqual", 2, 2, 1, lower_greater_or_equal) \
  ROW("", "GridSample", 2, 2, 1, lower_grid_sample) \
  ROW("", "GroupNormalization", 3, 3, 1, lower_group_normalization) \
  ROW("", "HammingWindow", 1, 1, 1, lower_hamming_window) \
  ROW("", "HannWindow", 1, 1, 1, lower_hann_window) \
  ROW("", "HardSigmoid", 1, 1, 1, lower_hard_sigmoid) \
  ROW("", "HardSwish", 1, 1, 1, lower_hard_swish) \
  ROW("", "Hardmax", 1, 1, 1, lower_hardmax) \
  ROW("", "Identity", 1, 1, 1, lower_identity) \
  ROW("", "If", 1, 1, -1, lower_if) \
  ROW("", "InstanceNormalization", 3, 3, 1, lower_instance_normalization) \
  ROW("", "IsInf", 1, 1, 1, lower_is_inf) \
  ROW("", "IsNaN", 1, 1, 1, lower_is_nan) \
  ROW("", "LRN", 1, 1, 1, lower_lrn) \
  ROW("", "LSTM", 3, 8, 3, lower_lstm) \
  ROW("", "LayerNormalization", 2, 3, 3, lower_layer_normalization) \
  ROW("", "LeakyRelu", 1, 1, 1, lower_leaky_relu) \
  ROW("", "Less", 2, 2, 1, lower_less) \
  ROW("", "LessOrEqual", 2, 2, 1, lower_less_or_equal) \
  ROW("", "Log", 1, 1, 1, lower_log) \
  ROW("", "LogSoftmax", 1, 1, 1, lower_log_softmax) \
  ROW("", "Loop", 2, -1, -1, lower_loop) \
  ROW("", "LpNormalization", 1, 1, 1, lower_lp_normalization) \
  ROW("", "LpPool", 1, 1, 1, lower_lp_pool) \
  ROW("", "MatMul", 2, 2, 1, lower_matmul) \
  ROW("", "MatMulInteger", 2, 4, 1, lower_matmul_integer) \
  ROW("", "Max", 1, -1, 1, lower_max) \
  ROW("", "MaxPool", 1, 1, 2, lower_max_pool) \
  ROW("", "MaxRoiPool", 2, 2, 1, lower_max_roi_pool) \
  ROW("", "MaxUnpool", 2, 3, 1, lower_max_unpool) \
  ROW("", "Mean", 1, -1, 1, lower_mean) \
  ROW("", "MeanVarianceNormalization", 1, 1, 1, lower_mean_variance_normalization) \
  ROW("", "MelWeightMatrix", 5, 5, 1, lower_mel_weight_matrix) \
  ROW("", "Min", 1, -1, 1, lower_min) \
  ROW("", "Mish", 1, 1, 1, lower_mish) \
  ROW("", "Mod", 2, 2, 1, lower_mod) \
  ROW("", "Mul", 2, 2, 1, lower_mul) \
  ROW("", "Multinomial", 1, 1, 1, lower_random) \
  ROW("", "Neg", 1, 1, 1, lower_neg) \
  ROW("", "NegativeLogLikelihoodLoss", 2, 3, 1, lower_negative_log_likelihood_loss) \
  ROW("", "NonMaxSuppression", 2, 5, 1, lower_non_max_suppression) \
  ROW("", "NonZero", 1, 1, 1, lower_non_zero) \
  ROW("", "Not", 1, 1, 1, lower_not) \
  ROW("", "OneHot", 3, 3, 1, lower_one_hot) \
  ROW("", "OptionalGetElement", 1, 1, 1, lower_optional_get_element) \
  ROW("", "OptionalHasElement", 0, 1, 1, lower_optional_has_element) \
  ROW("", "Or", 2, 2, 1, lower_or) \
  ROW("", "PRelu", 2, 2, 1, lower_prelu) \
  ROW("", "Pad", 1, 4, 1, lower_pad) \
  ROW("", "Pow", 2, 2, 1, lower_pow) \
  ROW("", "QLinearConv", 8, 9, 1, lower_qlinear_conv) \
  ROW("", "QLinearMatMul", 8, 8, 1, lower_qlinear_matmul) \
  ROW("", "QuantizeLinear", 2, 3, 1, lower_quantize_linear) \
  ROW("", "RMSNormalization", 2, 2, 1, lower_rms_normalization) \
  ROW("", "RNN", 3, 6, 2, lower_rnn) \
  ROW("", "RandomNormal", 0, 0, 1, lower_random) \
  ROW("", "RandomNormalLike", 1, 1, 1, lower_random) \
  ROW("", "RandomUniform", 0, 0, 1, lower_random) \
  ROW("", "RandomUniformLike", 1, 1, 1, lower_random) \
  ROW("", "Range", 3, 3, 1, lower_range) \
  ROW("", "Reciprocal", 1, 1, 1, lower_reciprocal) \
  ROW("", "ReduceL1", 1, 2, 1, lower_reduce_l1) \
  ROW("", "ReduceL2", 1, 2, 1, lower_reduce_l2) \
  ROW("", "ReduceLogSum", 1, 2, 1, lower_reduce_log_sum) \
  ROW("", "ReduceLogSumExp", 1, 2, 1, lower_reduce_log_sum_exp) \
  ROW("", "ReduceMax", 1, 2, 1, lower_reduce_max) \
  ROW("", "ReduceMean", 1, 2, 1, lower_reduce_mean) \
  ROW("", "ReduceMin", 1, 2, 1, lower_reduce_min) \
  ROW("", "ReduceProd", 1, 2, 1, lower_reduce_prod) \
  ROW("", "ReduceSum", 1, 2, 1, lower_reduce_sum) \
  ROW("", "ReduceSumSquare", 1, 2, 1, lower_reduce_sum_square) \
  ROW("", "Relu", 1, 1, 1, lower_relu) \
  ROW("", "Reshape", 1, 2, 1, lower_reshape) \
  ROW("", "Resize", 1, 4, 1, lower_resize) \
  ROW("", "ReverseSequence", 2, 2, 1, lower_reverse_sequence) \
  ROW("", "RoiAlign", 3, 3, 1, lower_roi_align) \
  ROW("", "RotaryEmbedding", 3, 4, 1, lower_rotary_embedding) \
  ROW("", "Round", 1, 1, 1, lower_round) \
  ROW("", "STFT", 2, 4, 1, lower_stft) \
  ROW("", "Scan", 1, -1, -1, lower_scan) \
  ROW("", "Scatter", 3, 3, 1, lower_scatter_elements) \
  ROW("", "ScatterElements", 3, 3, 1, lower_scatter_elements) \
  ROW("", "ScatterND", 3, 3, 1, lower_scatter_nd) \
  ROW("", "Selu", 1, 1, 1, lower_selu) \
  ROW("", "SequenceAt", 2, 2, 1, lower_sequence_at) \
  ROW("", "SequenceConstruct", 1, -1, 1, lower_sequence_construct) \
  ROW("", "SequenceEmpty", 0, 0, 1, lower_sequence_empty) \
  ROW("", "SequenceErase", 1, 2, 1, lower_sequence_erase) \
  ROW("", "SequenceInsert", 2, 3, 1, lower_sequence_insert) \
  ROW("", "SequenceLength", 1, 1, 1, lower_sequence_length) \
  ROW("", "SequenceMap", 1, -1, -1, lower_sequence_map) \
  ROW("", "Shape", 1, 1, 1, lower_shape) \
  ROW("", "Shrink", 1, 1, 1, lower_shrink) \
  ROW("", "Sigmoid", 1, 1, 1, lower_sigmoid) \
  ROW("", "Sign", 1, 1, 1, lower_sign) \
  ROW("", "SimplifiedLayerNormalization", 2, 2, 2, lower_rms_normalization) \
  ROW("", "Sin", 1, 1, 1, lower_sin) \
  ROW("", "Sinh", 1, 1, 1, lower_sinh) \
  ROW("", "Size", 1, 1, 1, lower_size) \
  ROW("", "Slice", 1, 5, 1, lower_slice) \
  ROW("", "Softmax", 1, 1, 1, lower_softmax) \
  ROW("", "SoftmaxCrossEntropyLoss", 2, 3, 2, lower_softmax_cross_entropy_loss) \
  ROW("", "Softplus", 1, 1, 1, lower_softplus) \
  ROW("", "Softsign", 1, 1, 1, lower_softsign) \
  ROW("", "SpaceToDepth", 1, 1, 1, lower_space_to_depth) \
  ROW("", "Split", 1, 2, -1, lower_split) \
  ROW("", "SplitToSequence", 1, 2, 1, lower_split_to_sequence) \
  ROW("", "Sqrt", 1, 1, 1, lower_sqrt) \
  ROW("", "Squeeze", 1, 2, 1, lower_squeeze) \
  ROW("", "Sub", 2, 2, 1, lower_sub) \
  ROW("", "Sum", 1, -1, 1, lower_sum) \
  ROW("", "Swish", 1, 1, 1, lower_swish) \
  ROW("", "Tan", 1, 1, 1, lower_tan) \
  ROW("", "Tanh", 1, 1, 1, lower_tanh) \
  ROW("", "TensorScatter", 2, 3, 1, lower_tensor_scatter) \
  ROW("", "TfIdfVectorizer", 1, 1, 1, lower_tf_idf_vectorizer) \
  ROW("", "ThresholdedRelu", 1, 1, 1, lower_thresholded_relu) \
  ROW("", "Tile", 2, 3, 1, lower_tile) \
  ROW("", "TopK", 1, 2, 2, lower_top_k) \
  ROW("", "Transpose", 1, 1, 1, lower_transpose) \
  ROW("", "Trilu", 1, 2, 1, lower_trilu) \
  ROW("", "Unique", 1, 1, 4, lower_unique) \
  ROW("", "Unsqueeze", 1, 2, 1, lower_unsqueeze) \
  ROW("", "Upsample", 1, 2, 1, lower_upsample) \
  ROW("", "Where", 3, 3, 1, lower_where) \
  ROW("", "Xor", 2, 2, 1, lower_xor) \
  ROW("com.microsoft", "Attention", 2, 7, 2, lower_ms_attention) \
  ROW("com.microsoft", "BiasGelu", 2, 2, 1, lower_bias_gelu) \
  ROW("com.microsoft", "DequantizeLinear", 2, 3, 1, lower_dequantize_linear) \
  ROW("com.microsoft", "DynamicQuantizeMatMul", 3, 5, 1, lower_dynamic_quantize_matmul) \
  ROW("com.microsoft", "EmbedLayerNormalization", 7, 9, 3, lower_embed_layer_normalization) \
  ROW("com.microsoft", "FastGelu", 1, 2, 1, lower_fast_gelu) \
  ROW("com.microsoft", "FusedConv", 2, 4, 1, lower_fused_conv) \
  ROW("com.microsoft", "FusedGemm", 2, 3, 1, lower_fused_gemm) \
  ROW("com.microsoft", "FusedMatMul", 2, 2, 1, lower_fused_matmul) \
  ROW("com.microsoft", "Gelu", 1, 1, 1, lower_ms_gelu) \
  ROW("com.microsoft", "GroupQueryAttention", 7, 16, 4, lower_group_query_attention) \
  ROW("com.microsoft", "MatMulIntegerToFloat", 4, 7, 1, lower_matmul_integer_to_float) \
  ROW("com.microsoft", "MatMulNBits", 3, 6, 1, lower_matmul_nbits) \
  ROW("com.microsoft", "MultiHeadAttention", 1, 10, 4, lower_multi_head_attention) \
  ROW("com.microsoft", "QGemm", 6, 9, 1, lower_qgemm) \
  ROW("com.microsoft", "QLinearAdd", 7, 8, 1, lower_qlinear_add) \
  ROW("com.microsoft", "QLinearConcat", 5, -1, 1, lower_qlinear_concat) \
  ROW("com.microsoft", "QLinearGlobalAveragePool", 5, 5, 1, lower_qlinear_global_average_pool) \
  ROW("com.microsoft", "QLinearLeakyRelu", 4, 5, 1, lower_qlinear_leaky_relu) \
  ROW("com.microsoft", "QLinearMul", 7, 8, 1, lower_qlinear_mul) \
  ROW("com.microsoft", "QLinearSigmoid", 4, 5, 1, lower_qlinear_sigmoid) \
  ROW("com.microsoft", "QuantizeLinear", 2, 3, 1, lower_quantize_linear) \
  ROW("com.microsoft", "QuickGelu", 1, 1, 1, lower_quick_gelu) \
  ROW("com.microsoft", "RotaryEmbedding", 4, 4, 1, lower_ms_rotary_embedding) \
  ROW("com.microsoft", "SkipLayerNormalization", 3, 5, 4, lower_skip_layer_normalization) \
  ROW("com.microsoft", "SkipSimplifiedLayerNormalization", 3, 4, 4, lower_skip_simplified_layer_normalization)
// clang-format on

#define DECLARE(domain, op, min_in, max_in, max_out, function) void function(Lowering&);
LOWTIDE_LOWERINGS(DECLARE)
#undef DECLARE

namespace {

#define AS_ROW(domain, op, min_in, max_in, max_out, function) LowerRow{domain, op, min_in, max_in, max_out, function},
constexpr std::array kRows = {LOWTIDE_LOWERINGS(AS_ROW)};
#undef AS_ROW

constexpr auto key(const LowerRow& row) { return std::tuple(row.domain, row.op); }
constexpr bool sorted_and_unique() {
  for (size_t i = 1; i < kRows.size(); ++i)
    if (!(key(kRows[i - 1]) < key(kRows[i]))) return false;
  return true;
}
static_assert(sorted_and_unique(), "rows are searched by bisection");

}  // namespace

const LowerRow* find_lowering(std::string_view domain, std::string_view op) {
  auto it = std::lower_bound(kRows.begin(), kRows.end(), std::tuple(domain, op),
                             [](const LowerRow& row, const auto& wanted) { return key(row) < wanted; });
  return it != kRows.end() && key(*it) == std::tuple(domain, op) ? &*it : nullptr;
}

}  // namespace lowtide::layout
