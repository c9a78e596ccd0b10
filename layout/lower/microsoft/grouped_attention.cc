// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's GroupQueryAttention (com.microsoft) with a float cache.
//
// Every batch entry has its own length (seqlens_k + 1, new tokens included), so new keys are written after the entry's
// own past, not after the cache: row t of the present is row t of the past, a new row, or zero. total_sequence_length
// tells whether there is a past: in a first prompt it is the number of tokens. Sources: ONNX Runtime's bert_defs.cc,
// group_query_attention.cc, group_query_attention_helper.h, gqa_attention_base.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "layout/lower/attention.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

struct Grouped {
  int64_t heads = 0, kv_heads = 0;  // of queries; of keys and values
  Val q, k, v;                      // [B, heads, S, D], new tokens only
  int64_t tokens = 0, total = 0;    // S; of the longest entry, new tokens included
  int64_t capacity = 0;             // rows of the present
  bool prompt = false;
  Val before;  // i32 [B], or [1] for a prompt: how many tokens each entry has in its past
  Val newest;  // i32 [B]: the last token of each entry of a prompt, before padding; absent where there is no padding
};

void refuse_unsupported_features(Lowering& lo) {
  for (size_t i = 12; i < lo.input_count(); ++i)
    if (lo.has_input(i))
      lo.unsupported(fmt::format("input {} of GroupQueryAttention (scales or norms) is not supported", i));
  if (lo.attr_i("causal", 1) != 1) lo.unsupported("causal = 0 is not supported");
  if (lo.attr_i("sliding_window_cache", 0) != 0)
    lo.unsupported("a sliding-window cache (sliding_window_cache) is not supported");
  if (lo.attr_i("qk_output", 0) != 0 || lo.wants_output(3))
    lo.unsupported("the scores as an output (qk_output) are not supported");
  if (lo.attr_s("k_quant_type", "NONE") != "NONE" || lo.attr_s("v_quant_type", "NONE") != "NONE")
    lo.unsupported("a quantized cache (k_quant_type, v_quant_type) is not supported");
  lo.ignore_attr("kv_cache_bit_width");  // of a quantized cache
  lo.ignore_attr("qk_norm_epsilon");     // of norms, whose inputs are refused
}

void read_grouped_heads(Lowering& lo, Grouped& g) {
  g.heads = lo.need_attr_count("num_heads");
  g.kv_heads = lo.need_attr_count("kv_num_heads");
  if (g.heads < 1 || g.kv_heads < 1 || g.heads % g.kv_heads != 0)
    lo.malformed(fmt::format("num_heads must be a multiple of kv_num_heads, and both positive; they are {} and {}",
                             g.heads, g.kv_heads));
  Val q = lo.input(0), k = lo.optional_input(1), v = lo.optional_input(2);
  if (lo.rank(q) != 3 || static_cast<bool>(k) != static_cast<bool>(v))
    lo.malformed(fmt::format(
        "the query must have rank 3, and key and value must be given together; the query has rank {}", lo.rank(q)));
  if (!k) {  // all three packed in one tensor
    const int64_t all = lo.need_static(lo.b.dim(q, 2), "the hidden size"), parts = g.heads + 2 * g.kv_heads;
    if (all % parts != 0)
      lo.malformed(fmt::format("the hidden size {} must be a multiple of the number of heads {}", all, parts));
    const int64_t width = all / parts, shared = g.kv_heads * width;
    const std::vector<Val> split = lo.b.split(q, std::vector<int64_t>{g.heads * width, shared, shared}, 2);
    q = split[0], k = split[1], v = split[2];
  }
  g.q = split_heads(lo, q, g.heads), g.k = split_heads(lo, k, g.kv_heads), g.v = split_heads(lo, v, g.kv_heads);
}

