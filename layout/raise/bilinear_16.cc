// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/bilinear_16.h"

#include <algorithm>
#include <optional>

namespace lowtide::layout {
namespace {

constexpr int64_t kRow = 1 << 10;

// Pairs of rows of the image, one for each row of the result, and how much the second one of each counts, in kRow.
struct Rows {
  std::vector<int64_t> first, second, weight;
};

int64_t step_of(Coordinates coordinates, int64_t from, int64_t to) {
  const int64_t ends = coordinates == Coordinates::kAlignCorners && to > 1 ? 1 : 0, steps = to - ends;
  return (kRow * (from - ends) + steps / 2) / steps;
}

// The kernel does not keep the first row of a pair inside the image: it reads what is behind it.
Rows rows_of(Coordinates coordinates, int64_t from, int64_t to) {
  Rows out;
  const int64_t step = step_of(coordinates, from, to);
  for (int64_t i = 0; i < to; ++i) {
    const int64_t at = i * step + (coordinates == Coordinates::kHalfPixel ? step / 2 - kRow / 2 : 0);
    out.first.push_back(std::clamp<int64_t>(at / kRow, 0, from - 1));
    out.second.push_back(std::min((at + kRow - 1) / kRow, from - 1));
    out.weight.push_back(at - kRow * out.first.back());
  }
  return out;
}

// An axis of i64 numbers, which become kRow times as large.
std::string resized(Raising& r, const std::string& image, const Rows& rows, int64_t axis) {
  std::vector<int64_t> rest;
  for (const int64_t weight : rows.weight) rest.push_back(kRow - weight);
  const auto part = [&](const std::vector<int64_t>& places, const std::vector<int64_t>& weights) {
    const auto count = static_cast<core::Dim>(weights.size());
    const Shape along = axis == 2 ? Shape{count, 1} : Shape{count};
    const std::string taken = r.node("Gather", {image, r.int64_list(places)}, {attribute("axis", axis)});
    return r.node("Mul", {taken, r.onnx.initializer(stream::recipe::ints(weights, DType::kInt64, along), "weights")});
  };
  const std::string first = part(rows.first, rest);
  return r.node("Add", {first, part(rows.second, rows.weight)});
}

}  // namespace

bool has_exact_places(core::Symbols& symbols, Coordinates coordinates, core::Dim from, core::Dim to) {
  const bool is_half = coordinates == Coordinates::kHalfPixel;
  if (from == to) return true;
  if (!stream::is_static(from) || !stream::is_static(to)) {
    if (coordinates == Coordinates::kAlignCorners) return false;
    const std::optional<core::Dim> grows = symbols.exact_div(to, from);
    if (!grows) return symbols.exact_div(from, to).has_value();
    return stream::is_static(*grows) && *grows > 0 && kRow % (is_half ? 2 * *grows : *grows) == 0;
  }
  const int64_t ends = coordinates == Coordinates::kAlignCorners && to > 1 ? 1 : 0;
  if (from == 0 || to == 0) return true;
  const int64_t step = step_of(coordinates, from, to);
  return kRow * (from - ends) == step * (to - ends) && !(is_half && step % 2 != 0);
}

// Halves are rounded away from 0. ONNX's Div of integers rounds towards it. No Sign: ONNX Runtime's of i64 looks at the
// low half.
void raise_bilinear_16(Raising& r, Coordinates coordinates) {
  std::string made = r.cast(r.stored(0), DType::kInt64);
  int64_t unit = 1;
  for (const size_t axis : {2U, 3U}) {
    const int64_t from = r.need_static(r.in(0).shape[axis], "the size of an image of 16 bits is"),
                  to = r.need_static(r.out().shape[axis], "the size of a result of 16 bits is");
    if (from == to) continue;
    made = resized(r, made, rows_of(coordinates, from, to), static_cast<int64_t>(axis));
    unit *= kRow;
  }
  const auto number = [&](int64_t value) { return r.scalar(static_cast<double>(value), DType::kInt64); };
  const std::string is_below = r.node("Less", {made, number(0)});
  const std::string half = r.node("Where", {is_below, number(-unit / 2), number(unit / 2)});
  r.give_stored(r.cast(r.node("Div", {r.node("Add", {made, half}), number(unit)}), r.out().dtype));
}

}  // namespace lowtide::layout
