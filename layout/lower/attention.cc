// SPDX-License-Identifier: Apache-2.0
// Attention and RotaryEmbedding, composed of products, a softmax and sums: TFLite has no such operators.
//
// Query heads that share a key head (grouped queries) are computed as more rows of one product: [B, kv heads * shared,
// S, D] and [B, kv heads, shared * S, D] have the same bytes, so keys and values are not repeated. Only the queries are
// scaled. Sources: ONNX's Attention (23, 24; as ONNX 1.23 corrected its text) and RotaryEmbedding (23), ONNX Runtime's
// kernel; docs/decisions/disputed-semantics.md.
#include "layout/lower/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "layout/lower/attributes.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();  // what is added to the score of a masked key
constexpr double kLowest = std::numeric_limits<float>::lowest();

struct Masking {
  Val allowed;  // bool, true where a key is used; may be absent
  Val added;    // floats; may be absent
};

void allow(Lowering& lo, Masking& masking, Val condition) {
  masking.allowed = masking.allowed ? lo.b.logical_and(masking.allowed, condition) : condition;
}

// The given mask, padded to `total` keys with masked ones.
void read_mask(Lowering& lo, Masking& masking, Val mask, Dim total) {
  const bool flags = lo.dtype(mask) == DType::kBool;
  // Numbers of any type are added, integers too.
  if (!flags) mask = lo.b.cast(mask, lo.dtype(lo.input(0)));
  const Dim have = lo.b.dim(mask, -1);
  if (have != total && have != 1 && !core::is_symbol(have) && !core::is_symbol(total)) {
    if (have > total) lo.malformed(fmt::format("the mask has {} keys, but there are only {}", have, total));
    std::vector<int64_t> none(static_cast<size_t>(lo.rank(mask)), 0), after = none;
    after.back() = total - have;
    mask = lo.b.pad(mask, none, after, flags ? 0 : kMasked);
  }
  if (flags) return allow(lo, masking, mask);
  masking.added = mask;
}

// What is added to the scores. The lowest number stands for minus infinity: the softmax is the same, and no kernel
// makes NaN of a query that may look at no key.
Val addend(Lowering& lo, const Masking& masking, Val scores) {
  Builder& b = lo.b;
  const Val lowest = b.scalar_like(kLowest, scores);
  if (!masking.added) return b.select(masking.allowed, b.scalar_like(0, scores), lowest);
  return b.maximum(masking.allowed ? b.select(masking.allowed, masking.added, lowest) : masking.added, lowest);
}

// Whether a query may look at any key, bool, the addend's shape with one key; absent where each query may. ONNX Runtime
// takes the lowest number for minus infinity here (docs/decisions/disputed-semantics.md).
Val sees_a_key(Lowering& lo, const Masking& masking, Val added) {
  Builder& b = lo.b;
  const auto over_keys = [&](Kind kind, Val x) { return b.reduce(kind, x, std::array{lo.rank(x) - 1}, true); };
  const Val sees = masking.added ? b.greater(over_keys(Kind::kReduceMax, added), b.scalar_like(kLowest, added))
                                 : over_keys(Kind::kReduceAny, masking.allowed);
  const auto known = lo.numbers(sees);
  return known && std::all_of(known->begin(), known->end(), [](double x) { return x != 0; }) ? Val{} : sees;
}

// The masked scores where the model gives them away: with their infinities.
Val masked_with_infinities(Lowering& lo, Val scores, const Masking& masking) {
  Builder& b = lo.b;
  const Val never = b.scalar_like(kMasked, scores);
  if (masking.added)  // the kernel of ADD keeps no infinity
    scores = b.select(b.less(masking.added, b.scalar_like(kLowest, scores)), never, b.add(scores, masking.added));
  return masking.allowed ? b.select(masking.allowed, scores, never) : scores;
}