void read_lengths(Lowering& lo, Grouped& g) {
  Builder& b = lo.b;
  g.tokens = lo.need_static(b.dim(g.q, 2), "the number of tokens");
  const std::vector<int64_t> total = lo.need_ints(lo.input(6), "total_sequence_length");
  if (total.size() != 1 || total[0] < g.tokens)
    lo.malformed(fmt::format("total_sequence_length must have one element, {} or more", g.tokens));
  if (lo.has_input(3) != lo.has_input(4)) lo.malformed("past_key and past_value must be given together");
  const int64_t past = lo.has_input(3) ? lo.need_static(b.dim(lo.input(3), 2), "the length of the past") : 0;
  g.total = total[0];
  g.capacity = std::max(g.total, past);
  g.prompt = g.total == g.tokens;
  if (!g.prompt && !lo.has_input(3))
    lo.malformed(
        fmt::format("total_sequence_length {} exceeds the {} tokens, but past_key is missing", g.total, g.tokens));
  if (lo.rank(lo.input(5)) != 1)
    lo.malformed(fmt::format("seqlens_k must have rank 1; it has rank {}", lo.rank(lo.input(5))));
  Val newest = b.cast(lo.input(5), DType::kInt32);
  g.before = g.prompt ? b.i32({0}) : b.sub(b.add(newest, 1.0), static_cast<double>(g.tokens));
  const auto known = lo.ints(newest);
  const bool is_full = known && std::count(known->begin(), known->end(), g.tokens - 1) == std::ssize(*known);
  if (g.prompt && g.tokens > 1 && !is_full) g.newest = newest;
}

// [B or 1, S]: the position of each token. For a prompt only the first element of position_ids is used, and the others
// count up from it.
Val query_positions(Lowering& lo, const Grouped& g) {
  Builder& b = lo.b;
  Val steps = iota(lo, g.tokens, DType::kInt32);
  if (!lo.has_input(9)) return b.add(steps, unsqueeze_axes(lo, g.before, {1}));
  Val given = b.cast(lo.input(9), DType::kInt32);
  if (lo.rank(given) != 2) lo.malformed(fmt::format("position_ids must have rank 2; it has rank {}", lo.rank(given)));
  if (!g.prompt) return given;
  Val first = b.slice(given, std::vector<int64_t>{0, 0}, std::vector<Dim>{1, 1});
  return b.add(unsqueeze_axes(lo, steps, {0}), first);
}

void rotate(Lowering& lo, Grouped& g) {
  Builder& b = lo.b;
  const bool interleaved = lo.attr_i("rotary_interleaved", 0) == 1;
  if (lo.attr_i("do_rotary", 0) != 1) return;
  Val at = query_positions(lo, g);
  Rotation rotation{.cosine = b.gather(lo.input(7), at, 0),
                    .sine = b.gather(lo.input(8), at, 0),
                    .rotated_size = 2 * lo.need_static(b.dim(lo.input(7), 1), "the number of angles"),
                    .interleaved = interleaved};
  g.q = rotary_embedding(lo, g.q, rotation);
  g.k = rotary_embedding(lo, g.k, rotation);
}

// All rows of the present: those of the past, then the new ones, then zeros.
Val present(Lowering& lo, const Grouped& g, Val past, Val fresh) {
  Builder& b = lo.b;
  if (g.prompt)
    return b.pad(fresh, std::vector<int64_t>{0, 0, 0, 0}, std::vector<int64_t>{0, 0, g.capacity - g.tokens, 0}, 0);
  const auto old_rows = static_cast<double>(lo.need_static(b.dim(past, 2), "the length of the past"));
  const auto new_rows = static_cast<double>(g.tokens);
  Val rows = b.concat({past, b.pad(fresh, std::vector<int64_t>{0, 0, 0, 0}, std::vector<int64_t>{0, 0, 1, 0}, 0)}, 2);
  Val before = unsqueeze_axes(lo, g.before, {1});  // [B, 1]
  Val row = iota(lo, g.capacity, DType::kInt32);
  Val behind = b.sub(row, before);
  Val zero = b.scalar(old_rows + new_rows, DType::kInt32);
  const Val new_row = b.add(behind, old_rows);
  Val from_new = b.select(b.less(behind, b.scalar(new_rows, DType::kInt32)), new_row, zero);
  Val from = b.select(b.less(row, before), row, from_new);
  return b.gather(rows, from, 2, 1);
}

