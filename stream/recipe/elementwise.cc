// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/elementwise.h"

#include <cmath>
#include <utility>

#include "stream/error.h"
#include "stream/recipe/box.h"
#include "stream/recipe/lanes.h"

namespace lowtide::stream::elementwise {
namespace {

// Unsigned arithmetic wraps, but only from 32 bits on: narrower types are promoted to int.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

[[noreturn]] void division_by_zero() { throw Error(Code::kMalformed, "integer division by zero in a constant"); }

template <typename T>
T int_div(T a, T b) {
  if (b == 0) division_by_zero();
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
  return static_cast<T>(a / b);
}

template <typename T>
T int_mod(T a, T b) {
  if (b == 0) division_by_zero();
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}

template <typename T>
T int_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 0) division_by_zero();
      if (base == 1) return 1;
      return base == -1 ? static_cast<T>(exponent % 2 ? -1 : 1) : 0;
    }
  }
  Wrapping<T> result = 1, power = static_cast<Wrapping<T>>(base);
  for (auto rest = static_cast<std::make_unsigned_t<T>>(exponent); rest; rest = rest >> 1) {
    if (rest & 1) result *= power;
    power *= power;
  }
  return static_cast<T>(result);
}

template <typename T>
T floor_mod(T a, T b) {
  T rest;
  if constexpr (std::is_floating_point_v<T>) {
    rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(rest, b);
  } else {
    rest = int_mod(a, b);
  }
  if (rest != 0 && (rest < 0) != (b < 0)) rest = static_cast<T>(rest + b);
  return rest;
}

template <typename T>
T shift_left(T a, T b, int width) {
  bool inside = b >= 0 && static_cast<uint64_t>(b) < static_cast<uint64_t>(width);
  return inside ? static_cast<T>(static_cast<Wrapping<T>>(a) << b) : T{0};
}

template <typename T>
T shift_right(T a, T b, int width) {
  bool inside = b >= 0 && static_cast<uint64_t>(b) < static_cast<uint64_t>(width);
  return inside ? static_cast<T>(a >> b) : static_cast<T>(a < 0 ? -1 : 0);
}

using Row = void (*)(int64_t count, const std::byte* a, int64_t a_step, const std::byte* b, int64_t b_step,
                     std::byte* out);

// One row of a broadcast; a step is 0 (repeated) or 1. In place is fine: element i of `out` is written after element i
// of the operands was read and touches no other.
template <typename T, typename R, auto kOp>
void row(int64_t count, const std::byte* a_data, int64_t a_step, const std::byte* b_data, int64_t b_step,
         std::byte* out_data) {
  auto* a = reinterpret_cast<const T*>(a_data);
  auto* b = reinterpret_cast<const T*>(b_data);
  auto* out = reinterpret_cast<R*>(out_data);
  if (a_step && b_step) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = stored<R>(kOp(computed(a[i]), computed(b[i])));
  } else if (a_step) {
    auto right = computed(*b);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = stored<R>(kOp(computed(a[i]), right));
  } else {
    auto left = computed(*a);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = stored<R>(kOp(left, computed(b[b_step ? i : 0])));
  }
}

template <typename T>
Row comparison_row(Binary op) {
  using C = Computed<T>;
  switch (op) {
    case Binary::kEqual:
      return row<T, bool, [](C a, C b) { return a == b; }>;
    case Binary::kNotEqual:
      return row<T, bool, [](C a, C b) { return a != b; }>;
    case Binary::kLess:
      return row<T, bool, [](C a, C b) { return a < b; }>;
    case Binary::kLessEqual:
      return row<T, bool, [](C a, C b) { return a <= b; }>;
    case Binary::kGreater:
      return row<T, bool, [](C a, C b) { return (a > b); }>;
    case Binary::kGreaterEqual:
      return row<T, bool, [](C a, C b) { return a >= b; }>;
    default:
      return nullptr;
  }
}

