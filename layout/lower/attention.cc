// SPDX-License-Identifier: Apache-2.0
// Attention and RotaryEmbedding. TFLite has no such operators; they are products, a softmax and sums here.
//
// Heads that share keys (grouped queries) are rows of one product: [B, kv heads * shared, S, D] is [B, kv heads,
// shared * S, D] in memory, so keys and values are never repeated. The scale goes to the queries alone.
// Sources: ONNX's Attention (23, 24) and RotaryEmbedding (23).
#include "layout/lower/attention.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "layout/lower/extents.h"
#include "layout/lower/operands.h"

namespace lowtide::layout {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // the score of what takes no part

DType read_precision(Lowering& lo, DType otherwise) {
  // 0 is the attribute's way to say "not given".
  if (lo.attr_i("softmax_precision", 0) == 0) return otherwise;
  return attr_float_dtype(lo, "softmax_precision", otherwise);
}

struct Masking {
  Val allowed;  // bool, true where a key takes part; may be absent
  Val added;    // floats; may be absent
};

void allow(Lowering& lo, Masking& masking, Val condition) {
  masking.allowed = masking.allowed ? lo.b.logical_and(masking.allowed, condition) : condition;
}

// The mask as given, lengthened to all `total` keys by such as take no part.
void read_mask(Lowering& lo, Masking& masking, Val mask, Dim total) {
  const bool flags = lo.dtype(mask) == DType::kBool;
  if (!flags && lo.dtype(mask) != lo.dtype(lo.input(0)))
    lo.malformed("a mask that is neither boolean nor of the queries' type");
  const Dim have = lo.b.dim(mask, -1);
  if (have != total && have != 1 && !core::is_symbol(have) && !core::is_symbol(total)) {
    if (have > total) lo.malformed(fmt::format("the mask has {} keys of {}", have, total));
    std::vector<int64_t> none(static_cast<size_t>(lo.rank(mask)), 0), after = none;
    after.back() = total - have;
    mask = lo.b.pad(mask, none, after, flags ? 0 : kNever);
  }
  (flags ? masking.allowed : masking.added) = mask;
}

Val masked(Lowering& lo, Val scores, const Masking& masking) {
  Builder& b = lo.b;
  if (masking.added) scores = b.add(scores, masking.added);
  if (!masking.allowed) return scores;
  Val never = b.scalar_like(kNever, scores);
  // A constant condition is a constant to add, which is cheaper than a choice. But ADD's kernel gives the lowest number
  // for minus infinity: the softmax does not mind, a reader of the scores does.
  if (b.is_constant(masking.allowed) && !lo.wants_output(3))
    return b.add(scores, b.select(masking.allowed, b.scalar_like(0, scores), never));
  return b.select(masking.allowed, scores, never);
}

Val capped(Lowering& lo, Val scores, float cap) {
  return cap > 0 ? lo.b.mul(lo.b.tanh(lo.b.div(scores, cap)), cap) : scores;
}

// Rotates pairs of the last axis of x by angles whose cosine and sine broadcast to it.
Val rotated(Lowering& lo, Val x, Val cosine, Val sine, bool interleaved) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x);
  const int64_t half = lo.need_static(shape.back(), "the size of a head") / 2;
  int axis = lo.rank(x) - 1;
  std::vector<int64_t> sizes = {half, half};
  if (interleaved) {  // the pairs are neighbours: an axis of their own
    Shape pairs = shape;
    pairs.back() = half;
    pairs.push_back(2);
    x = reshape_to(lo, x, pairs);
    ++axis;
    sizes = {1, 1};
    cosine = add_ones(lo, cosine, {lo.rank(cosine)});
    sine = add_ones(lo, sine, {lo.rank(sine)});
  }
  const std::vector<Val> parts = b.split(x, sizes, axis);
  Val real = b.sub(b.mul(cosine, parts[0]), b.mul(sine, parts[1]));
  Val imaginary = b.add(b.mul(sine, parts[0]), b.mul(cosine, parts[1]));
  return reshape_to(lo, b.concat({real, imaginary}, axis), shape);
}

}  // namespace

Val by_heads(Lowering& lo, Val x, int64_t heads) {
  if (lo.rank(x) == 4) return x;
  if (lo.rank(x) != 3) lo.malformed(fmt::format("an input has rank {}, not 3 or 4", lo.rank(x)));
  const Shape shape = lo.shape(x);
  const int64_t width = lo.need_static(shape[2], "the hidden size");
  if (heads < 1 || width % heads != 0)
    lo.malformed(fmt::format("{} heads do not divide a hidden size of {}", heads, width));
  return lo.b.transpose(reshape_to(lo, x, std::vector<Dim>{shape[0], shape[1], heads, width / heads}), {0, 2, 1, 3});
}

Val causal(Lowering& lo, Dim queries, Dim keys, Dim past) {
  Builder& b = lo.b;
  Val row = add_ones(lo, counting(lo, queries, DType::kInt32), {1});
  Val last = b.add(row, extent(lo, past, DType::kInt32));
  return b.less_equal(add_ones(lo, counting(lo, keys, DType::kInt32), {0}), last);
}