// The stage of the scores that output 3 shows. The order of mask and cap is another in ONNX 1.22.
int64_t shown_stage(Lowering& lo, bool is_masked, bool is_capped) {
  const int64_t mode = lo.attr_i("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    lo.malformed(fmt::format("attribute 'qk_matmul_output_mode' must be 0 to 3; it is {}", mode));
  const bool depends = mode == 1 ? is_masked || is_capped : mode == 2 && is_masked && is_capped;
  if (depends && lo.wants_output(3))
    lo.unsupported(fmt::format("the scores of qk_matmul_output_mode {} are masked, then capped in ONNX up to 1.21, but "
                               "capped, then masked in later versions and in ONNX Runtime",
                               mode),
                   "use mode 0 or 3, or remove this output");
  return mode;
}

// bool, [queries, keys] or [B, 1, queries, keys]: the keys up to the query's own. The queries are the last of the keys
// that are there: of `used` ones (int32, [B, 1, 1, 1]) in a cache that the caller fills, else of `past` and the new
// ones.
Val keys_so_far(Lowering& lo, Dim queries, Dim keys, Dim past, Val used) {
  Builder& b = lo.b;
  if (!used || past != Dim{0}) return causal_mask(lo, queries, keys, past);
  Val before = b.sub(used, dim_as_scalar(lo, queries, DType::kInt32));
  Val last = b.add(unsqueeze_axes(lo, iota(lo, queries, DType::kInt32), {1}), before);
  return b.less_equal(unsqueeze_axes(lo, iota(lo, keys, DType::kInt32), {0}), last);
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
    cosine = unsqueeze_axes(lo, cosine, {lo.rank(cosine)});
    sine = unsqueeze_axes(lo, sine, {lo.rank(sine)});
  }
  const std::vector<Val> parts = b.split(x, sizes, axis);
  const Val turned_away = b.mul(sine, parts[1]);
  Val real = b.sub(b.mul(cosine, parts[0]), turned_away);
  const Val kept = b.mul(cosine, parts[1]);
  Val imaginary = b.add(b.mul(sine, parts[0]), kept);
  return reshape_to(lo, b.concat({real, imaginary}, axis), shape);
}

}  // namespace

Val split_heads(Lowering& lo, Val x, int64_t heads) {
  if (lo.rank(x) == 4) return x;
  if (lo.rank(x) != 3)
    lo.malformed(fmt::format("queries, keys and values must have rank 3 or 4; one has rank {}", lo.rank(x)));
  const Shape shape = lo.shape(x);
  const int64_t width = lo.need_static(shape[2], "the hidden size");
  if (heads < 1 || width % heads != 0)
    lo.malformed(fmt::format("the hidden size {} must be a multiple of the number of heads {}", width, heads));
  return lo.b.transpose(reshape_to(lo, x, std::vector<Dim>{shape[0], shape[1], heads, width / heads}), {0, 2, 1, 3});
}

Val causal_mask(Lowering& lo, Dim queries, Dim keys, Dim past) {
  Builder& b = lo.b;
  Val row = unsqueeze_axes(lo, iota(lo, queries, DType::kInt32), {1});
  Val last = b.add(row, dim_as_scalar(lo, past, DType::kInt32));
  return b.less_equal(unsqueeze_axes(lo, iota(lo, keys, DType::kInt32), {0}), last);
}

Val rotary_embedding(Lowering& lo, Val x, Rotation r) {
  Builder& b = lo.b;
  const bool flat = lo.rank(x) == 3;
  if (!flat && lo.rank(x) != 4)
    lo.malformed(fmt::format("the input must have rank 3 or 4; it has rank {}", lo.rank(x)));
  const Shape shape = lo.shape(x);
  if (flat) {
    const int64_t hidden = lo.need_static(shape[2], "the hidden size");
    if (r.heads < 1 || hidden % r.heads != 0)
      lo.malformed(fmt::format("the hidden size {} must be a multiple of num_heads {}", hidden, r.heads));
    x = reshape_to(lo, x, std::vector<Dim>{shape[0], shape[1], r.heads, hidden / r.heads});
  }
  const int64_t width = lo.need_static(b.dim(x, -1), "the size of a head");
  if (r.rotated_size == 0) r.rotated_size = width;
  if (r.rotated_size < 0 || r.rotated_size > width || r.rotated_size % 2 != 0)
    lo.malformed(
        fmt::format("rotary_embedding_dim must be even and at most the head size {}; it is {}", width, r.rotated_size));
  for (Val* angles : {&r.cosine, &r.sine}) {
    if (stream::is_static(b.dim(*angles, -1)) && b.dim(*angles, -1) != r.rotated_size / 2)
      lo.malformed(fmt::format("the cosine and sine caches must have {} columns for {} rotated elements; one has {}",
                               r.rotated_size / 2, r.rotated_size, b.dim(*angles, -1)));
    *angles = unsqueeze_axes(lo, *angles, {flat ? 2 : 1});
  }
  if (r.rotated_size == width) return reshape_to(lo, rotated(lo, x, r.cosine, r.sine, r.interleaved), shape);
  const std::vector<Val> parts = b.split(x, std::vector<int64_t>{r.rotated_size, width - r.rotated_size}, 3);
  return reshape_to(lo, b.concat({rotated(lo, parts[0], r.cosine, r.sine, r.interleaved), parts[1]}, 3), shape);
}

