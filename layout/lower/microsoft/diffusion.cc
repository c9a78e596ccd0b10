// SPDX-License-Identifier: Apache-2.0
// NhwcConv, GroupNorm, SkipGroupNorm, BiasAdd, BiasSplitGelu and GemmFastGelu (com.microsoft): channels-last and fused
// operators that ONNX Runtime's optimiser writes for diffusion models on GPUs. Its CPU provider has no kernels for
// them; the formulas are those of the schemas and the CUDA kernels.
//
// The trap: NhwcConv's weights are [M, kernel..., C / group], whatever its schema says; NhwcFusedConv's are ONNX's.
// Sources: ONNX Runtime's diffusion_defs.cc, bert_defs.cc, fusion_nhwc_conv.py, and its kernels of these names.
#include <fmt/format.h>

#include "layout/lower/conv.h"
#include "layout/lower/matmul.h"
#include "layout/lower/norm.h"
#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

// GroupNorm of x, whose order is given by the attribute channels_last.
void group_norm(Lowering& lo, Val x) {
  Builder& b = lo.b;
  const int64_t activation = lo.need_attr_i("activation");
  if (activation != 0 && activation != 1)
    lo.malformed(fmt::format("attribute 'activation' must be 0 or 1; it is {}", activation));
  const bool last = lo.attr_i("channels_last", 1) != 0;
  const float epsilon = lo.attr_f("epsilon", 1e-5f);
  if (lo.rank(x) != 4) lo.malformed(fmt::format("the input must have rank 4; it has rank {}", lo.rank(x)));
  Val image = last ? channels_first(lo, x) : x;
  for (const size_t at : {1, 2}) check_per_channel(lo, lo.input(at), b.dim(image, 1));
  Val y = group_normalized(lo, image, lo.need_attr_count("groups"), epsilon, lo.input(1));
  if (last) y = channels_last(lo, y);
  y = b.add(y, last ? lo.input(2) : unsqueeze_axes(lo, lo.input(2), {1, 2}));
  lo.output(0, activation == 1 ? b.mul(y, b.logistic(y)) : y);
}

}  // namespace

void lower_nhwc_conv(Lowering& lo) {
  const Val weights = channels_first(lo, lo.input(1));
  const Val y = convolution(lo, channels_first(lo, lo.input(0)), weights, lo.optional_input(2));
  lo.output(0, channels_last(lo, y));
}

void lower_group_norm(Lowering& lo) { group_norm(lo, lo.input(0)); }

// GroupNorm of input + skip + bias. That sum is output 1. The skip may be per channel, [N, C] or [N, 1, 1, C].
void lower_skip_group_norm(Lowering& lo) {
  Builder& b = lo.b;
  if (lo.attr_i("channels_last", 1) == 0)
    lo.unsupported("channels_last = 0 is not supported: it is not defined for skip and bias");
  Val skip = lo.input(3);
  if (lo.rank(skip) == 2) skip = unsqueeze_axes(lo, skip, {1, 2});
  if (lo.rank(skip) != 4) lo.malformed(fmt::format("the skip must have rank 2 or 4; it has rank {}", lo.rank(skip)));
  Val sum = b.add(lo.input(0), skip);
  if (lo.has_input(4)) {
    check_per_channel(lo, lo.input(4), b.dim(sum, 3));
    sum = b.add(sum, lo.input(4));
  }
  group_norm(lo, sum);
  lo.output(1, sum);
}

void lower_bias_add(Lowering& lo) { lo.output(0, lo.b.add(lo.b.add(lo.input(0), lo.input(1)), lo.input(2))); }

// The first half of the last axis times Gelu of the second.
void lower_bias_split_gelu(Lowering& lo) {
  Builder& b = lo.b;
  const Val x = b.add(lo.input(0), lo.input(1));
  const int64_t width = lo.need_static(b.dim(x, -1), "the hidden size");
  if (width % 2 != 0) lo.malformed(fmt::format("the hidden size must be even; it is {}", width));
  const std::vector<Val> halves = b.split(x, std::vector<int64_t>{width / 2, width / 2}, lo.rank(x) - 1);
  lo.output(0, b.mul(halves[0], b.gelu(halves[1], false)));
}

void lower_gemm_fast_gelu(Lowering& lo) {
  Val y = matmul(lo, lo.input(0), lo.input(1));
  if (lo.has_input(2)) y = lo.b.add(y, lo.input(2));
  lo.output(0, lo.b.gelu(y, true));
}

}  // namespace lowtide::layout
