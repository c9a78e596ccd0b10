// SPDX-License-Identifier: Apache-2.0
// Reductions over a stream: each element of the result has an accumulator, and the input goes by once.
//
// The order is fixed: the elements of the input that fall on one element of the result are taken in row-major order,
// one after the other. Floats accumulate in double and are rounded to their type once, at the end; integers wrap. So
// the bytes depend neither on the tiles nor on how the result is asked for.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "stream/recipe/lanes.h"
#include "stream/recipe/step_readers.h"

namespace lowtide::stream {
namespace {

// All accumulators are 8 bytes wide. Signed sums and products wrap, so they run in u64.
template <typename T>
using Wide =
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>, double>;

template <typename W>
W first_value(Reduction op) {
  using Limits = std::numeric_limits<W>;
  switch (op) {
    case Reduction::kSum:
      return W{0};
    case Reduction::kProd:
      return W{1};
    case Reduction::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case Reduction::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  return W{0};
}

template <typename W>
W larger(W a, W b) {
  return (a > b || a != a) ? a : b;
}

template <Reduction kOp, typename W>
W joined(W sum, W x) {
  constexpr bool kWraps = std::is_integral_v<W>;
  using U = std::conditional_t<kWraps, uint64_t, double>;
  if constexpr (kOp == Reduction::kSum) return static_cast<W>(static_cast<U>(sum) + static_cast<U>(x));
  if constexpr (kOp == Reduction::kProd) return static_cast<W>(static_cast<U>(sum) * static_cast<U>(x));
  if constexpr (kOp == Reduction::kMin) return (sum < x || sum != sum) ? sum : x;
  return larger(sum, x);
}

template <typename T>
Wide<T> widened(T x) {
  if constexpr (kIsHalf<T>) {
    return static_cast<double>(computed(x));
  } else {
    return static_cast<Wide<T>>(x);
  }
}

template <Reduction kOp, typename T>
void accumulate(const Nest& nest, const T* in, Wide<T>* sums) {
  if (nest.size.empty()) {
    *sums = joined<kOp>(*sums, widened(*in));
    return;
  }
  int64_t count = nest.size.back();
  int64_t step = nest.strides[1].back();
  for_each_outer(nest, 1, [&](const auto& at) {
    const T* from = in + at[0];
    Wide<T>* to = sums + at[1];
    if (step == 0) {
      Wide<T> sum = *to;
      for (int64_t i = 0; i < count; ++i) sum = joined<kOp>(sum, widened(from[i]));
      *to = sum;
    } else {
      for (int64_t i = 0; i < count; ++i) to[i * step] = joined<kOp>(to[i * step], widened(from[i]));
    }
  });
}

template <typename T>
void accumulate(Reduction op, const Nest& nest, const T* in, Wide<T>* sums) {
  switch (op) {
    case Reduction::kSum:
      return accumulate<Reduction::kSum>(nest, in, sums);
    case Reduction::kProd:
      return accumulate<Reduction::kProd>(nest, in, sums);
    case Reduction::kMin:
      return accumulate<Reduction::kMin>(nest, in, sums);
    case Reduction::kMax:
      return accumulate<Reduction::kMax>(nest, in, sums);
  }
}

template <typename T, typename W>
T narrowed(W sum) {
  if constexpr (kIsHalf<T>) {
    return stored<T>(static_cast<float>(sum));
  } else if constexpr (std::is_same_v<T, bool>) {
    return sum != 0;
  } else {
    return static_cast<T>(sum);
  }
}

class ReduceReader : public StepReader {
 public:
  ReduceReader(const Recipe& recipe, const step::Reduce& step, StepReaderRef input, Scratch& scratch)
      : StepReader(recipe), op_(step.op), axes_(step.axes), input_(std::move(input)), scratch_(scratch) {}

  void read(const Box& box, std::byte* out) override {
    with_lanes(dtype_, [&](auto type) {
      for_each_piece(box, scratch_.fits(sizeof(Wide<decltype(type)>)),
                     [&](const Box& piece, uint64_t offset) { reduce<decltype(type)>(piece, at(out, offset)); });
    });
  }

 private:
  template <typename T>
  void reduce(const Box& box, std::byte* out) {
    Tile sums_tile(scratch_), tile(scratch_);
    auto* sums = reinterpret_cast<Wide<T>*>(sums_tile.data());
    uint64_t count = box.elements();
    // The values of booleans are 0 and 1, the limits of u64 do as well.
    std::fill_n(sums, count, first_value<Wide<T>>(op_));
    Box from = box;
    Shape sum_strides = dense_strides(box.size);
    for (int axis : axes_) {
      auto along = static_cast<size_t>(axis);
      from.size[along] = input_->dims()[along];
      sum_strides[along] = 0;
    }
    if (from.elements() > 0) {
      for_each_piece(from, scratch_.fits(lane_), [&](const Box& piece, uint64_t) {
        const auto* in = reinterpret_cast<const T*>(input_->lanes(piece, tile));
        int64_t first = 0;
        for (size_t i = 0; i < piece.begin.size(); ++i) first += (piece.begin[i] - from.begin[i]) * sum_strides[i];
        Nest nest{piece.size, {dense_strides(piece.size), sum_strides, {}, {}}};
        nest.collapse(2);
        accumulate(op_, nest, in, sums + first);
      });
    }
    auto* results = reinterpret_cast<T*>(out);
    for (uint64_t i = 0; i < count; ++i) results[i] = narrowed<T>(sums[i]);
    if (int width = bits(dtype_); width < 8) {
      if constexpr (sizeof(T) == 1 && !std::is_same_v<T, bool>)
        for (uint64_t i = 0; i < count; ++i) results[i] = wrapped(results[i], width);
    }
  }

  Reduction op_;
  const std::vector<int>& axes_;
  StepReaderRef input_;
  Scratch& scratch_;
};

}  // namespace

StepReaderRef make_step_reader(const Recipe& recipe, const step::Reduce& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<ReduceReader>(recipe, step, from[0], scratch);
}

}  // namespace lowtide::stream
