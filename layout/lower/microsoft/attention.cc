// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's Attention, QAttention and MultiHeadAttention (com.microsoft).
//
// Differences from ONNX's Attention: masks are integers, and mask_filter_value (-10000) is added to the scores of
// masked keys, so a query whose keys are all masked still weighs them. With `unidirectional` the scores of later keys
// are replaced by the lowest number. A scale of 0 means 1 / sqrt(head size). Sources: ONNX Runtime's bert_defs.cc,
// attention_base.cc, attention_helper.h, multihead_attention_helper.h.
#include "layout/lower/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "layout/lower/matmul.h"
#include "layout/lower/quantize_linear.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

struct Heads {
  Val q, k, v;  // [B, heads, S or T, D]; k and v with the past in front
  Dim past = 0;
  bool merged = false;  // of Attention: masks have two more forms, ends with starts, and one value for all
};

// Row i may use the keys from starts[i] (0 when absent) up to lengths[i].
Val keys_between(Lowering& lo, Val lengths, Val starts, Dim keys) {
  Builder& b = lo.b;
  Val key = iota(lo, keys, DType::kInt32);
  Val inside = b.less(key, unsqueeze_axes(lo, b.cast(lengths, DType::kInt32), {1, 2, 3}));
  if (!starts) return inside;
  return b.logical_and(inside, b.greater_equal(key, unsqueeze_axes(lo, b.cast(starts, DType::kInt32), {1, 2, 3})));
}

// The allowed keys of a mask that lists lengths: [B], or for Attention [2 B], ends before starts.
Val allowed_by_lengths(Lowering& lo, Val mask, const Heads& h) {
  Builder& b = lo.b;
  const Dim have = b.dim(mask, 0), batch = b.dim(h.q, 0), keys = b.dim(h.k, 2);
  if (have == batch) return keys_between(lo, mask, {}, keys);
  if (h.merged && !core::is_symbol(batch) && have == 2 * batch) {
    const std::vector<Val> parts = b.split(mask, std::vector<int64_t>{batch, batch}, 0);
    return keys_between(lo, parts[0], parts[1], keys);
  }
  lo.unsupported("a mask of rank 1 must list the lengths of a known number of batch entries",
                 "fix the inputs' shapes with --shape INPUT=...");
}

// The addend of the scores for the mask, broadcast to [B, heads, S, T]; absent when nothing is masked.
Val mask_to_add(Lowering& lo, Val mask, const Heads& h) {
  Builder& b = lo.b;
  const float filter = lo.attr_f("mask_filter_value", -10000.0f);
  if (!mask) return {};
  const Dim batch = b.dim(h.q, 0), queries = b.dim(h.q, 2), keys = b.dim(h.k, 2);
  Val allowed;
  if (lo.rank(mask) == 1) {
    allowed = allowed_by_lengths(lo, mask, h);
  } else if (lo.rank(mask) == 2 || lo.rank(mask) == 3) {
    // The same addend for all keys does not change the softmax; ONNX Runtime ignores a mask of one.
    if (h.merged && lo.rank(mask) == 2 && b.dim(mask, 1) == 1) return {};
    if (known_to_differ(b.dim(mask, 0), batch) || known_to_differ(b.dim(mask, -1), keys) ||
        (lo.rank(mask) == 3 && known_to_differ(b.dim(mask, 1), queries)))
      lo.misfit(fmt::format("the mask of shape {} does not fit the batch size, the queries and the keys",
                            stream::to_string(lo.shape(mask))));
    allowed = unsqueeze_axes(lo, b.greater(mask, b.scalar_like(0, mask)),
                             lo.rank(mask) == 2 ? std::vector<int>{1, 2} : std::vector<int>{1});
    const Dim have = b.dim(mask, -1);
    if (h.merged && lo.rank(mask) == 2 && core::is_symbol(have) && have != keys)
      allowed = b.logical_or(allowed, b.equal(dim_as_scalar(lo, have, DType::kInt32), b.i32_scalar(1)));
  } else {
    lo.unsupported(fmt::format("a mask of rank {} is not supported, as in ONNX Runtime's CPU provider", lo.rank(mask)));
  }
  return b.select(allowed, b.scalar_like(0, h.q), b.scalar_like(filter, h.q));
}

double lowest_number(DType dtype) {
  return dtype == DType::kFloat16 ? -65504.0 : static_cast<double>(std::numeric_limits<float>::lowest());
}

// Replaces the addend of the keys after each query by the lowest number.
Val without_later_keys(Lowering& lo, Val added, const Heads& h) {
  Builder& b = lo.b;
  const Dim queries = b.dim(h.q, 2), keys = b.dim(h.k, 2);
  if (b.graph.symbols.add(queries, h.past) != keys)
    lo.unsupported(
        "unidirectional attention with different numbers of queries and keys is not supported: in ONNX Runtime's "
        "CPU kernel the last query sees every key");
  Val before = unsqueeze_axes(lo, causal_mask(lo, queries, keys, h.past), {0, 1});
  return b.select(before, added ? added : b.scalar_like(0, h.q), b.scalar(lowest_number(lo.dtype(h.q)), lo.dtype(h.q)));
}

