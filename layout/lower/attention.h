// SPDX-License-Identifier: Apache-2.0
// What operators with heads share: ONNX's Attention and RotaryEmbedding, and ONNX Runtime's.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// [B, S, heads * D] as [B, heads, S, D]; 4-D stays.
Val by_heads(Lowering& lo, Val x, int64_t heads);
// bool [queries, keys]: key j takes part for query i up to j = i + past.
Val causal(Lowering& lo, Dim queries, Dim keys, Dim past);

struct Rotation {
  Val cosine, sine;          // [B, S, turned / 2]; B may be 1
  int64_t heads = 0;         // needed where x is [B, S, heads * D]
  int64_t turned = 0;        // how many elements of a head are rotated, the first ones; 0: all
  bool interleaved = false;  // pairs are neighbours, else they are half a head apart
};
// x is [B, heads, S, D] or [B, S, heads * D].
Val rotary_embedding(Lowering& lo, Val x, Rotation rotation);

}  // namespace lowtide::layout