Row bool_row(Binary op) {
  switch (op) {
    case Binary::kAnd:
    case Binary::kMin:
      return row<bool, bool, [](bool a, bool b) { return a && b; }>;
    case Binary::kOr:
    case Binary::kMax:
      return row<bool, bool, [](bool a, bool b) { return a || b; }>;
    case Binary::kXor:
      return row<bool, bool, [](bool a, bool b) { return a != b; }>;
    default:
      return comparison_row<bool>(op);
  }
}

template <typename T>
Row float_row(Binary op) {
  using C = Computed<T>;
  switch (op) {
    case Binary::kAdd:
      return row<T, T, [](C a, C b) { return a + b; }>;
    case Binary::kSub:
      return row<T, T, [](C a, C b) { return a - b; }>;
    case Binary::kMul:
      return row<T, T, [](C a, C b) { return a * b; }>;
    case Binary::kDiv:
      return row<T, T, [](C a, C b) { return a / b; }>;
    case Binary::kFloorDiv:
      return row<T, T, [](C a, C b) { return static_cast<C>(std::floor(double{a} / double{b})); }>;
    case Binary::kFloorMod:
      return row<T, T, [](C a, C b) { return floor_mod(a, b); }>;
    case Binary::kTruncMod:
      return row<T, T, [](C a, C b) { return std::fmod(a, b); }>;
    case Binary::kPow:
      return row<T, T, [](C a, C b) { return std::pow(a, b); }>;
    case Binary::kAtan2:
      return row<T, T, [](C a, C b) { return std::atan2(a, b); }>;
    case Binary::kMin:
      return row<T, T, [](C a, C b) { return (a < b || a != a) ? a : b; }>;
    case Binary::kMax:
      return row<T, T, [](C a, C b) { return (a > b || a != a) ? a : b; }>;
    default:
      return comparison_row<T>(op);
  }
}

template <typename T>
Row int_row(Binary op) {
  using W = Wrapping<T>;
  switch (op) {
    case Binary::kAdd:
      return row<T, T, [](T a, T b) { return static_cast<T>(static_cast<W>(a) + static_cast<W>(b)); }>;
    case Binary::kSub:
      return row<T, T, [](T a, T b) { return static_cast<T>(static_cast<W>(a) - static_cast<W>(b)); }>;
    case Binary::kMul:
      return row<T, T, [](T a, T b) { return static_cast<T>(static_cast<W>(a) * static_cast<W>(b)); }>;
    case Binary::kDiv:
      return row<T, T, [](T a, T b) { return int_div(a, b); }>;
    case Binary::kFloorDiv:
      return row<T, T, [](T a, T b) {
        auto inexact_below = [](T x, T y) { return (x < 0) != (y < 0) && int_mod(x, y) != 0; };
        return static_cast<T>(int_div(a, b) - (inexact_below(a, b) ? 1 : 0));
      }>;
    case Binary::kFloorMod:
      return row<T, T, [](T a, T b) { return floor_mod(a, b); }>;
    case Binary::kTruncMod:
      return row<T, T, [](T a, T b) { return int_mod(a, b); }>;
    case Binary::kPow:
      return row<T, T, [](T a, T b) { return int_pow(a, b); }>;
    case Binary::kMin:
      return row<T, T, [](T a, T b) { return a < b ? a : b; }>;
    case Binary::kMax:
      return row<T, T, [](T a, T b) { return (a > b) ? a : b; }>;
    case Binary::kAnd:
      return row<T, T, [](T a, T b) { return static_cast<T>(a & b); }>;
    case Binary::kOr:
      return row<T, T, [](T a, T b) { return static_cast<T>(a | b); }>;
    case Binary::kXor:
      return row<T, T, [](T a, T b) { return static_cast<T>(a ^ b); }>;
    case Binary::kShiftLeft:
      return row<T, T, [](T a, T b) { return shift_left(a, b, 8 * int{sizeof(T)}); }>;
    case Binary::kShiftRight:
      return row<T, T, [](T a, T b) { return shift_right(a, b, 8 * int{sizeof(T)}); }>;
    default:
      return comparison_row<T>(op);
  }
}