// [B or 1, 1, S, T]: each token sees itself and earlier ones, within the window. Padding sees what the last token sees.
Val visible(Lowering& lo, const Grouped& g) {
  Builder& b = lo.b;
  Val token = unsqueeze_axes(lo, iota(lo, g.tokens, DType::kInt32), {1});
  Val last = b.add(token, unsqueeze_axes(lo, g.before, {1, 2, 3}));
  if (g.newest) last = b.minimum(last, unsqueeze_axes(lo, g.newest, {1, 2, 3}));
  Val row = iota(lo, g.capacity, DType::kInt32);
  Val seen = b.less_equal(row, last);
  const int64_t window = lo.attr_i("local_window_size", -1);
  if (window <= 0 || window >= g.capacity) return seen;
  return b.logical_and(seen, b.greater(row, b.sub(last, static_cast<double>(window))));
}

// attention_bias, [B or 1, heads or 1, S, total], padded to all rows of the present: rows after the total are masked.
Val bias(Lowering& lo, const Grouped& g) {
  Val given = lo.input(10);
  if (lo.rank(given) != 4) lo.malformed(fmt::format("attention_bias must have rank 4; it has rank {}", lo.rank(given)));
  if (lo.b.dim(given, 3) != g.total)
    lo.malformed(fmt::format("the last axis of attention_bias must have total_sequence_length = {} elements", g.total));
  return lo.b.pad(given, std::vector<int64_t>(4, 0), std::vector<int64_t>{0, 0, 0, g.capacity - g.total}, 0);
}

// Softmax along the last axis. head_sink and smooth_softmax add a score without a value, one for each head or 0, which
// reduces the other weights.
Val attention_weights(Lowering& lo, Val scores) {
  Builder& b = lo.b;
  const bool smooth = lo.attr_i("smooth_softmax", -1) == 1;
  if (!smooth && !lo.has_input(11)) return b.softmax(scores);
  const Shape shape = lo.shape(scores);
  Val sink = b.scalar_like(0, scores);
  if (lo.has_input(11)) {
    if (lo.shape(lo.input(11)) != Shape{shape[1]})
      lo.misfit(fmt::format("head_sink must have one element for each head; its shape is {}",
                            stream::to_string(lo.shape(lo.input(11)))));
    sink = unsqueeze_axes(lo, lo.input(11), {0, 2, 3});
  }
  Shape column = shape;
  column.back() = 1;
  Val all = b.softmax(b.concat({scores, b.broadcast_to(sink, column)}, 3));
  return b.slice(all, std::vector<int64_t>(4, 0), std::vector<Dim>{-1, -1, -1, shape[3]});
}

}  // namespace

void lower_group_query_attention(Lowering& lo) {
  Builder& b = lo.b;
  refuse_unsupported_features(lo);
  Grouped g;
  read_grouped_heads(lo, g);
  read_lengths(lo, g);
  rotate(lo, g);
  Val k = present(lo, g, lo.optional_input(3), g.k), v = present(lo, g, lo.optional_input(4), g.v);

  const Dim batch = b.dim(g.q, 0);
  const int64_t width = lo.need_static(b.dim(g.q, 3), "the size of a head"), rows = g.heads / g.kv_heads * g.tokens;
  float scale = lo.attr_f("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(width));
  Val q = reshape_to(lo, b.mul(g.q, scale), std::vector<Dim>{batch, g.kv_heads, rows, width});
  Val scores =
      reshape_to(lo, b.batch_matmul(q, k, false, true), std::vector<Dim>{batch, g.heads, g.tokens, g.capacity});
  const float cap = lo.attr_f("softcap", 0);
  if (cap > 0) scores = b.mul(b.tanh(b.div(scores, cap)), cap);
  if (lo.has_input(10)) scores = b.add(scores, bias(lo, g));
  scores = attention_weights(
      lo, b.select(visible(lo, g), scores, b.scalar_like(-std::numeric_limits<double>::infinity(), scores)));
  Val y = b.batch_matmul(reshape_to(lo, scores, std::vector<Dim>{batch, g.kv_heads, rows, g.capacity}), v);
  y = b.transpose(reshape_to(lo, y, std::vector<Dim>{batch, g.heads, g.tokens, width}), {0, 2, 1, 3});
  lo.output(0, reshape_to(lo, y, std::vector<Dim>{batch, g.tokens, g.heads * width}));
  lo.output(1, k);
  lo.output(2, v);
}

}  // namespace lowtide::layout
