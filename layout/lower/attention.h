// SPDX-License-Identifier: Apache-2.0
// Shared by the attention and rotary embedding operators of ONNX and of ONNX Runtime.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// [B, S, heads * D] as [B, heads, S, D]; a tensor of rank 4 is returned as it is.
Val split_heads(Lowering& lo, Val x, int64_t heads);
// The causal mask, bool [queries, keys]: query i sees the keys j <= i + past.
Val causal_mask(Lowering& lo, Dim queries, Dim keys, Dim past);

struct Rotation {
  Val cosine, sine;          // [B, S, rotated_size / 2]; B may be 1
  int64_t heads = 0;         // needed where x is [B, S, heads * D]
  int64_t rotated_size = 0;  // how many of the first elements of a head are rotated; 0: all
  bool interleaved = false;  // pairs are neighbours, else they are half a head apart
};
// x is [B, heads, S, D] or [B, S, heads * D].
Val rotary_embedding(Lowering& lo, Val x, Rotation rotation);

}  // namespace lowtide::layout
