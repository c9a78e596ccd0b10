// SPDX-License-Identifier: Apache-2.0
// Traits of the elementwise ops. All broadcast as numpy does; all follow any permutation.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "layout/core/ops/checks.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;

Shape broadcast(const OpView& op) {
  Shape out;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Shape in = op.shape(i);
    if (in.size() < out.size()) in.insert(in.begin(), out.size() - in.size(), 1);
    if (out.size() < in.size()) out.insert(out.begin(), in.size() - out.size(), 1);
    for (size_t axis = 0; axis < out.size(); ++axis) out[axis] = broadcast(op, out[axis], in[axis]);
  }
  return out;
}

void need_same_dtype(const OpView& op, size_t a, size_t b) {
  if (op.dtype(a) != op.dtype(b))
    reject(op,
           fmt::format("operands of different dtypes, {} and {}", dtype_name(op.dtype(a)), dtype_name(op.dtype(b))));
}

// ---- unary ----

std::vector<TensorType> infer_unary(const OpView& op) {
  need_inputs(op, 1);
  return {{op.dtype(0), op.shape(0)}};
}

std::vector<TensorType> infer_neg(const OpView& op) {
  std::vector<TensorType> out = infer_unary(op);
  if (const auto* known = op.contents(0)) {
    out[0].contents = *known;
    for (Dim& dim : *out[0].contents) dim = op.symbols().mul(dim, -1);
  }
  return out;
}

std::vector<TensorType> infer_cast(const OpView& op) {
  need_inputs(op, 1);
  const DType to = op.get<IndexOptions>().dtype;
  TensorType out{to, op.shape(0)};
  // Dimensions stay what they are through TF's and paddle's casts between integer types (narrow types could wrap).
  const bool keeps = to == DType::kInt64 || to == DType::kInt32;
  if (const auto* known = op.contents(0); known && keeps && stream::is_integer(op.dtype(0))) {
    auto fits = [&](Dim dim) {
      return is_symbol(dim) || to == DType::kInt64 || (dim >= INT32_MIN && dim <= INT32_MAX);
    };
    if (std::all_of(known->begin(), known->end(), fits)) out.contents = *known;
  }
  return {out};
}

template <stream::Unary kOp>
std::vector<RecipeRef> fold_unary(const OpView& op) {
  return {recipe::unary(kOp, op.recipe(0))};
}

std::vector<RecipeRef> fold_cast(const OpView& op) {
  return {recipe::cast(op.recipe(0), op.get<IndexOptions>().dtype)};
}

// RELU6 and its kin: kLow and kHigh are their limits.
template <int kLow, int kHigh>
std::vector<RecipeRef> fold_clip(const OpView& op) {
  RecipeRef low = recipe::fill_value(kLow, op.dtype(0), {}), high = recipe::fill_value(kHigh, op.dtype(0), {});
  return {recipe::binary(stream::Binary::kMin, recipe::binary(stream::Binary::kMax, op.recipe(0), low), high)};
}

// ---- binary ----

std::vector<TensorType> infer_binary(const OpView& op) {
  need_inputs(op, 2);
  need_same_dtype(op, 0, 1);
  return {{op.dtype(0), broadcast(op)}};
}

std::vector<TensorType> infer_compare(const OpView& op) {
  need_inputs(op, 2);
  need_same_dtype(op, 0, 1);
  return {{DType::kBool, broadcast(op)}};
}

std::vector<TensorType> infer_shift(const OpView& op) { return infer_binary(op); }

// Contents of two short integer tensors, element by element with broadcasting of single elements.
template <typename F>
std::optional<std::vector<Dim>> combine(const OpView& op, F&& f) {
  const std::vector<Dim>* first = op.contents(0);
  if (!first) return std::nullopt;
  const std::vector<Dim> a = *first;  // the second look-up may move the first
  const std::vector<Dim>* second = op.contents(1);
  if (!second) return std::nullopt;
  const std::vector<Dim>& b = *second;
  if (a.size() != b.size() && a.size() != 1 && b.size() != 1) return std::nullopt;
  if (op.rank(0) > 1 || op.rank(1) > 1) return std::nullopt;
  std::vector<Dim> out;
  for (size_t i = 0; i < (a.size() == 1 ? b : a).size(); ++i) {
    std::optional<Dim> made = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
    if (!made) return std::nullopt;
    out.push_back(*made);
  }
  return out;
}

