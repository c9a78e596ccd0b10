// SPDX-License-Identifier: Apache-2.0
// Activation functions. TFLite's kernels have fixed parameters where ONNX has attributes (ELU: alpha 1; HARD_SWISH: 1/6
// and 1/2), and most take f32 only. The compositions bound the argument of exp(): if it overflowed, the branch of a
// SELECT that is not chosen would turn the result into NaN.

#include "layout/lower/attributes.h"

namespace lowtide::layout {

namespace {

Val swish(Builder& b, Val x, double alpha) { return b.mul(x, b.logistic(alpha == 1 ? x : b.mul(x, alpha))); }

// The exponential branch of Elu, Selu: exp(x) - 1 for x < 0, else 0.
Val negative_elu(Builder& b, Val x) { return b.elu(b.minimum(x, b.scalar_like(0, x))); }

// Elu with an alpha above 0: x and ELU have the same sign.
Val scaled_elu(Builder& b, Val x, double alpha) { return b.leaky_relu(b.elu(x), static_cast<float>(alpha)); }

// Whether the slope has an axis that x may have to grow along. The standard has no such slope; ONNX Runtime takes it.
bool may_be_larger_than_x(Lowering& lo, Val slope, Val x) {
  const Shape &of = lo.shape(slope), &data = lo.shape(x);
  for (size_t i = 0; i < of.size(); ++i) {
    const Dim have = data[data.size() - of.size() + i];
    if (of[i] != 1 && of[i] != have && (have == 1 || core::is_symbol(have))) return true;
  }
  return false;
}

}  // namespace

void lower_relu(Lowering& lo) {
  ignore_consumed_inputs(lo);
  Val x = lo.input(0);
  lo.output(0, stream::is_float(lo.dtype(x)) ? lo.b.relu(x) : lo.b.maximum(x, lo.b.scalar_like(0, x)));
}

void lower_sigmoid(Lowering& lo) {
  ignore_consumed_inputs(lo);
  lo.output(0, lo.b.logistic(lo.input(0)));
}

void lower_tanh(Lowering& lo) {
  ignore_consumed_inputs(lo);
  lo.output(0, lo.b.tanh(lo.input(0)));
}

void lower_leaky_relu(Lowering& lo) {
  ignore_consumed_inputs(lo);
  lo.output(0, lo.b.leaky_relu(lo.input(0), lo.attr_f("alpha", 0.01f)));
}

// Before opset 7 a slope of several elements is per channel.
void lower_prelu(Lowering& lo) {
  ignore_consumed_inputs(lo);
  Val x = lo.input(0), slope = lo.input(1);
  if (lo.opset() < 7 && lo.rank(slope) == 1 && lo.rank(x) > 2 && lo.b.dim(slope, 0) != 1) {
    Shape per_channel(static_cast<size_t>(lo.rank(x) - 1), 1);
    per_channel[0] = lo.b.dim(slope, 0);
    slope = lo.b.reshape(slope, per_channel);
  }
  if (lo.rank(slope) > lo.rank(x))
    lo.malformed("input 1 ('slope') must not have a higher rank than input 0; the ranks are " +
                 std::to_string(lo.rank(slope)) + " and " + std::to_string(lo.rank(x)));
  // The kernel broadcasts up to rank 4 and takes no integers.
  constexpr int kKernelRank = 4;
  if (lo.dtype(x) == DType::kFloat32 && lo.rank(x) <= kKernelRank && !may_be_larger_than_x(lo, slope, x))
    return lo.output(0, lo.b.prelu(x, slope));
  const Val below = lo.b.mul(x, slope);
  lo.output(0, lo.b.select(lo.b.less(x, lo.b.scalar_like(0, x)), below, x));
}

void lower_elu(Lowering& lo) {
  ignore_consumed_inputs(lo);
  Val x = lo.input(0);
  const float alpha = lo.attr_f("alpha", 1);
  if (alpha == 1) return lo.output(0, lo.b.elu(x));
  if (alpha > 0) return lo.output(0, scaled_elu(lo.b, x, alpha));
  const Val negative = lo.b.mul(negative_elu(lo.b, x), alpha);
  lo.output(0, lo.b.add(lo.b.relu(x), negative));
}

void lower_selu(Lowering& lo) {
  ignore_consumed_inputs(lo);
  Val x = lo.input(0);
  const bool old = lo.opset() < 6;  // its defaults have fewer digits
  const double alpha = lo.attr_f("alpha", old ? 1.6732f : 1.67326319217681884765625f);
  const double gamma = lo.attr_f("gamma", old ? 1.0507f : 1.05070102214813232421875f);
  if (alpha > 0 && gamma > 0) return lo.output(0, lo.b.mul(scaled_elu(lo.b, x, alpha), gamma));
  const Val negative = lo.b.mul(negative_elu(lo.b, x), alpha * gamma);
  lo.output(0, lo.b.add(lo.b.mul(lo.b.relu(x), gamma), negative));
}

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)). From 1 on alpha makes no x so large that it overflows.
void lower_celu(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const double alpha = lo.attr_f("alpha", 1);
  if (alpha == 1) return lo.output(0, b.elu(x));
  if (alpha == 0) lo.malformed("attribute 'alpha' must not be 0: x is divided by it");
  if (alpha >= 1) return lo.output(0, b.mul(b.elu(b.mul(x, 1 / alpha)), alpha));
  if (alpha > 0) {
    Val negative = b.elu(b.mul(b.minimum(x, b.scalar_like(0, x)), 1 / alpha));
    negative = b.mul(negative, alpha);
    return lo.output(0, b.add(b.relu(x), negative));
  }
  Val grown = b.mul(b.sub(b.exp(b.mul(x, 1 / alpha)), 1), alpha);
  const Val negative = b.minimum(grown, b.scalar_like(0, x));
  lo.output(0, b.add(b.relu(x), negative));
}