// The attention of the heads, [B, S, heads * Dv], by the attributes that both operators have.
Val attend(Lowering& lo, const Heads& h, Val mask, Val bias) {
  Builder& b = lo.b;
  const int64_t width = lo.need_static(b.dim(h.q, -1), "the size of a head");
  float scale = lo.attr_f("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(width));
  Val added = mask_to_add(lo, mask, h);
  if (lo.attr_i("unidirectional", 0) == 1) added = without_later_keys(lo, added, h);
  if (bias) {
    if (lo.rank(bias) != 4) lo.malformed(fmt::format("attention_bias must have rank 4; it has rank {}", lo.rank(bias)));
    added = added ? b.add(bias, added) : bias;
  }
  Val scores = b.batch_matmul(b.mul(h.q, scale), h.k, false, true);
  if (added) scores = b.add(scores, added);
  Val y = b.transpose(b.batch_matmul(b.softmax(scores), h.v), {0, 2, 1, 3});
  const Shape shape = lo.shape(y);
  return reshape_to(lo, y, std::vector<Dim>{shape[0], shape[1], b.graph.symbols.mul(shape[3], b.dim(h.q, 1))});
}

int64_t read_num_heads(Lowering& lo) {
  const int64_t heads = lo.need_attr_count("num_heads");
  if (heads < 1) lo.malformed(fmt::format("attribute 'num_heads' must be positive; it is {}", heads));
  return heads;
}

// The hidden sizes of queries, keys and values in the merged weights.
std::vector<int64_t> hidden_sizes(Lowering& lo, Val weights) {
  const int64_t all = lo.need_static(lo.b.dim(weights, 1), "the columns of the weights");
  std::vector<int64_t> sizes = lo.attr_ints("qkv_hidden_sizes").value_or(std::vector<int64_t>());
  if (sizes.empty()) {
    if (all % 3 != 0)
      lo.malformed(fmt::format("the number of columns of the weights must be a multiple of 3; it is {}", all));
    sizes.assign(3, all / 3);
  }
  if (sizes.size() != 3)
    lo.malformed(fmt::format("attribute 'qkv_hidden_sizes' must have 3 elements; it has {}", sizes.size()));
  int64_t left = all;
  for (int64_t size : sizes) {
    if (size < 1 || size > left)
      lo.malformed(fmt::format(
          "attribute 'qkv_hidden_sizes' must be positive and add up to {}, the columns of the weights", all));
    left -= size;
  }
  if (left != 0 || sizes[0] != sizes[1])
    lo.malformed(
        fmt::format("attribute 'qkv_hidden_sizes' {}, {}, {} must add up to {}, the columns of the weights, and the "
                    "first two must be equal",
                    sizes[0], sizes[1], sizes[2], all));
  return sizes;
}

// Splits [B, L, heads, parts, D] into `parts` tensors [B, L, heads * D].
std::vector<Val> unpacked_heads(Lowering& lo, Val packed, int64_t heads, int64_t parts) {
  const Shape shape = lo.shape(packed);
  if (known_to_differ(shape[2], heads) || known_to_differ(shape[3], parts))
    lo.misfit(fmt::format("packed queries, keys or values must have shape [B, L, {}, {}, D]; the shape is {}", heads,
                          parts, stream::to_string(shape)));
  const int64_t width = lo.need_static(shape[4], "the size of a head");
  const Dim all = lo.b.graph.symbols.mul(heads, width);
  std::vector<Val> out = lo.b.split(packed, parts, 1, 3);
  for (Val& part : out) part = reshape_to(lo, part, std::vector<Dim>{shape[0], shape[1], all});
  return out;
}

// Query, key and value of MultiHeadAttention.
std::vector<Val> unpacked_heads(Lowering& lo, int64_t heads) {
  const Val query = lo.input(0);
  const bool whole = lo.rank(query) == 5;  // all three packed in one tensor
  if (!whole && lo.rank(query) != 3)
    lo.malformed(fmt::format("the query must have rank 3 or 5; it has rank {}", lo.rank(query)));
  if (!whole && lo.has_input(1) && lo.rank(lo.input(1)) != 5) return {query, lo.input(1), lo.input(2)};
  if ((whole && lo.has_input(1)) || lo.has_input(2))
    lo.malformed("packed queries, keys or values must not be given together with separate ones");
  if (lo.has_input(6)) lo.unsupported("packed queries, keys or values together with past_key are not supported");
  if (whole) return unpacked_heads(lo, query, heads, 3);
  const std::vector<Val> both = unpacked_heads(lo, lo.input(1), heads, 2);
  return {query, both[0], both[1]};
}

// `merged` is the product of the input and the merged weights plus bias. mask, past and bias may be absent.
void attend_merged(Lowering& lo, Val merged, Val weights, Val mask, Val past, Val bias) {
  Builder& b = lo.b;
  const int64_t heads = read_num_heads(lo);
  if (lo.attr_i("do_rotary", 0) != 0) lo.unsupported("rotary embedding inside Attention (do_rotary) is not supported");
  if (lo.attr_i("past_present_share_buffer", 0) != 0)
    lo.unsupported("a shared buffer of past and present (past_present_share_buffer) is not supported");
  const std::vector<Val> parts = b.split(merged, hidden_sizes(lo, weights), 2);
  Heads h{split_heads(lo, parts[0], heads), split_heads(lo, parts[1], heads), split_heads(lo, parts[2], heads)};
  h.merged = true;
  if (past) {
    if (lo.rank(past) != 5) lo.malformed(fmt::format("past must have rank 5; it has rank {}", lo.rank(past)));
    const std::vector<Val> both = b.unpack(past, 0);
    if (both.size() != 2)
      lo.malformed(fmt::format("past must have 2 elements on axis 0, keys and values; it has {}", both.size()));
    h.past = b.dim(both[0], 2);
    h.k = b.concat({both[0], h.k}, 2);
    h.v = b.concat({both[1], h.v}, 2);
  }
  lo.output(0, attend(lo, h, mask, bias));
  if (lo.wants_output(1)) lo.output(1, b.pack(std::vector<Val>{h.k, h.v}, 0));
}

void check_merged(Lowering& lo, Val x, Val weights) {
  if (lo.rank(x) != 3 || lo.rank(weights) != 2)
    lo.malformed(
        fmt::format("input and weights must have ranks 3 and 2; they have {} and {}", lo.rank(x), lo.rank(weights)));
}

}  // namespace