Row binary_row(Binary op, DType dtype) {
  return with_lanes(dtype, [&](auto lane) -> Row {
    using T = decltype(lane);
    if constexpr (std::is_same_v<T, bool>) {
      return bool_row(op);
    } else if constexpr (std::is_integral_v<T>) {
      return int_row<T>(op);
    } else {
      return float_row<T>(op);
    }
  });
}

void wrap_lanes(DType dtype, std::byte* lanes, uint64_t count) {
  int width = bits(dtype);
  with_lanes(dtype, [&](auto lane) {
    using T = decltype(lane);
    if constexpr (sizeof(T) == 1 && !std::is_same_v<T, bool>) {
      auto* values = reinterpret_cast<T*>(lanes);
      for (uint64_t i = 0; i < count; ++i) values[i] = wrapped(values[i], width);
    }
  });
}

template <typename T, typename Op>
void map(const std::byte* in_data, std::byte* out_data, uint64_t count, Op op) {
  auto* in = reinterpret_cast<const T*>(in_data);
  auto* out = reinterpret_cast<T*>(out_data);
#pragma GCC ivdep
  for (uint64_t i = 0; i < count; ++i) out[i] = stored<T>(op(computed(in[i])));
}

template <typename T>
void float_unary(Unary op, const std::byte* in, std::byte* out, uint64_t count) {
  using C = Computed<T>;
  auto run = [&](auto f) { map<T>(in, out, count, f); };
  switch (op) {
    case Unary::kNeg:
      return run([](C x) { return -x; });
    case Unary::kAbs:
      return run([](C x) { return std::fabs(x); });
    case Unary::kSqrt:
      return run([](C x) { return std::sqrt(x); });
    case Unary::kRsqrt:
      return run([](C x) { return C{1} / std::sqrt(x); });
    case Unary::kReciprocal:
      return run([](C x) { return C{1} / x; });
    case Unary::kExp:
      return run([](C x) { return std::exp(x); });
    case Unary::kLog:
      return run([](C x) { return std::log(x); });
    case Unary::kFloor:
      return run([](C x) { return std::floor(x); });
    case Unary::kCeil:
      return run([](C x) { return std::ceil(x); });
    case Unary::kRound:
      return run([](C x) { return std::nearbyint(x); });
    case Unary::kSign:
      return run([](C x) { return x != x ? x : static_cast<C>((x > 0) - (x < 0)); });
    case Unary::kSquare:
      return run([](C x) { return x * x; });
    case Unary::kSin:
      return run([](C x) { return std::sin(x); });
    case Unary::kCos:
      return run([](C x) { return std::cos(x); });
    case Unary::kTanh:
      return run([](C x) { return std::tanh(x); });
    case Unary::kErf:
      return run([](C x) { return std::erf(x); });
    case Unary::kLogistic:
      return run([](C x) { return C{1} / (C{1} + std::exp(-x)); });
    case Unary::kRelu:
      return run([](C x) { return x < 0 ? C{0} : x; });
    case Unary::kNot:
      break;
  }
  throw Error(Code::kInternal, "kNot of a float");
}

template <typename T>
void int_unary(Unary op, const std::byte* in, std::byte* out, uint64_t count) {
  using W = Wrapping<T>;
  auto run = [&](auto f) { map<T>(in, out, count, f); };
  switch (op) {
    case Unary::kNeg:
      return run([](T x) { return W{0} - static_cast<W>(x); });
    case Unary::kAbs:
      return run([](T x) { return x < 0 ? W{0} - static_cast<W>(x) : static_cast<W>(x); });
    case Unary::kSign:
      return run([](T x) { return (x > 0) - (x < 0); });
    case Unary::kSquare:
      return run([](T x) { return static_cast<W>(x) * static_cast<W>(x); });
    case Unary::kRelu:
      return run([](T x) { return x < 0 ? T{0} : x; });
    case Unary::kNot:
      return run([](T x) { return ~static_cast<W>(x); });
    default:
      throw Error(Code::kInternal, "no such function of an integer");
  }
}

}  // namespace