void lower_hard_sigmoid(Lowering& lo) {
  ignore_consumed_inputs(lo);
  const float alpha = lo.attr_f("alpha", 0.2f), beta = lo.attr_f("beta", 0.5f);
  lo.output(0, lo.b.relu_0_to_1(lo.b.add(lo.b.mul(lo.input(0), alpha), beta)));
}

void lower_hard_swish(Lowering& lo) { lo.output(0, lo.b.hard_swish(lo.input(0))); }

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)). Not max(x, log(1 + exp(min(x, 20)))), which is shorter: in f16, as
// GPUs compute it, exp overflows.
void lower_softplus(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  Val tail = b.log(b.add(b.exp(b.neg(b.abs(x))), 1));
  lo.output(0, b.add(b.relu(x), tail));
}

void lower_softsign(Lowering& lo) {
  Val x = lo.input(0);
  lo.output(0, lo.b.div(x, lo.b.add(lo.b.abs(x), 1)));
}

void lower_thresholded_relu(Lowering& lo) {
  Val x = lo.input(0);
  const float alpha = lo.attr_f("alpha", 1);
  if (alpha == 0) return lo.output(0, lo.b.relu(x));
  lo.output(0, lo.b.select(lo.b.greater(x, lo.b.scalar_like(alpha, x)), x, lo.b.scalar_like(0, x)));
}

// x * tanh(log(1 + n)) with n = exp(x): tanh(log(1 + n)) = n (n + 2) / (n (n + 2) + 2), which is 1 in f32 from x = 10.
void lower_mish(Lowering& lo) {
  Builder& b = lo.b;
  constexpr double kOne = 20;
  Val x = lo.input(0);
  Val n = b.exp(b.minimum(x, b.scalar_like(kOne, x)));
  Val grown = b.mul(n, b.add(n, 2));
  lo.output(0, b.mul(x, b.div(grown, b.add(grown, 2))));
}

void lower_swish(Lowering& lo) { lo.output(0, swish(lo.b, lo.input(0), lo.attr_f("alpha", 1))); }

// Below -lambd: x + bias; above lambd: x - bias; between them 0. Integers are computed as floats and truncated.
void lower_shrink(Lowering& lo) {
  Builder& b = lo.b;
  const DType dtype = lo.dtype(lo.input(0));
  const float lambda = lo.attr_f("lambd", 0.5f), bias = lo.attr_f("bias", 0);
  if (stream::bits(dtype) > 16 && stream::is_integer(dtype))
    lo.unsupported("an input of type " + std::string(stream::dtype_name(dtype)) +
                       " is not supported: float32, in which it is computed, does not hold all its values",
                   "cast the input to float");
  Val x = stream::is_float(dtype) ? lo.input(0) : b.cast(lo.input(0), DType::kFloat32);
  Val below = b.less(x, b.scalar_like(-lambda, x)), above = b.greater(x, b.scalar_like(lambda, x));
  Val moved =
      bias == 0 ? b.select(above, x, b.scalar_like(0, x)) : b.select(above, b.sub(x, bias), b.scalar_like(0, x));
  lo.output(0, b.cast(b.select(below, bias == 0 ? x : b.add(x, bias), moved), dtype));
}

void lower_gelu(Lowering& lo) {
  const std::string approximate = lo.attr_s("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    lo.malformed("attribute 'approximate' must be 'none' or 'tanh'; it is '" + approximate + "'");
  lo.output(0, lo.b.gelu(lo.input(0), approximate == "tanh"));
}

// ---- com.microsoft: as ONNX Runtime's contrib operators define them ----

void lower_ms_gelu(Lowering& lo) { lo.output(0, lo.b.gelu(lo.input(0), false)); }

void lower_bias_gelu(Lowering& lo) { lo.output(0, lo.b.gelu(lo.b.add(lo.input(0), lo.input(1)), false)); }

void lower_fast_gelu(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.has_input(1)) x = lo.b.add(x, lo.input(1));
  lo.output(0, lo.b.gelu(x, true));
}

void lower_quick_gelu(Lowering& lo) { lo.output(0, swish(lo.b, lo.input(0), lo.attr_f("alpha", 1.702f))); }

}  // namespace lowtide::layout
