// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's GroupQueryAttention (com.microsoft) with a cache of floats.
//
// Every batch entry has a length of its own (seqlens_k + 1, new tokens included), so new keys are put behind the
// entry's own past, not behind the cache: row t of the present is row t of the past, a new row, or zero. Whether there
// is a past at all is told by total_sequence_length: a first prompt has as many tokens as the total. Sources: ONNX
// Runtime's bert_defs.cc, group_query_attention.cc, group_query_attention_helper.h, gqa_attention_base.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "layout/lower/attention.h"
#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

struct Grouped {
  int64_t heads = 0, shared_by = 0;  // of queries; of keys and values
  Val q, k, v;                       // [B, heads, S, D], new tokens only
  int64_t tokens = 0, total = 0;     // S; of the longest entry, new tokens included
  int64_t capacity = 0;              // rows of the present
  bool prompt = false;
  Val before;  // i32 [B], or [1] for a prompt: how many tokens each entry has in its past
};

void refuse_what_is_not_expressed(Lowering& lo) {
  for (size_t i = 12; i < lo.input_count(); ++i)
    if (lo.has_input(i)) lo.unsupported(fmt::format("input {} of GroupQueryAttention (scales, norms)", i));
  if (lo.attr_i("causal", 1) != 1) lo.unsupported("attention to later tokens (causal is 0)");
  if (lo.attr_i("sliding_window_cache", 0) != 0) lo.unsupported("a cache of a window (sliding_window_cache)");
  if (lo.attr_i("qk_output", 0) != 0 || lo.wants_output(3)) lo.unsupported("the scores as an output");
  if (lo.attr_s("k_quant_type", "NONE") != "NONE" || lo.attr_s("v_quant_type", "NONE") != "NONE")
    lo.unsupported("a quantized cache");
  lo.ignore_attr("kv_cache_bit_width");  // of a quantized cache
  lo.ignore_attr("qk_norm_epsilon");     // of norms, which are refused with their inputs
}

void read_heads(Lowering& lo, Grouped& g) {
  g.heads = lo.need_attr_i("num_heads");
  g.shared_by = lo.need_attr_i("kv_num_heads");
  if (g.heads < 1 || g.shared_by < 1 || g.heads % g.shared_by != 0)
    lo.malformed(fmt::format("{} key heads do not divide {} heads", g.shared_by, g.heads));
  Val q = lo.input(0), k = lo.optional_input(1), v = lo.optional_input(2);
  if (lo.rank(q) != 3 || static_cast<bool>(k) != static_cast<bool>(v))
    lo.malformed("the query has a rank other than 3, or one of key and value is missing");
  if (!k) {  // all three in one
    const int64_t all = lo.need_static(lo.b.dim(q, 2), "the hidden size"), parts = g.heads + 2 * g.shared_by;
    if (all % parts != 0) lo.malformed(fmt::format("{} heads do not divide a hidden size of {}", parts, all));
    const int64_t width = all / parts, shared = g.shared_by * width;
    const std::vector<Val> split = lo.b.split(q, std::vector<int64_t>{g.heads * width, shared, shared}, 2);
    q = split[0], k = split[1], v = split[2];
  }
  g.q = by_heads(lo, q, g.heads), g.k = by_heads(lo, k, g.shared_by), g.v = by_heads(lo, v, g.shared_by);
}

void read_lengths(Lowering& lo, Grouped& g) {
  Builder& b = lo.b;
  g.tokens = lo.need_static(b.dim(g.q, 2), "the number of tokens");
  const std::vector<int64_t> total = lo.need_ints(lo.input(6), "total_sequence_length");
  if (total.size() != 1 || total[0] < g.tokens)
    lo.malformed(fmt::format("total_sequence_length is not one number of {} or more", g.tokens));
  if (lo.has_input(3) != lo.has_input(4)) lo.malformed("past_key and past_value are given together");
  const int64_t past = lo.has_input(3) ? lo.need_static(b.dim(lo.input(3), 2), "the length of the past") : 0;
  g.total = total[0];
  g.capacity = std::max(g.total, past);
  g.prompt = g.total == g.tokens;
  if (!g.prompt && !lo.has_input(3)) lo.malformed("the total is longer than the tokens, but there is no past");
  if (lo.rank(lo.input(5)) != 1) lo.malformed(fmt::format("seqlens_k has rank {}, not 1", lo.rank(lo.input(5))));
  Val lengths = b.cast(lo.input(5), DType::kInt32);
  g.before = g.prompt ? b.i32({0}) : b.sub(b.add(lengths, 1.0), static_cast<double>(g.tokens));
}

// [B or 1, S]: where each token stands. Of given positions a prompt reads the very first only, and counts from there.
Val positions(Lowering& lo, const Grouped& g) {
  Builder& b = lo.b;
  Val steps = counting(lo, g.tokens, DType::kInt32);
  if (!lo.has_input(9)) return b.add(steps, add_ones(lo, g.before, {1}));
  Val given = b.cast(lo.input(9), DType::kInt32);
  if (lo.rank(given) != 2) lo.malformed(fmt::format("position_ids has rank {}, not 2", lo.rank(given)));
  if (!g.prompt) return given;
  Val first = b.slice(given, std::vector<int64_t>{0, 0}, std::vector<Dim>{1, 1});
  return b.add(add_ones(lo, steps, {0}), first);
}

void rotate(Lowering& lo, Grouped& g) {
  Builder& b = lo.b;
  const bool interleaved = lo.attr_i("rotary_interleaved", 0) == 1;
  if (lo.attr_i("do_rotary", 0) != 1) return;
  Val at = positions(lo, g);
  Rotation rotation{.cosine = b.gather(lo.input(7), at, 0),
                    .sine = b.gather(lo.input(8), at, 0),
                    .turned = 2 * lo.need_static(b.dim(lo.input(7), 1), "the number of angles"),
                    .interleaved = interleaved};
  g.q = rotary_embedding(lo, g.q, rotation);
  g.k = rotary_embedding(lo, g.k, rotation);
}