// Queries, keys and values are computed by one product; past and present hold keys and values in one tensor.
void lower_ms_attention(Lowering& lo) {
  lo.ignore_attr("rotary_embedding_dim");  // of do_rotary
  if (lo.has_input(6)) lo.unsupported("a shared buffer of past and present (past_sequence_length) is not supported");
  Val x = lo.input(0), weights = lo.input(1);
  check_merged(lo, x, weights);
  Val merged = matrix_product(lo, x, weights);
  if (lo.has_input(2)) merged = lo.b.add(merged, lo.input(2));
  attend_merged(lo, merged, weights, lo.optional_input(3), lo.optional_input(4), lo.optional_input(5));
}

// Attention whose input and weights are integers: scales are inputs 3 and 4, zero points 6 and 7.
void lower_qattention(Lowering& lo) {
  Val x = lo.input(0), weights = lo.input(1);
  check_merged(lo, x, weights);
  const Val product = real_product(lo, {x, one_parameter(lo, lo.input(3)), lo.optional_input(6)},
                                   {weights, lo.input(4), lo.optional_input(7)});
  attend_merged(lo, lo.b.add(product, lo.input(2)), weights, lo.optional_input(5), lo.optional_input(8), {});
}

// Query [B, S, D], key and value [B, L, D], or [B, heads, L, D] as an encoder's cache holds them. Packed: the query
// alone [B, S, heads, 3, D / heads], or the key with the value [B, L, heads, 2, D / heads].
void lower_multi_head_attention(Lowering& lo) {
  Builder& b = lo.b;
  const int64_t heads = read_num_heads(lo);
  if (lo.has_input(8) || lo.has_input(9))
    lo.unsupported("a shared buffer of past and present (past_sequence_length) is not supported");
  if (lo.wants_output(3)) lo.unsupported("the scores as an output (qk) are not supported");
  std::vector<Val> in = unpacked_heads(lo, heads);
  const bool cached = lo.rank(in[1]) == 4;
  if (cached != (lo.rank(in[2]) == 4)) lo.malformed("key and value must have the same rank");
  if (cached && (known_to_differ(b.dim(in[1], 1), heads) || known_to_differ(b.dim(in[2], 1), heads)))
    lo.malformed(fmt::format("keys and values of rank 4 must have {} heads on axis 1", heads));
  if (cached && (lo.has_input(6) || lo.has_input(7)))
    lo.unsupported(
        "keys and values of rank 4 together with a past are not supported: ONNX Runtime leaves the past out");
  if (lo.has_input(3)) {
    std::vector<int64_t> sizes;
    for (Val v : in) {
      const bool in_heads = lo.rank(v) == 4;
      sizes.push_back(lo.need_static(b.dim(v, -1), "the hidden size") * (in_heads ? heads : 1));
    }
    const std::vector<Val> biases = b.split(lo.input(3), sizes, 0);
    // A cache has its keys and values with their biases.
    for (size_t i = 0; i < (cached ? 1 : in.size()); ++i) in[i] = b.add(in[i], biases[i]);
  }
  Heads h{split_heads(lo, in[0], heads), split_heads(lo, in[1], heads), split_heads(lo, in[2], heads)};
  if (lo.has_input(6) != lo.has_input(7)) lo.malformed("past_key and past_value must be given together");
  if (lo.has_input(6)) {
    h.past = b.dim(lo.input(6), 2);
    h.k = b.concat({lo.input(6), h.k}, 2);
    h.v = b.concat({lo.input(7), h.v}, 2);
  }
  lo.output(0, attend(lo, h, lo.optional_input(4), lo.optional_input(5)));
  lo.output(1, h.k);
  lo.output(2, h.v);
}

}  // namespace lowtide::layout