Val rotary_embedding(Lowering& lo, Val x, Rotation r) {
  Builder& b = lo.b;
  const bool flat = lo.rank(x) == 3;
  if (!flat && lo.rank(x) != 4) lo.malformed(fmt::format("the input has rank {}, not 3 or 4", lo.rank(x)));
  const Shape shape = lo.shape(x);
  if (flat) {
    const int64_t hidden = lo.need_static(shape[2], "the hidden size");
    if (r.heads < 1 || hidden % r.heads != 0)
      lo.malformed(fmt::format("{} heads do not divide a hidden size of {}", r.heads, hidden));
    x = reshape_to(lo, x, std::vector<Dim>{shape[0], shape[1], r.heads, hidden / r.heads});
  }
  const int64_t width = lo.need_static(b.dim(x, -1), "the size of a head");
  if (r.turned == 0) r.turned = width;
  if (r.turned < 0 || r.turned > width || r.turned % 2 != 0)
    lo.malformed(fmt::format("rotary_embedding_dim {} does not fit heads of {}", r.turned, width));
  for (Val* angles : {&r.cosine, &r.sine}) {
    if (stream::is_static(b.dim(*angles, -1)) && b.dim(*angles, -1) != r.turned / 2)
      lo.malformed(fmt::format("a cache has {} angles for {} elements", b.dim(*angles, -1), r.turned));
    *angles = add_ones(lo, *angles, {flat ? 2 : 1});
  }
  if (r.turned == width) return reshape_to(lo, rotated(lo, x, r.cosine, r.sine, r.interleaved), shape);
  const std::vector<Val> parts = b.split(x, std::vector<int64_t>{r.turned, width - r.turned}, 3);
  return reshape_to(lo, b.concat({rotated(lo, parts[0], r.cosine, r.sine, r.interleaved), parts[1]}, 3), shape);
}

void lower_attention(Lowering& lo) {
  Builder& b = lo.b;
  const bool flat = lo.rank(lo.input(0)) == 3;
  const int64_t query_heads = lo.attr_i("q_num_heads", 0), key_heads = lo.attr_i("kv_num_heads", 0);
  Val q = by_heads(lo, lo.input(0), query_heads);
  Val k = by_heads(lo, lo.input(1), key_heads), v = by_heads(lo, lo.input(2), key_heads);
  const DType dtype = lo.dtype(q);
  Dim past = 0;
  if (lo.has_input(4)) {
    past = b.dim(lo.input(4), 2);
    k = b.concat({lo.input(4), k}, 2);
  }
  if (lo.has_input(5)) v = b.concat({lo.input(5), v}, 2);
  const Shape queries = lo.shape(q), keys = lo.shape(k);
  const int64_t heads = lo.need_static(queries[1], "the number of heads");
  const int64_t shared_by = lo.need_static(keys[1], "the number of key heads");
  if (shared_by < 1 || heads % shared_by != 0)
    lo.malformed(fmt::format("{} key heads do not divide {} heads", shared_by, heads));
  const int64_t width = lo.need_static(queries[3], "the size of a head");
  const float scale = lo.has_attr("scale") ? lo.attr_f("scale", 0) : 1 / std::sqrt(static_cast<float>(width));

  const Dim rows = b.graph.symbols.mul(queries[2], heads / shared_by);
  q = b.mul(q, scale);
  if (heads != shared_by) q = reshape_to(lo, q, std::vector<Dim>{queries[0], shared_by, rows, width});
  Val scores = b.batch_matmul(q, k, false, true);
  const Shape all = {queries[0], heads, queries[2], keys[2]};
  if (heads != shared_by) scores = reshape_to(lo, scores, all);

  std::array<Val, 4> stages;  // what qk_matmul_output_mode can ask for
  stages[0] = scores;
  Masking masking;
  if (lo.has_input(3)) read_mask(lo, masking, lo.input(3), keys[2]);
  if (lo.attr_i("is_causal", 0) != 0) allow(lo, masking, causal(lo, queries[2], keys[2], past));
  if (lo.has_input(6)) {
    Val used = b.cast(lo.input(6), DType::kInt32);
    allow(lo, masking, b.less(counting(lo, keys[2], DType::kInt32), add_ones(lo, used, {1, 2, 3})));
  }
  stages[1] = scores = masked(lo, scores, masking);
  stages[2] = scores = capped(lo, scores, lo.attr_f("softcap", 0));
  scores = b.cast(b.softmax(b.cast(scores, read_precision(lo, dtype))), dtype);
  stages[3] = scores;

  if (heads != shared_by) scores = reshape_to(lo, scores, std::vector<Dim>{queries[0], shared_by, rows, keys[2]});
  Val y = b.batch_matmul(scores, v);
  const Dim value_width = b.dim(v, -1);
  if (heads != shared_by) y = reshape_to(lo, y, std::vector<Dim>{queries[0], heads, queries[2], value_width});
  if (flat)
    y = reshape_to(lo, b.transpose(y, {0, 2, 1, 3}),
                   std::vector<Dim>{queries[0], queries[2], b.graph.symbols.mul(value_width, heads)});
  lo.output(0, y);
  lo.output(1, k);
  lo.output(2, v);
  const int64_t mode = lo.attr_i("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) lo.malformed(fmt::format("qk_matmul_output_mode {} is unknown", mode));
  lo.output(3, stages[static_cast<size_t>(mode)]);
}

// The caches are [positions, half] with position_ids, else [B, S, half].
void lower_rotary_embedding(Lowering& lo) {
  Rotation rotation{.cosine = lo.input(1),
                    .sine = lo.input(2),
                    .heads = lo.attr_i("num_heads", 0),
                    .turned = lo.attr_i("rotary_embedding_dim", 0),
                    .interleaved = lo.attr_i("interleaved", 0) != 0};
  for (Val* cache : {&rotation.cosine, &rotation.sine}) {
    if (lo.has_input(3)) *cache = lo.b.gather(*cache, lo.input(3), 0);
    if (lo.rank(*cache) != 3)
      lo.malformed(fmt::format("a cache has rank {}, not {}", lo.rank(*cache), lo.has_input(3) ? 2 : 3));
  }
  lo.output(0, rotary_embedding(lo, lo.input(0), rotation));
}

}  // namespace lowtide::layout
