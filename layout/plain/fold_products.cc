// SPDX-License-Identifier: Apache-2.0
// A product of constants with a small result is computed once: the first turn of an unrolled LSTM multiplies its
// initial state by the recurrent weights, and a network of two products gives Swin v2 the biases of places in a window.
// Runtimes compute them in each run, and GPU delegates take no constant as data of FULLY_CONNECTED.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "layout/plain/rules.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using stream::RecipeRef;

constexpr int64_t kMostProducts = int64_t{1} << 24;  // some 20 milliseconds
constexpr int64_t kFewTerms = 4;                     // of the sums that are written as recipes
constexpr int kMostSteps = 8;                        // of their operands: recipes are bounded
constexpr int64_t kStripElements = int64_t{1} << 14;

// data f32[...,depth], weights f32[units,depth], bias f32[units] or none: all constants.
struct Product {
  ValueId data, weights, bias;
  int64_t rows, units, depth;
  core::Activation activation;
};

bool is_f32_constant(Rewriter& rewriter, ValueId id) {
  return rewriter.is_constant(id) && !rewriter.value(id).quantization &&
         rewriter.value(id).dtype == core::DType::kFloat32;
}

// Of constant weights and bias; the data are whatever they are.
std::optional<Product> product(Rewriter& rewriter, const Op& op) {
  const auto* options = std::get_if<core::FullyConnectedOptions>(&op.options);
  const core::Value& out = rewriter.value(op.outputs[0]);
  if (options == nullptr || out.dtype != core::DType::kFloat32 || out.quantization || out.shape.empty() ||
      !stream::is_static(out.shape) || !is_f32_constant(rewriter, op.inputs[1]))
    return std::nullopt;
  const bool has_bias = core::has_input(op, 2);
  const core::Shape& weights = rewriter.value(op.inputs[1]).shape;
  if (weights.size() != 2 || weights[0] == 0 || weights[1] == 0 ||
      (has_bias && !is_f32_constant(rewriter, op.inputs[2])))
    return std::nullopt;
  const auto results = static_cast<int64_t>(stream::element_count(out.shape));
  return Product{op.inputs[0],         op.inputs[1], has_bias ? op.inputs[2] : core::kAbsent,
                 results / weights[0], weights[0],   weights[1],
                 options->activation};
}

// A product of few terms as a recipe: a sum of columns times rows.
RecipeRef sum_of_terms(Rewriter& rewriter, const Product& of) {
  const auto constant = [&](ValueId id, core::Shape shape) {
    return recipe::reshape(rewriter.value(id).constant, std::move(shape));
  };
  const RecipeRef data = constant(of.data, {of.rows, of.depth}), weights = constant(of.weights, {of.units, of.depth});
  RecipeRef sum;
  for (int64_t k = 0; k < of.depth; ++k) {
    const RecipeRef column = recipe::slice(data, {0, k}, {of.rows, 1}, {1, 1});
    const RecipeRef row = recipe::reshape(recipe::slice(weights, {0, k}, {of.units, 1}, {1, 1}), {1, of.units});
    const RecipeRef term = recipe::binary(stream::Binary::kMul, column, row);
    sum = sum ? recipe::binary(stream::Binary::kAdd, sum, term) : term;
  }
  if (of.bias != core::kAbsent) sum = recipe::binary(stream::Binary::kAdd, sum, constant(of.bias, {1, of.units}));
  return of.activation == core::Activation::kRelu ? recipe::unary(stream::Unary::kRelu, sum) : sum;
}

// The data as [rows,depth]: a constant, or the product of constants that makes them.
RecipeRef data_of(Rewriter& rewriter, const Product& of) {
  if (is_f32_constant(rewriter, of.data)) return recipe::reshape(rewriter.value(of.data).constant, {of.rows, of.depth});
  const OpId producer = rewriter.producer(of.data);
  if (producer < 0 || rewriter.op(producer).kind != Kind::kFullyConnected) return nullptr;
  const auto inner = product(rewriter, rewriter.op(producer));
  if (!inner || inner->depth > kFewTerms || !is_f32_constant(rewriter, inner->data) || inner->rows != of.rows ||
      inner->units != of.depth ||
      (inner->activation != core::Activation::kNone && inner->activation != core::Activation::kRelu))
    return nullptr;
  for (const ValueId id : {inner->data, inner->weights, inner->bias})
    if (id != core::kAbsent && rewriter.value(id).constant->steps > kMostSteps) return nullptr;
  return sum_of_terms(rewriter, *inner);
}

// Data are read a few rows at a time, so that they may be of any size.
std::vector<float> results(Rewriter& rewriter, const Product& of, const RecipeRef& data,
                           const std::vector<double>& weights, const std::vector<double>& bias) {
  stream::RecipeReader reader(data, rewriter.graph.budget);
  std::vector<float> result, strip;
  result.reserve(static_cast<size_t>(of.rows * of.units));
  const int64_t rows_of_strip = std::max<int64_t>(1, kStripElements / of.depth);
  for (int64_t first = 0; first < of.rows; first += rows_of_strip) {
    const int64_t rows = std::min(rows_of_strip, of.rows - first);
    strip.resize(static_cast<size_t>(rows * of.depth));
    reader.read(static_cast<uint64_t>(first * of.depth), strip.size(), std::as_writable_bytes(std::span(strip)).data());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t unit = 0; unit < of.units; ++unit) {
        double sum = bias[static_cast<size_t>(unit)];
        for (int64_t k = 0; k < of.depth; ++k)
          sum += static_cast<double>(strip[static_cast<size_t>(row * of.depth + k)]) *
                 weights[static_cast<size_t>(unit * of.depth + k)];
        result.push_back(static_cast<float>(sum));
      }
  }
  return result;
}

bool fold_product(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const auto of = product(rewriter, op);
  if (!of || of->activation != core::Activation::kNone) return false;
  if (of->rows * of->units > static_cast<int64_t>(stream::kSmallElements) ||
      of->rows * of->units > kMostProducts / of->depth)
    return false;
  const auto weights = rewriter.graph.numbers(of->weights);
  if (!weights) return false;  // not small
  std::vector<double> bias(static_cast<size_t>(of->units), 0);
  if (of->bias != core::kAbsent) {
    const auto given = rewriter.graph.numbers(of->bias);
    if (!given || given->size() != bias.size()) return false;
    bias = *given;
  }
  const RecipeRef data = data_of(rewriter, *of);
  if (!data) return false;
  const std::vector<float> result = results(rewriter, *of, data, *weights, bias);
  rewriter.b.origin = op.origin;
  const core::Shape shape = rewriter.value(op.outputs[0]).shape;
  replace_result(rewriter, op.outputs[0], rewriter.b.constant(recipe::floats(result, shape)));
  return true;
}

constexpr std::array kProductRules = {PlainRule{Kind::kFullyConnected, fold_product}};

}  // namespace

std::span<const PlainRule> product_rules() { return kProductRules; }

}  // namespace lowtide::layout