// Whether elements of this dtype are dimensions: arithmetic in it does not wrap for any sensible shape.
bool holds_dims(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

std::vector<TensorType> infer_arithmetic(const OpView& op) {
  std::vector<TensorType> out = infer_binary(op);
  if (!holds_dims(op.dtype(0))) return out;
  Symbols& symbols = op.symbols();
  out[0].contents = combine(op, [&](Dim a, Dim b) -> std::optional<Dim> {
    const bool positive = (is_symbol(a) || a >= 0) && (is_symbol(b) || b > 0);
    switch (op.kind) {
      case Kind::kAdd:
        return symbols.add(a, b);
      case Kind::kSub:
        return symbols.sub(a, b);
      case Kind::kMul:
        return symbols.mul(a, b);
      case Kind::kDiv:  // truncates: the same as floor for what is not negative
        return positive ? std::optional(symbols.floor_div(a, b)) : std::nullopt;
      case Kind::kFloorDiv:
        return b != 0 ? std::optional(symbols.floor_div(a, b)) : std::nullopt;
      case Kind::kFloorMod:
        return b != 0 ? std::optional(symbols.mod(a, b)) : std::nullopt;
      case Kind::kMaximum:
        return symbols.max(a, b);
      case Kind::kMinimum:
        return symbols.min(a, b);
      default:
        return std::nullopt;
    }
  });
  return out;
}

std::vector<TensorType> infer_compare_known(const OpView& op) {
  std::vector<TensorType> out = infer_compare(op);
  if (!holds_dims(op.dtype(0))) return out;
  out[0].contents = combine(op, [&](Dim a, Dim b) -> std::optional<Dim> {
    // Dimensions are not negative: a symbol is never equal to -1, never below 0.
    if (a == b) {
      if (op.kind == Kind::kEqual || op.kind == Kind::kLessEqual || op.kind == Kind::kGreaterEqual) return 1;
      return 0;
    }
    if (is_symbol(a) && !is_symbol(b) && b < 0) {
      return op.kind == Kind::kNotEqual || op.kind == Kind::kGreater || op.kind == Kind::kGreaterEqual;
    }
    if (is_symbol(b) && !is_symbol(a) && a < 0) {
      return op.kind == Kind::kNotEqual || op.kind == Kind::kLess || op.kind == Kind::kLessEqual;
    }
    return std::nullopt;  // static ones are folded by the recipe
  });
  return out;
}

template <stream::Binary kOp>
std::vector<RecipeRef> fold_binary(const OpView& op) {
  return {recipe::binary(kOp, op.recipe(0), op.recipe(1))};
}

std::vector<RecipeRef> fold_squared_difference(const OpView& op) {
  RecipeRef difference = recipe::binary(stream::Binary::kSub, op.recipe(0), op.recipe(1));
  return {recipe::binary(stream::Binary::kMul, difference, difference)};
}

// ---- select ----

std::vector<TensorType> infer_select(const OpView& op) {
  need_inputs(op, 3);
  if (op.dtype(0) != DType::kBool) reject(op, fmt::format("its condition is {}, not bool", dtype_name(op.dtype(0))));
  need_same_dtype(op, 1, 2);
  TensorType out{op.dtype(1), broadcast(op)};
  if (holds_dims(out.dtype) && out.shape.size() <= 1) {
    const std::vector<Dim>* known = op.contents(0);
    if (!known) return {out};
    const std::vector<Dim> condition = *known;
    if (!op.contents(1) || !op.contents(2)) return {out};
    const std::vector<Dim> yes = *op.contents(1), no = *op.contents(2);
    const auto [least, most] = std::minmax({condition.size(), yes.size(), no.size()});
    const size_t count = least == 0 ? 0 : most;  // one is broadcast to none as well
    std::vector<Dim> made;
    for (size_t i = 0; i < count; ++i) {
      const Dim c = condition[condition.size() == 1 ? 0 : i];
      if (is_symbol(c)) return {out};
      made.push_back(c ? yes[yes.size() == 1 ? 0 : i] : no[no.size() == 1 ? 0 : i]);
    }
    out.contents = std::move(made);
  }
  return {out};
}

std::vector<RecipeRef> fold_select(const OpView& op) {
  return {recipe::select(op.recipe(0), op.recipe(1), op.recipe(2))};
}

std::vector<TensorType> infer_add_n(const OpView& op) {
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    need_same_dtype(op, 0, i);
    if (op.shape(i) != op.shape(0)) reject(op, "operands of different shapes");
  }
  return infer_unary(op);
}

// QUANTIZE and DEQUANTIZE: the target's dtype and parameters are the output value's, set by whoever builds the op.
std::vector<TensorType> infer_quantize(const OpView& op) {
  need_inputs(op, 1);
  return {{op.get<IndexOptions>().dtype, op.shape(0)}};
}
std::vector<TensorType> infer_dequantize(const OpView& op) {
  need_inputs(op, 1);
  return {{DType::kFloat32, op.shape(0)}};
}

using U = stream::Unary;
using B = stream::Binary;
constexpr Commute kFollow = follow_elementwise;