// All rows: those of the past, the new ones behind them, zeros.
Val present(Lowering& lo, const Grouped& g, Val past, Val fresh) {
  Builder& b = lo.b;
  if (g.prompt)
    return b.pad(fresh, std::vector<int64_t>{0, 0, 0, 0}, std::vector<int64_t>{0, 0, g.capacity - g.tokens, 0}, 0);
  const auto old_rows = static_cast<double>(lo.need_static(b.dim(past, 2), "the length of the past"));
  const auto new_rows = static_cast<double>(g.tokens);
  Val rows = b.concat({past, b.pad(fresh, std::vector<int64_t>{0, 0, 0, 0}, std::vector<int64_t>{0, 0, 1, 0}, 0)}, 2);
  Val before = add_ones(lo, g.before, {1});  // [B, 1]
  Val row = counting(lo, g.capacity, DType::kInt32);
  Val behind = b.sub(row, before);
  Val zero = b.scalar(old_rows + new_rows, DType::kInt32);
  Val from_new = b.select(b.less(behind, b.scalar(new_rows, DType::kInt32)), b.add(behind, old_rows), zero);
  Val from = b.select(b.less(row, before), row, from_new);
  return b.gather(rows, from, 2, 1);
}

// [B or 1, 1, S, T]: each token sees itself and what is before it, as far back as the window reaches.
Val visible(Lowering& lo, const Grouped& g) {
  Builder& b = lo.b;
  Val token = add_ones(lo, counting(lo, g.tokens, DType::kInt32), {1});
  Val last = b.add(token, add_ones(lo, g.before, {1, 2, 3}));
  Val row = counting(lo, g.capacity, DType::kInt32);
  Val seen = b.less_equal(row, last);
  const int64_t window = lo.attr_i("local_window_size", -1);
  if (window <= 0 || window >= g.capacity) return seen;
  return b.logical_and(seen, b.greater(row, b.sub(last, static_cast<double>(window))));
}

// attention_bias, [B or 1, heads or 1, S, total], for all rows of the present: those behind the total are not visible.
Val bias(Lowering& lo, const Grouped& g) {
  Val given = lo.input(10);
  if (lo.rank(given) != 4) lo.malformed(fmt::format("attention_bias has rank {}, not 4", lo.rank(given)));
  if (lo.b.dim(given, 3) != g.total)
    lo.malformed(fmt::format("attention_bias is not for {} tokens (total_sequence_length)", g.total));
  return lo.b.pad(given, std::vector<int64_t>(4, 0), std::vector<int64_t>{0, 0, 0, g.capacity - g.total}, 0);
}

// Softmax along the last axis. With head_sink or smooth_softmax something takes part that no value belongs to, a score
// for each head or 0: it only takes weight from the others.
Val weights(Lowering& lo, Val scores) {
  Builder& b = lo.b;
  const bool smooth = lo.attr_i("smooth_softmax", -1) == 1;
  if (!smooth && !lo.has_input(11)) return b.softmax(scores);
  const Shape shape = lo.shape(scores);
  Val sink = b.scalar_like(0, scores);
  if (lo.has_input(11)) {
    if (lo.shape(lo.input(11)) != Shape{shape[1]}) lo.malformed("head_sink has not an element for each head");
    sink = add_ones(lo, lo.input(11), {0, 2, 3});
  }
  Shape column = shape;
  column.back() = 1;
  Val all = b.softmax(b.concat({scores, b.broadcast_to(sink, column)}, 3));
  return b.slice(all, std::vector<int64_t>(4, 0), std::vector<Dim>{-1, -1, -1, shape[3]});
}

}  // namespace

void lower_group_query_attention(Lowering& lo) {
  Builder& b = lo.b;
  refuse_what_is_not_expressed(lo);
  Grouped g;
  read_heads(lo, g);
  read_lengths(lo, g);
  rotate(lo, g);
  Val k = present(lo, g, lo.optional_input(3), g.k), v = present(lo, g, lo.optional_input(4), g.v);

  const Dim batch = b.dim(g.q, 0);
  const int64_t width = lo.need_static(b.dim(g.q, 3), "the size of a head"), rows = g.heads / g.shared_by * g.tokens;
  float scale = lo.attr_f("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(width));
  Val q = reshape_to(lo, b.mul(g.q, scale), std::vector<Dim>{batch, g.shared_by, rows, width});
  Val scores =
      reshape_to(lo, b.batch_matmul(q, k, false, true), std::vector<Dim>{batch, g.heads, g.tokens, g.capacity});
  const float cap = lo.attr_f("softcap", 0);
  if (cap > 0) scores = b.mul(b.tanh(b.div(scores, cap)), cap);
  if (lo.has_input(10)) scores = b.add(scores, bias(lo, g));
  scores =
      weights(lo, b.select(visible(lo, g), scores, b.scalar_like(-std::numeric_limits<double>::infinity(), scores)));
  Val y = b.batch_matmul(reshape_to(lo, scores, std::vector<Dim>{batch, g.shared_by, rows, g.capacity}), v);
  y = b.transpose(reshape_to(lo, y, std::vector<Dim>{batch, g.heads, g.tokens, width}), {0, 2, 1, 3});
  lo.output(0, reshape_to(lo, y, std::vector<Dim>{batch, g.tokens, g.heads * width}));
  lo.output(1, k);
  lo.output(2, v);
}

}  // namespace lowtide::layout
