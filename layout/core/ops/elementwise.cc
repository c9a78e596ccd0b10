// SPDX-License-Identifier: Apache-2.0
// The elementwise ops. All but PRELU broadcast as numpy does; all follow any permutation.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "layout/core/ops/checks.h"
#include "layout/core/ops/rows.h"
#include "stream/recipe/recipe_step.h"

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
    reject(op, fmt::format("the operands have dtypes {} and {}", dtype_name(op.dtype(a)), dtype_name(op.dtype(b))));
}

// ---- unary ----

std::vector<TensorType> infer_unary(const OpView& op) {
  need_inputs(op, 1);
  return {{op.dtype(0), op.shape(0)}};
}

std::vector<TensorType> infer_neg(const OpView& op) {
  std::vector<TensorType> out = infer_unary(op);
  const std::vector<Dim>* known = op.contents(0);
  if (!known) return out;
  out[0].contents = unless_overflow([&] {
    std::vector<Dim> negative = *known;
    for (Dim& dim : negative) dim = op.symbols().mul(dim, -1);
    return negative;
  });
  return out;
}

std::vector<TensorType> infer_cast(const OpView& op) {
  need_inputs(op, 1);
  const DType to = op.get<IndexOptions>().dtype;
  TensorType out{to, op.shape(0)};
  // Exporters cast dimensions between integer types. They stay the same, except in narrow types, which could wrap.
  const bool keeps = to == DType::kInt64 || to == DType::kInt32;
  if (const auto* known = op.contents(0); known && keeps && stream::is_integer(op.dtype(0))) out.contents = *known;
  return {out};
}

template <stream::Unary kOp>
std::vector<RecipeRef> fold_unary(const OpView& op) {
  return {recipe::unary(kOp, op.recipe(0))};
}

std::vector<RecipeRef> fold_cast(const OpView& op) {
  return {recipe::cast(op.recipe(0), op.get<IndexOptions>().dtype)};
}

// RELU6 and the like: kLow and kHigh are their limits.
template <int kLow, int kHigh>
std::vector<RecipeRef> fold_clip(const OpView& op) {
  RecipeRef low = recipe::fill_value(kLow, op.dtype(0), {}), high = recipe::fill_value(kHigh, op.dtype(0), {});
  return {recipe::binary(stream::Binary::kMin, recipe::binary(stream::Binary::kMax, op.recipe(0), low), high)};
}

RecipeRef number(double value, const OpView& op) { return recipe::fill_value(value, op.dtype(0), {}); }
RecipeRef is_below_0(const OpView& op) { return recipe::binary(stream::Binary::kLess, op.recipe(0), number(0, op)); }
RecipeRef product(const RecipeRef& a, const RecipeRef& b) { return recipe::binary(stream::Binary::kMul, a, b); }
RecipeRef sum(const RecipeRef& a, const RecipeRef& b) { return recipe::binary(stream::Binary::kAdd, a, b); }

std::vector<RecipeRef> fold_elu(const OpView& op) {
  const RecipeRef x = op.recipe(0);
  return {recipe::select(is_below_0(op), sum(recipe::unary(stream::Unary::kExp, x), number(-1, op)), x)};
}

std::vector<RecipeRef> fold_leaky_relu(const OpView& op) {
  const RecipeRef x = op.recipe(0);
  return {recipe::select(is_below_0(op), product(x, number(op.get<LeakyReluOptions>().alpha, op)), x)};
}

std::vector<RecipeRef> fold_prelu(const OpView& op) {
  return {recipe::select(is_below_0(op), product(op.recipe(0), op.recipe(1)), op.recipe(0))};
}

std::vector<RecipeRef> fold_hard_swish(const OpView& op) {
  const RecipeRef x = op.recipe(0);
  const RecipeRef line = sum(product(x, number(1.0 / 6, op)), number(0.5, op));
  const RecipeRef gate =
      recipe::binary(stream::Binary::kMin, recipe::binary(stream::Binary::kMax, line, number(0, op)), number(1, op));
  return {product(x, gate)};
}

// x / 2 (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
std::vector<RecipeRef> fold_gelu(const OpView& op) {
  const RecipeRef x = op.recipe(0);
  RecipeRef bent;
  if (op.get<GeluOptions>().approximate) {
    const RecipeRef cube = product(product(x, x), x);
    const RecipeRef inner = product(sum(x, product(cube, number(0.044715, op))), number(std::sqrt(2 / M_PI), op));
    bent = recipe::unary(stream::Unary::kTanh, inner);
  } else {
    bent = recipe::unary(stream::Unary::kErf, product(x, number(std::sqrt(0.5), op)));
  }
  return {product(product(x, number(0.5, op)), sum(bent, number(1, op)))};
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
  return unless_overflow([&]() -> std::optional<std::vector<Dim>> {
    std::vector<Dim> out;
    for (size_t i = 0; i < (a.size() == 1 ? b : a).size(); ++i) {
      std::optional<Dim> made = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
      if (!made) return std::nullopt;
      out.push_back(*made);
    }
    return out;
  });
}