void lower_attention(Lowering& lo) {
  Builder& b = lo.b;
  const bool flat = lo.rank(lo.input(0)) == 3;
  const int64_t query_heads = lo.attr_count("q_num_heads", 0), key_heads = lo.attr_count("kv_num_heads", 0);
  Val q = split_heads(lo, lo.input(0), query_heads);
  Val k = split_heads(lo, lo.input(1), key_heads), v = split_heads(lo, lo.input(2), key_heads);
  const DType dtype = lo.dtype(q);
  Dim past = 0;
  if (lo.has_input(4)) {
    past = b.dim(lo.input(4), 2);
    k = b.concat({lo.input(4), k}, 2);
  }
  if (lo.has_input(5)) v = b.concat({lo.input(5), v}, 2);
  const Shape queries = lo.shape(q), keys = lo.shape(k);
  const int64_t heads = lo.need_static(queries[1], "the number of heads");
  const int64_t kv_heads = lo.need_static(keys[1], "the number of key heads");
  if (kv_heads < 1 || heads % kv_heads != 0)
    lo.malformed(
        fmt::format("the number of query heads {} must be a multiple of the number of key heads {}", heads, kv_heads));
  const int64_t width = lo.need_static(queries[3], "the size of a head");
  const float scale = lo.has_attr("scale") ? lo.attr_f("scale", 0) : 1 / std::sqrt(static_cast<float>(width));

  const Dim rows = b.graph.symbols.mul(queries[2], heads / kv_heads);
  q = b.mul(q, scale);
  if (heads != kv_heads) q = reshape_to(lo, q, std::vector<Dim>{queries[0], kv_heads, rows, width});
  Val scores = b.batch_matmul(q, k, false, true);
  const Shape all = {queries[0], heads, queries[2], keys[2]};
  if (heads != kv_heads) scores = reshape_to(lo, scores, all);

  std::array<Val, 4> stages;  // by qk_matmul_output_mode
  stages[0] = scores;
  const float softcap = lo.attr_f("softcap", 0);
  stages[1] = scores = capped(lo, scores, softcap);
  Masking masking;
  Val used;  // keys of a cache that the caller fills
  if (lo.has_input(6)) {
    used = unsqueeze_axes(lo, b.cast(lo.input(6), DType::kInt32), {1, 2, 3});
    allow(lo, masking, b.less(iota(lo, keys[2], DType::kInt32), used));
  }
  if (lo.has_input(3)) read_mask(lo, masking, lo.input(3), keys[2]);
  const bool by_position_only = !masking.allowed && !masking.added;  // each query sees the first key
  if (lo.attr_i("is_causal", 0) == 1) allow(lo, masking, keys_so_far(lo, queries[2], keys[2], past, used));

  const bool is_masked = masking.allowed || masking.added;
  const int64_t mode = shown_stage(lo, is_masked, softcap > 0);
  Val sees;
  if (is_masked) {
    const Val added = addend(lo, masking, scores);
    if (!by_position_only) sees = sees_a_key(lo, masking, added);
    const bool is_shown = lo.wants_output(3) && mode >= 2;
    scores = is_shown ? masked_with_infinities(lo, scores, masking) : b.add(scores, added);
  }
  stages[2] = scores;
  scores = b.cast(b.softmax(b.cast(scores, attr_float_dtype(lo, "softmax_precision", dtype))), dtype);
  if (sees && lo.wants_output(3)) scores = b.select(sees, scores, b.scalar_like(0, scores));
  stages[3] = scores;

  if (heads != kv_heads) scores = reshape_to(lo, scores, std::vector<Dim>{queries[0], kv_heads, rows, keys[2]});
  Val y = b.batch_matmul(scores, v);
  const Dim value_width = b.dim(v, -1);
  if (heads != kv_heads) y = reshape_to(lo, y, std::vector<Dim>{queries[0], heads, queries[2], value_width});
  if (sees && !lo.wants_output(3)) y = b.mul(y, b.cast(sees, dtype));
  if (flat)
    y = reshape_to(lo, b.transpose(y, {0, 2, 1, 3}),
                   std::vector<Dim>{queries[0], queries[2], b.graph.symbols.mul(value_width, heads)});
  lo.output(0, y);
  lo.output(1, k);
  lo.output(2, v);
  lo.output(3, stages[static_cast<size_t>(mode)]);
}

// The caches are [positions, half] with position_ids, else [B, S, half].
void lower_rotary_embedding(Lowering& lo) {
  Rotation rotation{.cosine = lo.input(1),
                    .sine = lo.input(2),
                    .heads = lo.attr_count("num_heads", 0),
                    .rotated_size = lo.attr_count("rotary_embedding_dim", 0),
                    .interleaved = lo.attr_i("interleaved", 0) == 1};  // to ONNX Runtime, 2 and -1 are not
  for (Val* cache : {&rotation.cosine, &rotation.sine}) {
    if (lo.has_input(3)) *cache = lo.b.gather(*cache, lo.input(3), 0);
    if (lo.rank(*cache) != 3)
      lo.malformed(lo.has_input(3) ? "the caches and position_ids must have rank 2"
                                   : "without position_ids the caches must have rank 3");
  }
  lo.output(0, rotary_embedding(lo, lo.input(0), rotation));
}

}  // namespace lowtide::layout
