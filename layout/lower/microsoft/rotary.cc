// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's RotaryEmbedding (com.microsoft): ONNX's with the inputs in another order, and one position to count
// from as a further form of position_ids. Without rotary_embedding_dim the caches say how long a head is.
// Sources: ONNX Runtime's bert_defs.cc, rotary_embedding.cc and rotary_embedding_helper.h.
#include <fmt/format.h>

#include <vector>

#include "layout/lower/attention.h"
#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

// [B or 1, S]: the position of every element, given as such or by the first one.
Val positions(Lowering& lo, Val ids, Dim length) {
  if (lo.rank(ids) == 2) {
    if (lo.b.dim(ids, 1) == length) return ids;
    if (lo.b.dim(ids, 1) != 1) return ids;
    // A matrix of one element is a position to count from, too.
    if (lo.b.dim(ids, 0) != 1) lo.malformed("position_ids has one column for many elements");
  } else if (lo.rank(ids) > 1 || (lo.rank(ids) == 1 && lo.b.dim(ids, 0) != 1)) {
    lo.malformed(fmt::format("position_ids has rank {} and more than one element", lo.rank(ids)));
  }
  Val steps = lo.b.add(counting(lo, length, lo.dtype(ids)), as_scalar(lo, ids));
  return add_ones(lo, steps, {0});
}

}  // namespace

void lower_ms_rotary_embedding(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) != 3 && lo.rank(x) != 4) lo.malformed(fmt::format("the input has rank {}, not 3 or 4", lo.rank(x)));
  const bool flat = lo.rank(x) == 3;
  lo.ignore_attr("scale");  // for caches that are computed anew, which ONNX Runtime does not do
  if (lo.attr_i("is_packed_batching", 0) != 0)
    lo.unsupported("batches of different lengths in one row (is_packed_batching)");
  Rotation rotation{.cosine = lo.input(2),
                    .sine = lo.input(3),
                    .heads = lo.attr_i("num_heads", 0),
                    .turned = lo.attr_i("rotary_embedding_dim", 0),
                    .interleaved = lo.attr_i("interleaved", 0) != 0};
  if (rotation.turned > 0 && rotation.heads <= 0) lo.malformed("rotary_embedding_dim is given without num_heads");
  if (!flat && rotation.heads > 0 && stream::is_static(lo.b.dim(x, 1)) && lo.b.dim(x, 1) != rotation.heads)
    lo.malformed(fmt::format("the input has {} heads, num_heads is {}", lo.b.dim(x, 1), rotation.heads));
  if (lo.rank(rotation.cosine) != 2 || lo.rank(rotation.sine) != 2) lo.malformed("a cache is no matrix");
  if (rotation.turned == 0) {
    rotation.turned = 2 * lo.need_static(lo.b.dim(rotation.cosine, 1), "the number of angles");
    if (rotation.turned == 0) lo.malformed("the caches are empty");
    const int64_t width = lo.need_static(lo.b.dim(x, -1), "the hidden size");
    if (flat && rotation.heads == 0) rotation.heads = width / rotation.turned;
    if (width != (flat ? rotation.heads : 1) * rotation.turned)
      lo.malformed(fmt::format("heads of {} elements do not fit a hidden size of {}", rotation.turned, width));
  }
  Val at = positions(lo, lo.input(1), lo.b.dim(x, flat ? 1 : 2));
  for (Val* cache : {&rotation.cosine, &rotation.sine}) *cache = lo.b.gather(*cache, at, 0);
  lo.output(0, rotary_embedding(lo, x, rotation));
}

}  // namespace lowtide::layout
