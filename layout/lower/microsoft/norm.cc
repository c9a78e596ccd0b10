// SPDX-License-Identifier: Apache-2.0
// SkipLayerNormalization, SkipSimplifiedLayerNormalization, EmbedLayerNormalization and QEmbedLayerNormalization
// (com.microsoft): layer normalisations fused with a skip connection or a sum of embeddings. Their default epsilon is
// 1e-12, LayerNormalization's is 1e-5. Sources: ONNX Runtime's bert_defs.cc, skip_layer_norm.cc and
// embed_layer_norm.cc.
#include "layout/lower/norm.h"

#include <fmt/format.h>

#include <vector>

#include "layout/lower/quantize_linear.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr float kEpsilon = 1e-12f;

// The sum of input, skip ([B, S, H], [1, S, H] or [S, H]) and bias, normalised. Half precision is computed in f32.
void skip_norm(Lowering& lo, bool simplified) {
  Builder& b = lo.b;
  const DType dtype = lo.dtype(lo.input(0));
  const DType wide = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
  const float epsilon = lo.attr_f("epsilon", kEpsilon);
  const size_t bias = simplified ? 3 : 4;
  if (lo.rank(lo.input(1)) > lo.rank(lo.input(0)))
    lo.malformed(fmt::format("the skip must not have a higher rank than the input; the ranks are {} and {}",
                             lo.rank(lo.input(1)), lo.rank(lo.input(0))));
  if (lo.wants_output(1) || lo.wants_output(2))
    lo.unsupported("mean and deviation as outputs are not supported: ONNX Runtime computes them in training only");
  const Val skip = b.cast(lo.input(1), wide);
  Val sum = b.add(b.cast(lo.input(0), wide), skip);
  if (lo.has_input(bias)) sum = b.add(sum, b.cast(lo.input(bias), wide));
  const Val scale = b.cast(lo.input(2), wide);
  Val y = b.mul(normalized(lo, sum, epsilon, simplified), scale);
  if (!simplified && lo.has_input(3)) y = b.add(y, b.cast(lo.input(3), wide));
  lo.output(0, b.cast(y, dtype));
  lo.output(3, b.cast(sum, dtype));
}

// Rows 0 to count - 1 of a table.
Val first_rows(Lowering& lo, Val table, Dim count) {
  const Dim have = lo.b.dim(table, 0);
  if (!core::is_symbol(count) && !core::is_symbol(have) && count > have)
    lo.malformed(fmt::format("the position embedding has {} rows, but there are {} positions", have, count));
  return lo.b.slice(table, std::vector<int64_t>{0, 0}, std::vector<Dim>{count, -1});
}

// The number of elements of each row of the mask that are 1; 0 without a mask.
Val mask_lengths(Lowering& lo, Dim batch) {
  Builder& b = lo.b;
  if (!lo.has_input(7)) return filled_with(lo, std::vector<Dim>{batch}, b.scalar(0, DType::kInt32));
  Val ones = b.equal(lo.input(7), b.scalar_like(1, lo.input(7)));
  return b.sum(b.cast(ones, DType::kInt32), std::vector<int>{1}, false);
}

// The sum has the rows of input_ids, whatever symbols the other inputs have.
void same_rows(Lowering& lo, Val sum, const Shape& ids) {
  for (size_t i = 0; i < 2; ++i) {
    const Dim rows = lo.shape(sum)[i];
    if (rows != ids[i] && stream::is_static(rows) && stream::is_static(ids[i]))
      lo.malformed(
          fmt::format("segment_ids or position_ids have {} elements on axis {}, input_ids have {}", rows, i, ids[i]));
    if (!lo.b.is_constant(sum)) lo.b.graph.at(sum.id).shape[i] = ids[i];
  }
}

}  // namespace

void lower_skip_layer_normalization(Lowering& lo) { skip_norm(lo, false); }
void lower_skip_simplified_layer_normalization(Lowering& lo) { skip_norm(lo, true); }

namespace {

struct Embedding {
  Val words, positions, segments, gamma, beta;  // floats; segments may be absent
  Val position_ids;                             // may be absent
};

void embed(Lowering& lo, const Embedding& of) {
  Builder& b = lo.b;
  Val ids = lo.input(0), words = of.words, positions = of.positions;
  if (lo.rank(ids) != 2) lo.malformed(fmt::format("input_ids must have rank 2; it has rank {}", lo.rank(ids)));
  for (Val table : {words, positions})
    if (lo.rank(table) != 2) lo.malformed(fmt::format("embeddings must have rank 2; one has rank {}", lo.rank(table)));
  if (lo.has_input(1) != lo.has_input(4)) lo.malformed("segment_ids and segment_embedding must be given together");
  lo.ignore_attr("mask_index_type");  // tells shape inference whether output 1 is used
  const float epsilon = lo.attr_f("epsilon", kEpsilon);
  const Shape shape = lo.shape(ids);

  Val rows = of.position_ids ? b.gather(positions, of.position_ids, 0) : first_rows(lo, positions, shape[1]);
  Val sum = b.add(b.gather(words, ids, 0), rows);
  if (of.segments) sum = b.add(sum, b.gather(of.segments, lo.input(1), 0));
  same_rows(lo, sum, shape);
  lo.output(0, b.add(b.mul(normalized(lo, sum, epsilon, false), of.gamma), of.beta));
  if (lo.wants_output(1)) lo.output(1, mask_lengths(lo, shape[0]));
  if (lo.wants_output(2)) lo.output(2, sum);
}

}  // namespace

void lower_embed_layer_normalization(Lowering& lo) {
  embed(lo, {.words = lo.input(2),
             .positions = lo.input(3),
             .segments = lo.optional_input(4),
             .gamma = lo.input(5),
             .beta = lo.input(6),
             .position_ids = lo.optional_input(8)});
}

// The tables, gamma and beta are integers: their scales are inputs 8 to 12, their zero points 13 to 17.
void lower_q_embed_layer_normalization(Lowering& lo) {
  auto floats = [&](size_t input, size_t at) {
    const auto grid = constant_grid(lo, lo.input(8 + at), lo.input(13 + at), lo.dtype(lo.input(input)));
    if (!grid)
      lo.unsupported(
          fmt::format("the scale and the zero point of input {} must be initializers of one element", input));
    return real_of(lo, lo.input(input), *grid);
  };
  embed(lo, {.words = floats(2, 0),
             .positions = floats(3, 1),
             .segments = lo.has_input(4) ? floats(4, 2) : Val{},
             .gamma = floats(5, 3),
             .beta = floats(6, 4),
             .position_ids = {}});
}

}  // namespace lowtide::layout