// Whether elements of this dtype may be dimensions.
bool holds_dims(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

// Of a few elements: whether the value of these elements decides the result, whatever the other operand is.
bool decided_by(const OpView& op, const Shape& result, Dim value) {
  if (!stream::is_static(result) || result.size() > 1 || stream::element_count(result) > kContentsElements)
    return false;
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<Dim>* known = op.contents(i);
    if (known && !known->empty() && std::all_of(known->begin(), known->end(), [&](Dim dim) { return dim == value; }))
      return true;
  }
  return false;
}

// DIV of integers truncates: the same as floor for what is not negative.
std::optional<Dim> quotient(const OpView& op, Dim a, Dim b) {
  Symbols& symbols = op.symbols();
  const std::set<Dim>& extents = op.graph.extents;
  if (!is_symbol(b)) return b > 0 ? std::optional(symbols.truncated_div(a, b, extents)) : std::nullopt;
  const bool is_floor = symbols.is_not_negative(a, extents) && symbols.is_not_negative(b, extents);
  return is_floor ? std::optional(symbols.floor_div(a, b)) : std::nullopt;
}

// What the activation that is fused into the op makes of the element. An element that the type does not hold is not
// known: the kernel's wraps first.
std::optional<Dim> after_activation(const OpView& op, Dim dim) {
  const auto* options = std::get_if<BinaryOptions>(&op.options);  // MAXIMUM has none
  const Activation activation = options ? options->activation : Activation::kNone;
  if (activation == Activation::kNone) return dim;
  if (!is_symbol(dim) && !recipe::fits(dim, op.dtype(0))) return std::nullopt;
  constexpr Dim kSix = 6;
  Symbols& symbols = op.symbols();
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kRelu:
      return symbols.max(dim, 0);
    case Activation::kReluN1To1:
      return symbols.min(symbols.max(dim, -1), 1);
    case Activation::kRelu6:
      return symbols.min(symbols.max(dim, 0), kSix);
  }
  return dim;
}