constexpr std::array kElementwiseRows = {
    Traits{Kind::kAbs, infer_unary, fold_unary<U::kAbs>, kFollow},
    Traits{Kind::kNeg, infer_neg, fold_unary<U::kNeg>, kFollow},
    Traits{Kind::kExp, infer_unary, fold_unary<U::kExp>, kFollow},
    Traits{Kind::kLog, infer_unary, fold_unary<U::kLog>, kFollow},
    Traits{Kind::kSqrt, infer_unary, fold_unary<U::kSqrt>, kFollow},
    Traits{Kind::kRsqrt, infer_unary, fold_unary<U::kRsqrt>, kFollow},
    Traits{Kind::kSquare, infer_unary, fold_unary<U::kSquare>, kFollow},
    Traits{Kind::kSin, infer_unary, fold_unary<U::kSin>, kFollow},
    Traits{Kind::kCos, infer_unary, fold_unary<U::kCos>, kFollow},
    Traits{Kind::kErf, infer_unary, fold_unary<U::kErf>, kFollow},
    Traits{Kind::kTanh, infer_unary, fold_unary<U::kTanh>, kFollow},
    Traits{Kind::kLogistic, infer_unary, fold_unary<U::kLogistic>, kFollow},
    Traits{Kind::kFloor, infer_unary, fold_unary<U::kFloor>, kFollow},
    Traits{Kind::kCeil, infer_unary, fold_unary<U::kCeil>, kFollow},
    Traits{Kind::kRound, infer_unary, fold_unary<U::kRound>, kFollow},
    Traits{Kind::kSign, infer_unary, fold_unary<U::kSign>, kFollow},
    Traits{Kind::kLogicalNot, infer_unary, fold_unary<U::kNot>, kFollow},
    Traits{Kind::kRelu, infer_unary, fold_unary<U::kRelu>, kFollow},
    Traits{Kind::kRelu6, infer_unary, fold_clip<0, 6>, kFollow},
    Traits{Kind::kReluN1To1, infer_unary, fold_clip<-1, 1>, kFollow},
    Traits{Kind::kRelu0To1, infer_unary, fold_clip<0, 1>, kFollow},
    Traits{Kind::kElu, infer_unary, nullptr, kFollow},
    Traits{Kind::kLeakyRelu, infer_unary, nullptr, kFollow},
    Traits{Kind::kHardSwish, infer_unary, nullptr, kFollow},
    Traits{Kind::kGelu, infer_unary, nullptr, kFollow},
    Traits{Kind::kPrelu, infer_binary, nullptr, kFollow},
    Traits{Kind::kCast, infer_cast, fold_cast, kFollow},
    Traits{Kind::kQuantize, infer_quantize, nullptr, kFollow},
    Traits{Kind::kDequantize, infer_dequantize, nullptr, kFollow},
    Traits{Kind::kAdd, infer_arithmetic, fold_binary<B::kAdd>, kFollow},
    Traits{Kind::kSub, infer_arithmetic, fold_binary<B::kSub>, kFollow},
    Traits{Kind::kMul, infer_arithmetic, fold_binary<B::kMul>, kFollow},
    Traits{Kind::kDiv, infer_arithmetic, fold_binary<B::kDiv>, kFollow},
    Traits{Kind::kFloorDiv, infer_arithmetic, fold_binary<B::kFloorDiv>, kFollow},
    Traits{Kind::kFloorMod, infer_arithmetic, fold_binary<B::kFloorMod>, kFollow},
    Traits{Kind::kMaximum, infer_arithmetic, fold_binary<B::kMax>, kFollow},
    Traits{Kind::kMinimum, infer_arithmetic, fold_binary<B::kMin>, kFollow},
    Traits{Kind::kPow, infer_binary, fold_binary<B::kPow>, kFollow},
    Traits{Kind::kSquaredDifference, infer_binary, fold_squared_difference, kFollow},
    Traits{Kind::kAtan2, infer_binary, nullptr, kFollow},
    Traits{Kind::kEqual, infer_compare_known, fold_binary<B::kEqual>, kFollow},
    Traits{Kind::kNotEqual, infer_compare_known, fold_binary<B::kNotEqual>, kFollow},
    Traits{Kind::kLess, infer_compare_known, fold_binary<B::kLess>, kFollow},
    Traits{Kind::kLessEqual, infer_compare_known, fold_binary<B::kLessEqual>, kFollow},
    Traits{Kind::kGreater, infer_compare_known, fold_binary<B::kGreater>, kFollow},
    Traits{Kind::kGreaterEqual, infer_compare_known, fold_binary<B::kGreaterEqual>, kFollow},
    Traits{Kind::kLogicalAnd, infer_binary, fold_binary<B::kAnd>, kFollow},
    Traits{Kind::kLogicalOr, infer_binary, fold_binary<B::kOr>, kFollow},
    Traits{Kind::kBitwiseXor, infer_binary, fold_binary<B::kXor>, kFollow},
    Traits{Kind::kRightShift, infer_shift, fold_binary<B::kShiftRight>, kFollow},
    Traits{Kind::kStablehloAnd, infer_binary, fold_binary<B::kAnd>, kFollow},
    Traits{Kind::kStablehloShiftLeft, infer_shift, fold_binary<B::kShiftLeft>, kFollow},
    Traits{Kind::kAddN, infer_add_n, nullptr, kFollow},
    Traits{Kind::kSelectV2, infer_select, fold_select, kFollow},
};

}  // namespace

std::span<const Traits> elementwise_traits() { return kElementwiseRows; }

}  // namespace lowtide::core
