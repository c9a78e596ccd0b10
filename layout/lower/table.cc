// SPDX-License-Identifier: Apache-2.0
// The table of ONNX operators: one row for each operator, alphabetical within a domain, with its function in
// lower/<family>.cc. The forms of older opsets have the same function.
#include "layout/lower/table.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "layout/core/stateful_builtin.h"

namespace lowtide::layout {

// Domain, operator, types of the inputs (LowerRow::inputs), least and greatest number of inputs (-1: any number),
// greatest number of outputs (-1: any number), function.
// clang-format off
#define LOWTIDE_LOWERINGS(ROW) \
  ROW("", "Abs", "n", 1, 1, 1, lower_abs) \
  ROW("", "Acos", "f", 1, 1, 1, lower_acos) \
  ROW("", "Acosh", "f", 1, 1, 1, lower_acosh) \
  ROW("", "Add", "N", 2, 2, 1, lower_add) \
  ROW("", "Affine", "f", 1, 1, 1, lower_affine) \
  ROW("", "AffineGrid", "fi", 2, 2, 1, lower_affine_grid) \
  ROW("", "And", "b", 2, 2, 1, lower_and) \
  ROW("", "ArgMax", "n", 1, 1, 1, lower_arg_max) \
  ROW("", "ArgMin", "n", 1, 1, 1, lower_arg_min) \
  ROW("", "Asin", "f", 1, 1, 1, lower_asin) \
  ROW("", "Asinh", "f", 1, 1, 1, lower_asinh) \
  ROW("", "Atan", "f", 1, 1, 1, lower_atan) \
  ROW("", "Atanh", "f", 1, 1, 1, lower_atanh) \
  ROW("", "Attention", "FFf.Ffi", 3, 7, 4, lower_attention) \
  ROW("", "AveragePool", "f", 1, 1, 1, lower_average_pool) \
  ROW("", "BatchNormalization", "f", 5, 5, 5, lower_batch_normalization) \
  ROW("", "Bernoulli", "f", 1, 1, 1, lower_random) \
  ROW("", "BitCast", ".", 1, 1, 1, lower_bit_cast) \
  ROW("", "BitShift", "I", 2, 2, 1, lower_bit_shift) \
  ROW("", "BitwiseAnd", "I", 2, 2, 1, lower_bitwise_and) \
  ROW("", "BitwiseNot", "i", 1, 1, 1, lower_bitwise_not) \
  ROW("", "BitwiseOr", "I", 2, 2, 1, lower_bitwise_or) \
  ROW("", "BitwiseXor", "I", 2, 2, 1, lower_bitwise_xor) \
  ROW("", "BlackmanWindow", "i", 1, 1, 1, lower_blackman_window) \
  ROW("", "Cast", ".", 1, 1, 1, lower_cast) \
  ROW("", "CastLike", ".", 2, 2, 1, lower_cast_like) \
  ROW("", "Ceil", "f", 1, 1, 1, lower_ceil) \
  ROW("", "Celu", "f", 1, 1, 1, lower_celu) \
  ROW("", "CenterCropPad", ".i", 2, 2, 1, lower_center_crop_pad) \
  ROW("", "Clip", "N", 1, 3, 1, lower_clip) \
  ROW("", "Col2Im", ".i", 3, 3, 1, lower_col2im) \
  ROW("", "Compress", ".b", 2, 2, 1, lower_compress) \
  ROW("", "Concat", "*", 1, -1, 1, lower_concat) \
  ROW("", "ConcatFromSequence", ".", 1, 1, 1, lower_concat_from_sequence) \
  ROW("", "Constant", ".", 0, 0, 1, lower_constant) \
  ROW("", "ConstantOfShape", "i", 1, 1, 1, lower_constant_of_shape) \
  ROW("", "Conv", "F", 2, 3, 1, lower_conv) \
  ROW("", "ConvInteger", "q", 2, 4, 1, lower_conv_integer) \
  ROW("", "ConvTranspose", "F", 2, 3, 1, lower_conv_transpose) \
  ROW("", "Cos", "f", 1, 1, 1, lower_cos) \
  ROW("", "Cosh", "f", 1, 1, 1, lower_cosh) \
  ROW("", "Crop", "f", 1, 1, 1, lower_crop) \
  ROW("", "CumProd", "ni", 2, 2, 1, lower_cum_prod) \
  ROW("", "CumSum", "ni", 2, 2, 1, lower_cum_sum) \
  ROW("", "DFT", "fi", 1, 3, 1, lower_dft) \
  ROW("", "DeformConv", "F", 3, 5, 1, lower_deform_conv) \
  ROW("", "DepthToSpace", ".", 1, 1, 1, lower_depth_to_space) \
  ROW("", "DequantizeLinear", "MrM", 2, 3, 1, lower_dequantize_linear) \
  ROW("", "Det", "f", 1, 1, 1, lower_det) \
  ROW("", "Div", "N", 2, 2, 1, lower_div) \
  ROW("", "Dropout", "rfb", 1, 3, 2, lower_dropout) \
  ROW("", "DynamicQuantizeLinear", "f", 1, 1, 3, lower_dynamic_quantize_linear) \
  ROW("", "Einsum", "N", 1, -1, 1, lower_einsum) \
  ROW("", "Elu", "f", 1, 1, 1, lower_elu) \
  ROW("", "Equal", "*", 2, 2, 1, lower_equal) \
  ROW("", "Erf", "n", 1, 1, 1, lower_erf) \
  ROW("", "Exp", "f", 1, 1, 1, lower_exp) \
  ROW("", "Expand", ".i", 2, 2, 1, lower_expand) \
  ROW("", "EyeLike", ".", 1, 1, 1, lower_eye_like) \
  ROW("", "Flatten", ".", 1, 1, 1, lower_flatten) \
  ROW("", "Floor", "f", 1, 1, 1, lower_floor) \
  ROW("", "GRU", "FFFFiF", 3, 6, 2, lower_gru) \
  ROW("", "Gather", ".i", 2, 2, 1, lower_gather) \
  ROW("", "GatherElements", ".i", 2, 2, 1, lower_gather_elements) \
  ROW("", "GatherND", ".i", 2, 2, 1, lower_gather_nd) \
  ROW("", "Gelu", "f", 1, 1, 1, lower_gelu) \
  ROW("", "Gemm", "N", 2, 3, 1, lower_gemm) \
  ROW("", "GlobalAveragePool", "f", 1, 1, 1, lower_global_average_pool) \
  ROW("", "GlobalLpPool", "f", 1, 1, 1, lower_global_lp_pool) \
  ROW("", "GlobalMaxPool", "f", 1, 1, 1, lower_global_max_pool) \
  ROW("", "Greater", "N", 2, 2, 1, lower_greater) \
  ROW("", "GreaterOrEqual", "N", 2, 2, 1, lower_greater_or_equal) \
  ROW("", "GridSample", ".f", 2, 2, 1, lower_grid_sample) \
  ROW("", "GroupNormalization", "F", 3, 3, 1, lower_group_normalization) \
  ROW("", "HammingWindow", "i", 1, 1, 1, lower_hamming_window) \
  ROW("", "HannWindow", "i", 1, 1, 1, lower_hann_window) \
  ROW("", "HardSigmoid", "f", 1, 1, 1, lower_hard_sigmoid) \
  ROW("", "HardSwish", "f", 1, 1, 1, lower_hard_swish) \
  ROW("", "Hardmax", "f", 1, 1, 1, lower_hardmax) \
  ROW("", "Identity", ".", 1, 1, 1, lower_identity) \
  ROW("", "If", "b", 1, 1, -1, lower_if) \
  ROW("", "ImageScaler", "f", 1, 1, 1, lower_image_scaler) \
  ROW("", "InstanceNormalization", "F", 3, 3, 1, lower_instance_normalization) \
  ROW("", "IsInf", "r", 1, 1, 1, lower_is_inf) \
  ROW("", "IsNaN", "r", 1, 1, 1, lower_is_nan) \
  ROW("", "LRN", "f", 1, 1, 1, lower_lrn) \
  ROW("", "LSTM", "FFFFiF", 3, 8, 3, lower_lstm) \
  ROW("", "LayerNormalization", "f", 2, 3, 3, lower_layer_normalization) \
  ROW("", "LeakyRelu", "f", 1, 1, 1, lower_leaky_relu) \
  ROW("", "Less", "N", 2, 2, 1, lower_less) \
  ROW("", "LessOrEqual", "N", 2, 2, 1, lower_less_or_equal) \
  ROW("", "Log", "f", 1, 1, 1, lower_log) \
  ROW("", "LogSoftmax", "f", 1, 1, 1, lower_log_softmax) \
  ROW("", "Loop", "ib.", 2, -1, -1, lower_loop) \
  ROW("", "LpNormalization", "f", 1, 1, 1, lower_lp_normalization) \
  ROW("", "LpPool", "f", 1, 1, 1, lower_lp_pool) \
  ROW("", "MatMul", "N", 2, 2, 1, lower_matmul) \
  ROW("", "MatMulInteger", "q", 2, 4, 1, lower_matmul_integer) \
  ROW("", "Max", "N", 1, -1, 1, lower_max) \
  ROW("", "MaxPool", "n", 1, 1, 2, lower_max_pool) \
  ROW("", "MaxRoiPool", "F", 2, 2, 1, lower_max_roi_pool) \
  ROW("", "MaxUnpool", "fi", 2, 3, 1, lower_max_unpool) \
  ROW("", "Mean", "F", 1, -1, 1, lower_mean) \
  ROW("", "MeanVarianceNormalization", "f", 1, 1, 1, lower_mean_variance_normalization) \
  ROW("", "MelWeightMatrix", "iiif", 5, 5, 1, lower_mel_weight_matrix) \
  ROW("", "Min", "N", 1, -1, 1, lower_min) \
  ROW("", "Mish", "f", 1, 1, 1, lower_mish) \
  ROW("", "Mod", "N", 2, 2, 1, lower_mod) \
  ROW("", "Mul", "N", 2, 2, 1, lower_mul) \
  ROW("", "Multinomial", "f", 1, 1, 1, lower_random) \
  ROW("", "Neg", "n", 1, 1, 1, lower_neg) \
  ROW("", "NegativeLogLikelihoodLoss", "FiF", 2, 3, 1, lower_negative_log_likelihood_loss) \
  ROW("", "NonMaxSuppression", "ffif", 2, 5, 1, lower_non_max_suppression) \
  ROW("", "NonZero", ".", 1, 1, 1, lower_non_zero) \
  ROW("", "Not", "b", 1, 1, 1, lower_not) \
  ROW("", "OneHot", "nn.", 3, 3, 1, lower_one_hot) \
  ROW("", "Optional", ".", 0, 1, 1, lower_optional) \
  ROW("", "OptionalGetElement", ".", 1, 1, 1, lower_optional_get_element) \
  ROW("", "OptionalHasElement", ".", 0, 1, 1, lower_optional_has_element) \
  ROW("", "Or", "b", 2, 2, 1, lower_or) \
  ROW("", "PRelu", "N", 2, 2, 1, lower_prelu) \
  ROW("", "Pad", "*i*i", 1, 4, 1, lower_pad) \
  ROW("", "ParametricSoftplus", "f", 1, 1, 1, lower_parametric_softplus) \
  ROW("", "Pow", "n", 2, 2, 1, lower_pow) \
  ROW("", "QLinearConv", "qfqqfqfqi", 8, 9, 1, lower_qlinear_conv) \
  ROW("", "QLinearMatMul", "qfqqfqfq", 8, 8, 1, lower_qlinear_matmul) \
  ROW("", "QuantizeLinear", "nrm", 2, 3, 1, lower_quantize_linear) \
  ROW("", "RMSNormalization", "f", 2, 2, 1, lower_rms_normalization) \
  ROW("", "RNN", "FFFFiF", 3, 6, 2, lower_rnn) \
  ROW("", "RandomNormal", ".", 0, 0, 1, lower_random) \
  ROW("", "RandomNormalLike", ".", 1, 1, 1, lower_random) \
  ROW("", "RandomUniform", ".", 0, 0, 1, lower_random) \
  ROW("", "RandomUniformLike", ".", 1, 1, 1, lower_random) \
  ROW("", "Range", "N", 3, 3, 1, lower_range) \
  ROW("", "Reciprocal", "f", 1, 1, 1, lower_reciprocal) \
  ROW("", "ReduceL1", "ni", 1, 2, 1, lower_reduce_l1) \
  ROW("", "ReduceL2", "ni", 1, 2, 1, lower_reduce_l2) \
  ROW("", "ReduceLogSum", "ni", 1, 2, 1, lower_reduce_log_sum) \
  ROW("", "ReduceLogSumExp", "ni", 1, 2, 1, lower_reduce_log_sum_exp) \
  ROW("", "ReduceMax", ".i", 1, 2, 1, lower_reduce_max) \
  ROW("", "ReduceMean", "ni", 1, 2, 1, lower_reduce_mean) \
  ROW("", "ReduceMin", ".i", 1, 2, 1, lower_reduce_min) \
  ROW("", "ReduceProd", "ni", 1, 2, 1, lower_reduce_prod) \
  ROW("", "ReduceSum", "ni", 1, 2, 1, lower_reduce_sum) \
  ROW("", "ReduceSumSquare", "ni", 1, 2, 1, lower_reduce_sum_square) \
  ROW("", "Relu", "n", 1, 1, 1, lower_relu) \
  ROW("", "Reshape", ".i", 1, 2, 1, lower_reshape) \
  ROW("", "Resize", ".ffi", 1, 4, 1, lower_resize) \
  ROW("", "ReverseSequence", ".i", 2, 2, 1, lower_reverse_sequence) \
  ROW("", "RoiAlign", "FFi", 3, 3, 1, lower_roi_align) \
  ROW("", "RotaryEmbedding", "FFFi", 3, 4, 1, lower_rotary_embedding) \
  ROW("", "Round", "f", 1, 1, 1, lower_round) \
  ROW("", "STFT", "fifi", 2, 4, 1, lower_stft) \
  ROW("", "Scale", "f", 1, 1, 1, lower_scale) \
  ROW("", "ScaledTanh", "f", 1, 1, 1, lower_scaled_tanh) \
  ROW("", "Scan", ".", 1, -1, -1, lower_scan) \
  ROW("", "Scatter", "*i*", 3, 3, 1, lower_scatter_elements) \
  ROW("", "ScatterElements", "*i*", 3, 3, 1, lower_scatter_elements) \
  ROW("", "ScatterND", "*i*", 3, 3, 1, lower_scatter_nd) \
  ROW("", "Selu", "f", 1, 1, 1, lower_selu) \
  ROW("", "SequenceAt", ".i", 2, 2, 1, lower_sequence_at) \
  ROW("", "SequenceConstruct", ".", 1, -1, 1, lower_sequence_construct) \
  ROW("", "SequenceEmpty", ".", 0, 0, 1, lower_sequence_empty) \
  ROW("", "SequenceErase", ".i", 1, 2, 1, lower_sequence_erase) \
  ROW("", "SequenceInsert", "..i", 2, 3, 1, lower_sequence_insert) \
  ROW("", "SequenceLength", ".", 1, 1, 1, lower_sequence_length) \
  ROW("", "SequenceMap", ".", 1, -1, -1, lower_sequence_map) \
  ROW("", "Shape", ".", 1, 1, 1, lower_shape) \
  ROW("", "Shrink", "n", 1, 1, 1, lower_shrink) \
  ROW("", "Sigmoid", "f", 1, 1, 1, lower_sigmoid) \
  ROW("", "Sign", "n", 1, 1, 1, lower_sign) \
  ROW("", "SimplifiedLayerNormalization", "f", 2, 2, 2, lower_rms_normalization) \
  ROW("", "Sin", "f", 1, 1, 1, lower_sin) \
  ROW("", "Sinh", "f", 1, 1, 1, lower_sinh) \
  ROW("", "Size", ".", 1, 1, 1, lower_size) \
  ROW("", "Slice", ".i", 1, 5, 1, lower_slice) \
  ROW("", "Softmax", "f", 1, 1, 1, lower_softmax) \
  ROW("", "SoftmaxCrossEntropyLoss", "FiF", 2, 3, 2, lower_softmax_cross_entropy_loss) \
  ROW("", "Softplus", "f", 1, 1, 1, lower_softplus) \
  ROW("", "Softsign", "f", 1, 1, 1, lower_softsign) \
  ROW("", "SpaceToDepth", ".", 1, 1, 1, lower_space_to_depth) \
  ROW("", "Split", ".n", 1, 2, -1, lower_split) \
  ROW("", "SplitToSequence", ".i", 1, 2, 1, lower_split_to_sequence) \
  ROW("", "Sqrt", "f", 1, 1, 1, lower_sqrt) \
  ROW("", "Squeeze", ".i", 1, 2, 1, lower_squeeze) \
  ROW("", "Sub", "N", 2, 2, 1, lower_sub) \
  ROW("", "Sum", "F", 1, -1, 1, lower_sum) \
  ROW("", "Swish", "f", 1, 1, 1, lower_swish) \
  ROW("", "Tan", "f", 1, 1, 1, lower_tan) \
  ROW("", "Tanh", "f", 1, 1, 1, lower_tanh) \
  ROW("", "TensorScatter", "**i", 2, 3, 1, lower_tensor_scatter) \
  ROW("", "TfIdfVectorizer", ".", 1, 1, 1, lower_tf_idf_vectorizer) \
  ROW("", "ThresholdedRelu", "f", 1, 1, 1, lower_thresholded_relu) \
  ROW("", "Tile", ".nf", 2, 3, 1, lower_tile) \
  ROW("", "TopK", "ni", 1, 2, 2, lower_top_k) \
  ROW("", "Transpose", ".", 1, 1, 1, lower_transpose) \
  ROW("", "Trilu", ".i", 1, 2, 1, lower_trilu) \
  ROW("", "Unique", ".", 1, 1, 4, lower_unique) \
  ROW("", "Unsqueeze", ".i", 1, 2, 1, lower_unsqueeze) \
  ROW("", "Upsample", ".f", 1, 2, 1, lower_upsample) \
  ROW("", "Where", "b*", 3, 3, 1, lower_where) \
  ROW("", "Xor", "b", 2, 2, 1, lower_xor) \
  ROW("com.microsoft", "Attention", "FFFiFFi", 2, 7, 2, lower_ms_attention) \
  ROW("com.microsoft", "BiasAdd", "F", 3, 3, 1, lower_bias_add) \
  ROW("com.microsoft", "BiasGelu", "F", 2, 2, 1, lower_bias_gelu) \
  ROW("com.microsoft", "BiasSoftmax", "F", 2, 2, 1, lower_bias_softmax) \
  ROW("com.microsoft", "BiasSplitGelu", "F", 2, 2, 1, lower_bias_split_gelu) \
  ROW("com.microsoft", "DequantizeLinear", "IfI", 2, 3, 1, lower_dequantize_linear) \
  ROW("com.microsoft", "DynamicQuantizeLSTM", "FqqFiFFFfqfq", 12, 12, 3, lower_dynamic_quantize_lstm) \
  ROW("com.microsoft", "DynamicQuantizeMatMul", "fqfqf", 3, 5, 1, lower_dynamic_quantize_matmul) \
  ROW("com.microsoft", "EmbedLayerNormalization", "iifffffii", 7, 9, 3, lower_embed_layer_normalization) \
  ROW("com.microsoft", "FastGelu", "F", 1, 2, 1, lower_fast_gelu) \
  ROW("com.microsoft", "FusedConv", "F", 2, 4, 1, lower_fused_conv) \
  ROW("com.microsoft", "FusedGemm", "F", 2, 3, 1, lower_fused_gemm) \
  ROW("com.microsoft", "FusedMatMul", "F", 2, 2, 1, lower_fused_matmul) \
  ROW("com.microsoft", "GatherBlockQuantized", ".if.", 3, 4, 1, lower_gather_block_quantized) \
  ROW("com.microsoft", "GatherND", ".i", 2, 2, 1, lower_gather_nd) \
  ROW("com.microsoft", "Gelu", "f", 1, 1, 1, lower_ms_gelu) \
  ROW("com.microsoft", "GemmFastGelu", "F", 2, 3, 1, lower_gemm_fast_gelu) \
  ROW("com.microsoft", "GridSample", ".f", 2, 2, 1, lower_grid_sample) \
  ROW("com.microsoft", "GroupNorm", "f", 3, 3, 1, lower_group_norm) \
  ROW("com.microsoft", "GroupQueryAttention", "FFF..iiFFi.", 7, 16, 4, lower_group_query_attention) \
  ROW("com.microsoft", "MatMulIntegerToFloat", "qqffqqf", 4, 7, 1, lower_matmul_integer_to_float) \
  ROW("com.microsoft", "MatMulNBits", "fi..if", 3, 6, 1, lower_matmul_nbits) \
  ROW("com.microsoft", "MultiHeadAttention", "FFFFiFFFi", 1, 10, 4, lower_multi_head_attention) \
  ROW("com.microsoft", "NhwcConv", "F", 2, 3, 1, lower_nhwc_conv) \
  ROW("com.microsoft", "NhwcFusedConv", "F", 2, 4, 1, lower_nhwc_fused_conv) \
  ROW("com.microsoft", "NhwcMaxPool", "n", 1, 1, 1, lower_nhwc_max_pool) \
  ROW("com.microsoft", "QAttention", "qqfffiqqf", 5, 9, 2, lower_qattention) \
  ROW("com.microsoft", "QEmbedLayerNormalization", "iiQQQQQifffffQ", 18, 18, 2, lower_q_embed_layer_normalization) \
  ROW("com.microsoft", "QGemm", "qfqqfqifq", 6, 9, 1, lower_qgemm) \
  ROW("com.microsoft", "QLinearAdd", "QfQQfQfQ", 7, 8, 1, lower_qlinear_add) \
  ROW("com.microsoft", "QLinearAveragePool", "QfQfQ", 4, 5, 1, lower_qlinear_average_pool) \
  ROW("com.microsoft", "QLinearConcat", "fq.", 5, -1, 1, lower_qlinear_concat) \
  ROW("com.microsoft", "QLinearConv", "qfqqfqfqi", 8, 9, 1, lower_ms_qlinear_conv) \
  ROW("com.microsoft", "QLinearGlobalAveragePool", "QfQfQ", 5, 5, 1, lower_qlinear_global_average_pool) \
  ROW("com.microsoft", "QLinearLeakyRelu", "QfQfQ", 4, 5, 1, lower_qlinear_leaky_relu) \
  ROW("com.microsoft", "QLinearMul", "QfQQfQfQ", 7, 8, 1, lower_qlinear_mul) \
  ROW("com.microsoft", "QLinearSigmoid", "QfQfQ", 4, 5, 1, lower_qlinear_sigmoid) \
  ROW("com.microsoft", "QLinearSoftmax", "QfQfQ", 5, 5, 1, lower_qlinear_softmax) \
  ROW("com.microsoft", "QLinearWhere", "bQfQQfQfQ", 9, 9, 1, lower_qlinear_where) \
  ROW("com.microsoft", "QuantizeLinear", "ff.", 2, 3, 1, lower_quantize_linear) \
  ROW("com.microsoft", "QuickGelu", "f", 1, 1, 1, lower_quick_gelu) \
  ROW("com.microsoft", "Range", "N", 2, 3, 1, lower_range) \
  ROW("com.microsoft", "RotaryEmbedding", "FiFF", 4, 4, 1, lower_ms_rotary_embedding) \
  ROW("com.microsoft", "SkipGroupNorm", "f", 4, 5, 2, lower_skip_group_norm) \
  ROW("com.microsoft", "SkipLayerNormalization", "F", 3, 5, 4, lower_skip_layer_normalization) \
  ROW("com.microsoft", "SkipSimplifiedLayerNormalization", "F", 3, 4, 4, lower_skip_simplified_layer_normalization) \
  ROW("com.microsoft", "TransposeMatMul", "F", 2, 2, 1, lower_fused_matmul) \
  ROW("com.microsoft", "Trilu", ".i", 1, 2, 1, lower_trilu)
// clang-format on

#define DECLARE(domain, op, inputs, min_in, max_in, max_out, function) void function(Lowering&);
LOWTIDE_LOWERINGS(DECLARE)
#undef DECLARE
void lower_stateful(Lowering&);

namespace {

#define AS_ROW(domain, op, inputs, min_in, max_in, max_out, function) \
  LowerRow{domain, op, inputs, min_in, max_in, max_out, function},
constexpr std::array kRows = {LOWTIDE_LOWERINGS(AS_ROW)};
#undef AS_ROW

// Of nodes that are in no file: layout/stateful_calls.h makes them of calls.
constexpr LowerRow of_states(std::string_view builtin) {
  return {core::kStatesDomain, builtin, ".", 1, -1, 1, lower_stateful};
}
constexpr LowerRow kOwnRows[] = {of_states("LSTM"), of_states("RNN"), of_states("SVDF"),
                                 of_states("UNIDIRECTIONAL_SEQUENCE_LSTM"), of_states("UNIDIRECTIONAL_SEQUENCE_RNN")};

constexpr auto key(const LowerRow& row) { return std::tuple(row.domain, row.op); }
constexpr bool sorted_and_unique() {
  for (size_t i = 1; i < kRows.size(); ++i)
    if (!(key(kRows[i - 1]) < key(kRows[i]))) return false;
  return true;
}
static_assert(sorted_and_unique(), "rows are searched by bisection");

}  // namespace

std::span<const LowerRow> lowerings() { return kRows; }

const LowerRow* find_lowering(const onnx::Node& node) {
  const std::string_view domain = node.domain, op = node.op_type;
  auto it = std::lower_bound(kRows.begin(), kRows.end(), std::tuple(domain, op),
                             [](const LowerRow& row, const auto& wanted) { return key(row) < wanted; });
  if (it != kRows.end() && key(*it) == std::tuple(domain, op)) return &*it;
  if (!node.is_stateful_builtin) return nullptr;
  const auto* own = std::find_if(std::begin(kOwnRows), std::end(kOwnRows),
                                 [&](const LowerRow& row) { return key(row) == std::tuple(domain, op); });
  return own != std::end(kOwnRows) ? own : nullptr;
}

}  // namespace lowtide::layout
