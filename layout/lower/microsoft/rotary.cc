// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's RotaryEmbedding (com.microsoft): as ONNX's, with another order of inputs, and position_ids that may be
// one start position. Without rotary_embedding_dim the width of the caches gives the size of a head. Sources: ONNX
// Runtime's bert_defs.cc, rotary_embedding.cc and rotary_embedding_helper.h.
#include <fmt/format.h>

#include <vector>

#include "layout/lower/attention.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// [B or 1, S]: the position of every token, from all positions or from the first one.
Val token_positions(Lowering& lo, Val ids, Dim length) {
  if (lo.rank(ids) == 2) {
    if (lo.b.dim(ids, 1) == length) return ids;
    if (lo.b.dim(ids, 1) != 1) return ids;
    // A matrix of one element is a start position, too.
    if (lo.b.dim(ids, 0) != 1)
      lo.misfit(fmt::format("position_ids must have shape [batch, length] or one element; it has shape {}",
                            stream::to_string(lo.shape(ids))));
  } else if (lo.rank(ids) > 1 || (lo.rank(ids) == 1 && lo.b.dim(ids, 0) != 1)) {
    lo.misfit(
        fmt::format("position_ids must have rank 2 or one element; it has shape {}", stream::to_string(lo.shape(ids))));
  }
  const Val first = as_scalar(lo, ids);
  Val steps = lo.b.add(iota(lo, length, lo.dtype(ids)), first);
  return unsqueeze_axes(lo, steps, {0});
}

}  // namespace

void lower_ms_rotary_embedding(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) != 3 && lo.rank(x) != 4)
    lo.malformed(fmt::format("the input must have rank 3 or 4; it has rank {}", lo.rank(x)));
  const bool flat = lo.rank(x) == 3;
  lo.ignore_attr("scale");  // for caches that are recomputed, which ONNX Runtime does not do
  if (lo.attr_i("is_packed_batching", 0) != 0) lo.unsupported("packed batches (is_packed_batching) are not supported");
  Rotation rotation{.cosine = lo.input(2),
                    .sine = lo.input(3),
                    .heads = lo.attr_count("num_heads", 0),
                    .rotated_size = lo.attr_count("rotary_embedding_dim", 0),
                    .interleaved = lo.attr_i("interleaved", 0) == 1};
  if (rotation.rotated_size > 0 && rotation.heads <= 0)
    lo.malformed("attribute 'rotary_embedding_dim' requires 'num_heads'");
  if (!flat && rotation.heads > 0 && stream::is_static(lo.b.dim(x, 1)) && lo.b.dim(x, 1) != rotation.heads)
    lo.malformed(fmt::format("the input has {} heads, but num_heads is {}", lo.b.dim(x, 1), rotation.heads));
  if (lo.rank(rotation.cosine) != 2 || lo.rank(rotation.sine) != 2)
    lo.malformed(fmt::format("the cosine and sine caches must have rank 2; they have ranks {} and {}",
                             lo.rank(rotation.cosine), lo.rank(rotation.sine)));
  if (rotation.rotated_size == 0) {
    rotation.rotated_size = 2 * lo.need_static(lo.b.dim(rotation.cosine, 1), "the number of angles");
    if (rotation.rotated_size == 0) lo.malformed("the cosine and sine caches must not be empty");
    const int64_t width = lo.need_static(lo.b.dim(x, -1), "the hidden size");
    if (flat && rotation.heads == 0) rotation.heads = width / rotation.rotated_size;
    if (width != (flat ? rotation.heads : 1) * rotation.rotated_size)
      lo.malformed(fmt::format("the hidden size {} must be a multiple of the head size {} given by the caches", width,
                               rotation.rotated_size));
  }
  Val at = token_positions(lo, lo.input(1), lo.b.dim(x, flat ? 1 : 2));
  for (Val* cache : {&rotation.cosine, &rotation.sine}) *cache = lo.b.gather(*cache, at, 0);
  lo.output(0, rotary_embedding(lo, x, rotation));
}

}  // namespace lowtide::layout