bool takes(Unary op, DType dtype) {
  if (dtype == DType::kBool) return op == Unary::kNot;
  if (is_float(dtype)) return op != Unary::kNot;
  if (!is_integer(dtype)) return false;
  return op == Unary::kNeg || op == Unary::kAbs || op == Unary::kSign || op == Unary::kSquare || op == Unary::kRelu ||
         op == Unary::kNot;
}

bool takes(Binary op, DType dtype) {
  if (!is_float(dtype) && !is_integer(dtype) && dtype != DType::kBool) return false;
  return binary_row(op, dtype) != nullptr;
}

bool takes(Reduction op, DType dtype) {
  if (dtype == DType::kBool) return op == Reduction::kMin || op == Reduction::kMax;
  return is_float(dtype) || is_integer(dtype);
}

bool compares(Binary op) { return op >= Binary::kEqual && op <= Binary::kGreaterEqual; }

void unary(Unary op, DType dtype, const std::byte* in, std::byte* out, uint64_t count) {
  with_lanes(dtype, [&](auto lane) {
    using T = decltype(lane);
    if constexpr (std::is_same_v<T, bool>) {
      map<T>(in, out, count, [](bool x) { return !x; });
    } else if constexpr (std::is_integral_v<T>) {
      int_unary<T>(op, in, out, count);
    } else {
      float_unary<T>(op, in, out, count);
    }
  });
  if (bits(dtype) < 8) wrap_lanes(dtype, out, count);
}

void binary(Binary op, DType dtype, std::span<const Dim> size, Operand a, Operand b, std::byte* out) {
  Nest nest{Shape(size.begin(), size.end()),
            {broadcast_strides(a.size, size), broadcast_strides(b.size, size), dense_strides(size), {}}};
  nest.collapse(3);
  Row run = binary_row(op, dtype);
  if (nest.size.empty()) return run(1, a.data, 0, b.data, 0, out);
  int64_t in_lane = lane_bytes(dtype), out_lane = compares(op) ? 1 : in_lane;
  for_each_outer(nest, 1, [&](const auto& offset) {
    run(nest.size.back(), a.data + offset[0] * in_lane, nest.strides[0].back(), b.data + offset[1] * in_lane,
        nest.strides[1].back(), out + offset[2] * out_lane);
  });
  if (bits(dtype) < 8 && !compares(op)) wrap_lanes(dtype, out, element_count(size));
}

namespace {

template <typename T>
void select_rows(const Nest& nest, const bool* condition, const T* yes, const T* no, T* out) {
  if (nest.size.empty()) {
    *out = *condition ? *yes : *no;
    return;
  }
  int64_t count = nest.size.back();
  int64_t c = nest.strides[0].back(), y = nest.strides[1].back(), n = nest.strides[2].back();
  for_each_outer(nest, 1, [&](const auto& at) {
    for (int64_t i = 0; i < count; ++i)
      out[at[3] + i] = condition[at[0] + i * c] ? yes[at[1] + i * y] : no[at[2] + i * n];
  });
}

}  // namespace

void select(int lane, std::span<const Dim> size, Operand condition, Operand yes, Operand no, std::byte* out) {
  Nest nest{Shape(size.begin(), size.end()),
            {broadcast_strides(condition.size, size), broadcast_strides(yes.size, size),
             broadcast_strides(no.size, size), dense_strides(size)}};
  nest.collapse(4);
  auto run = [&](auto type) {
    using T = decltype(type);
    select_rows(nest, reinterpret_cast<const bool*>(condition.data), reinterpret_cast<const T*>(yes.data),
                reinterpret_cast<const T*>(no.data), reinterpret_cast<T*>(out));
  };
  switch (lane) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    case 8:
      return run(uint64_t{});
    default:
      return run(std::pair<uint64_t, uint64_t>{});
  }
}

}  // namespace lowtide::stream::elementwise