// A product of integers with 0 is known whatever the other operand is.
std::vector<TensorType> infer_arithmetic(const OpView& op) {
  std::vector<TensorType> out = infer_binary(op);
  if (!holds_dims(op.dtype(0))) return out;
  Symbols& symbols = op.symbols();
  const auto computed = [&](Dim a, Dim b) -> std::optional<Dim> {
    switch (op.kind) {
      case Kind::kAdd:
        return symbols.add(a, b);
      case Kind::kSub:
        return symbols.sub(a, b);
      case Kind::kMul:
        return symbols.mul(a, b);
      case Kind::kDiv:
        return quotient(op, a, b);
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
  };
  out[0].contents = combine(op, [&](Dim a, Dim b) -> std::optional<Dim> {
    const std::optional<Dim> made = computed(a, b);
    return made ? after_activation(op, *made) : std::nullopt;
  });
  if (!out[0].contents && op.kind == Kind::kMul && decided_by(op, out[0].shape, 0))
    out[0].contents.emplace(static_cast<size_t>(stream::element_count(out[0].shape)), 0);
  return out;
}

// The comparison of two numbers whose difference has this sign.
Dim compared(Kind kind, int sign) {
  switch (kind) {
    case Kind::kEqual:
      return sign == 0;
    case Kind::kNotEqual:
      return sign != 0;
    case Kind::kLess:
      return sign < 0;
    case Kind::kLessEqual:
      return sign <= 0;
    case Kind::kGreater:
      return sign > 0;
    default:
      return sign >= 0;
  }
}

std::vector<TensorType> infer_compare_known(const OpView& op) {
  std::vector<TensorType> out = infer_compare(op);
  if (!holds_dims(op.dtype(0))) return out;
  const auto is_above = [&](Dim dim, Dim number) {
    return is_symbol(dim) && !is_symbol(number) && number < 0 && op.symbols().is_not_negative(dim, op.graph.extents);
  };
  // Extents are not negative: one is never equal to -1 and never below 0. A list of extents may hold numbers as well.
  out[0].contents = combine(op, [&](Dim a, Dim b) -> std::optional<Dim> {
    const bool are_numbers = !is_symbol(a) && !is_symbol(b);
    if (a == b) return compared(op.kind, 0);
    if (are_numbers ? a > b : is_above(a, b)) return compared(op.kind, 1);
    if (are_numbers ? a < b : is_above(b, a)) return compared(op.kind, -1);
    return std::nullopt;
  });
  return out;
}

template <stream::Binary kOp>
std::vector<RecipeRef> fold_binary(const OpView& op) {
  return {recipe::binary(kOp, op.recipe(0), op.recipe(1))};
}

// AND with false and OR with true are known whatever the other operand is.
template <Kind kKind>
std::vector<TensorType> infer_logical(const OpView& op) {
  std::vector<TensorType> out = infer_binary(op);
  constexpr Dim kDecides = kKind == Kind::kLogicalOr;
  if (op.dtype(0) == DType::kBool && decided_by(op, out[0].shape, kDecides))
    out[0].contents.emplace(static_cast<size_t>(stream::element_count(out[0].shape)), kDecides);
  return out;
}

// ---- select ----

std::vector<TensorType> infer_select(const OpView& op) {
  need_inputs(op, 3);
  if (op.dtype(0) != DType::kBool) reject(op, fmt::format("the condition is {}, not bool", dtype_name(op.dtype(0))));
  need_same_dtype(op, 1, 2);
  TensorType out{op.dtype(1), broadcast(op)};
  if (holds_dims(out.dtype) && out.shape.size() <= 1) {
    const std::vector<Dim>* known = op.contents(0);
    if (!known) return {out};
    const std::vector<Dim> condition = *known;
    if (!op.contents(1) || !op.contents(2)) return {out};
    const std::vector<Dim> yes = *op.contents(1), no = *op.contents(2);
    if (!stream::is_static(out.shape)) return {out};
    const auto count = static_cast<size_t>(stream::element_count(out.shape));
    for (const auto* list : {&condition, &yes, &no})
      if (list->size() != count && list->size() != 1) return {out};
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

// QUANTIZE and DEQUANTIZE: scales and zero points belong to the output value; whoever builds the op sets them.
std::vector<TensorType> infer_quantize(const OpView& op) {
  need_inputs(op, 1);
  return {{op.get<IndexOptions>().dtype, op.shape(0)}};
}
std::vector<TensorType> infer_dequantize(const OpView& op) {
  need_inputs(op, 1);
  return {{DType::kFloat32, op.shape(0)}};
}

constexpr Builtin elementwise(Kind kind, Infer infer, Fold fold, Roles inputs, Roles outputs, Numbers numbers) {
  return {.kind = kind,
          .infer = infer,
          .fold = fold,
          .commute = follow_elementwise,
          .rewrite = kNothingToRewrite,
          .merge_axes = merge_elementwise,
          .inputs = inputs,
          .outputs = outputs,
          .limited_rank = LimitedRank::kData,
          .numbers = numbers,
          .memory = Memory::kMayOverwrite,
          .broadcasts = false,
          .keeps_infinities = false,
          .integers = Integers::kNone,
          .weights = kNoWeights,
          .activation = kNoActivation,
          .exact_input = kNone};
}
constexpr Builtin unary(Kind kind, Fold fold, Infer infer = infer_unary) {
  return elementwise(kind, infer, fold, {kData}, {kData}, Numbers::kComputed);
}
constexpr Builtin broadcasting(Builtin row) {
  row.broadcasts = true;
  return row;
}
constexpr Builtin binary(Kind kind, Fold fold, Numbers numbers, Infer infer = infer_binary) {
  return broadcasting(elementwise(kind, infer, fold, {kData, kData}, {kData}, numbers));
}
// Of what may be dimensions.
constexpr Builtin arithmetic(Kind kind, Fold fold, Numbers numbers) {
  return binary(kind, fold, numbers, infer_arithmetic);
}
// With an activation fused.
constexpr Builtin activated(Kind kind, Fold fold, Numbers numbers) {
  return with(arithmetic(kind, fold, numbers), &kActivationIn<BinaryOptions>);
}
constexpr Builtin comparison(Kind kind, Fold fold, Numbers numbers) {
  return broadcasting(elementwise(kind, infer_compare_known, fold, {kData, kData}, {kOther}, numbers));
}
// To another element type.
constexpr Builtin conversion(Kind kind, Infer infer, Fold fold) {
  return elementwise(kind, infer, fold, {kData}, {kOther}, Numbers::kComputed);
}

using U = stream::Unary;
using B = stream::Binary;
using enum Numbers;

constexpr std::array kElementwiseRows = {
    with(unary(Kind::kAbs, fold_unary<U::kAbs>), Integers::kRescaled8),
    keeping_infinities(unary(Kind::kNeg, fold_unary<U::kNeg>, infer_neg)),
    with(unary(Kind::kExp, fold_unary<U::kExp>), Integers::kRescaled8),
    with(unary(Kind::kLog, fold_unary<U::kLog>), Integers::kRescaled8),
    unary(Kind::kSqrt, fold_unary<U::kSqrt>),
    with(unary(Kind::kRsqrt, fold_unary<U::kRsqrt>), Integers::kRescaled8),
    unary(Kind::kSquare, fold_unary<U::kSquare>),
    unary(Kind::kSin, fold_unary<U::kSin>),
    unary(Kind::kCos, fold_unary<U::kCos>),
    unary(Kind::kErf, fold_unary<U::kErf>),
    with(unary(Kind::kTanh, fold_unary<U::kTanh>), Integers::kRescaled8),
    with(unary(Kind::kLogistic, fold_unary<U::kLogistic>), Integers::kFixed8),
    unary(Kind::kFloor, fold_unary<U::kFloor>),
    unary(Kind::kCeil, fold_unary<U::kCeil>),
    unary(Kind::kRound, fold_unary<U::kRound>),
    unary(Kind::kSign, fold_unary<U::kSign>),
    unary(Kind::kLogicalNot, fold_unary<U::kNot>),
    with(unary(Kind::kRelu, fold_unary<U::kRelu>), Integers::kRescaled),
    with(unary(Kind::kRelu6, fold_clip<0, 6>), Integers::kRescaled),
    with(unary(Kind::kReluN1To1, fold_clip<-1, 1>), Integers::kRescaled8),
    unary(Kind::kRelu0To1, fold_clip<0, 1>),
    unary(Kind::kElu, fold_elu),
    with(unary(Kind::kLeakyRelu, fold_leaky_relu), Integers::kRescaled),
    with(unary(Kind::kHardSwish, fold_hard_swish), Integers::kRescaled8),
    with(unary(Kind::kGelu, fold_gelu), Integers::kRescaled8),
    with(elementwise(Kind::kPrelu, infer_binary, fold_prelu, {kData, kData}, {kData}, kComputed), Integers::kRescaled8),
    keeping_infinities(conversion(Kind::kCast, infer_cast, fold_cast)),
    conversion(Kind::kQuantize, infer_quantize, kNotFolded),
    conversion(Kind::kDequantize, infer_dequantize, kNotFolded),
    with(keeping_infinities(activated(Kind::kAdd, fold_binary<B::kAdd>, kSignFree)), Integers::kRescaled),
    with(keeping_infinities(activated(Kind::kSub, fold_binary<B::kSub>, kSignFree)), Integers::kRescaled),
    with(activated(Kind::kMul, fold_binary<B::kMul>, kSignFree), Integers::kRescaled),
    activated(Kind::kDiv, fold_binary<B::kDiv>, kComputed),
    arithmetic(Kind::kFloorDiv, fold_binary<B::kFloorDiv>, kComputed),
    arithmetic(Kind::kFloorMod, fold_binary<B::kFloorMod>, kComputed),
    with(keeping_infinities(arithmetic(Kind::kMaximum, fold_binary<B::kMax>, kOrdered)), Integers::kChosen),
    with(keeping_infinities(arithmetic(Kind::kMinimum, fold_binary<B::kMin>, kOrdered)), Integers::kChosen),
    binary(Kind::kPow, fold_binary<B::kPow>, kComputed),
    binary(Kind::kAtan2, fold_binary<B::kAtan2>, kComputed),
    comparison(Kind::kEqual, fold_binary<B::kEqual>, kSignFree),
    comparison(Kind::kNotEqual, fold_binary<B::kNotEqual>, kSignFree),
    comparison(Kind::kLess, fold_binary<B::kLess>, kOrdered),
    comparison(Kind::kLessEqual, fold_binary<B::kLessEqual>, kOrdered),
    comparison(Kind::kGreater, fold_binary<B::kGreater>, kOrdered),
    comparison(Kind::kGreaterEqual, fold_binary<B::kGreaterEqual>, kOrdered),
    binary(Kind::kLogicalAnd, fold_binary<B::kAnd>, kComputed, infer_logical<Kind::kLogicalAnd>),
    binary(Kind::kLogicalOr, fold_binary<B::kOr>, kComputed, infer_logical<Kind::kLogicalOr>),
    binary(Kind::kBitwiseXor, fold_binary<B::kXor>, kComputed),
    binary(Kind::kRightShift, fold_binary<B::kShiftRight>, kComputed),
    binary(Kind::kStablehloAnd, fold_binary<B::kAnd>, kComputed),
    binary(Kind::kStablehloShiftLeft, fold_binary<B::kShiftLeft>, kComputed),
    with(keeping_infinities(broadcasting(
             elementwise(Kind::kSelectV2, infer_select, fold_select, {kOther, kData, kData}, {kData}, kMoved))),
         Integers::kChosen),
};

}  // namespace

std::span<const Builtin> elementwise_builtins() { return kElementwiseRows; }

}  // namespace lowtide::core
