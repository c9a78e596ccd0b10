// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/batch_reshape.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lowtide::layout {
namespace {

using stream::Dim;
using stream::Shape;

// The product of the extents before an axis: a number, and symbols, in order.
struct Front {
  Dim number = 1;
  std::vector<Dim> open;
};

// nullopt where an extent is 0, or the number too large.
std::optional<Front> front_of(const Shape& shape, size_t axis) {
  Front front;
  for (size_t i = 0; i < axis; ++i) {
    if (shape[i] < 0)
      front.open.push_back(shape[i]);
    else if (shape[i] == 0 || __builtin_mul_overflow(front.number, shape[i], &front.number))
      return std::nullopt;
  }
  std::sort(front.open.begin(), front.open.end());
  return front;
}

// A reshape keeps the order of the elements: what stands before the batch is as large in the output as in the input. Of
// a larger axis a part may stand before the batch.
bool may_hold(const BatchReshape& reshape, size_t axis, Dim batch) {
  const Dim extent = reshape.output[axis];
  const bool is_open = extent < 0;
  if (is_open ? reshape.target[axis] != -1 : extent == 0 || extent % batch != 0) return false;
  const auto front = front_of(reshape.input, reshape.axis), out_front = front_of(reshape.output, axis);
  if (!front || !out_front) return false;
  if (is_open) {  // unless it ends before the batch
    const Front end = *front_of(reshape.output, axis + 1);
    return front->number % end.number != 0 || !std::ranges::includes(front->open, end.open);
  }
  // Numbers hold no symbol; of two products of symbols it is not known how they are related.
  if (front->open != out_front->open) return !front->open.empty() && !out_front->open.empty();
  const Dim common = std::gcd(front->number, out_front->number);
  const Dim parts = reshape.input[reshape.axis] / batch, out_parts = extent / batch;
  return parts % (out_front->number / common) == 0 && out_parts % (front->number / common) == 0;
}

bool has_after_first(const Shape& target, Dim extent) {
  return std::find(target.begin() + 1, target.end(), extent) != target.end();
}

// A batch of 1 may be any axis: two forms are taken, in which exporters write the batch first.
std::optional<Shape> reshape_for_batch_of_one(const BatchReshape& reshape, Dim now) {
  if (reshape.axis != 0) return std::nullopt;
  // The batch is the first part of a larger axis. An extent of 1 after it might be the batch instead.
  if (reshape.target[0] == -1) return has_after_first(reshape.target, 1) ? std::nullopt : std::optional(reshape.target);
  if (reshape.target[0] != 1) return std::nullopt;
  // A larger axis whose first part is the batch is divided again: [4*T, D] -> [4, T, D].
  const Dim parts = reshape.input[0];
  Dim product = 1;
  for (size_t i = 1; i < reshape.output.size() && reshape.output[i] > 0 && product < parts; ++i)
    if (__builtin_mul_overflow(product, reshape.output[i], &product)) return std::nullopt;
  if (product != parts) return std::nullopt;
  Shape target = reshape.target;
  target[0] = now;
  return target;
}

std::optional<Shape> reshape_for_batch(const BatchReshape& reshape, const OtherBatch& batch) {
  const auto [before, now] = batch;
  if (before == 1) return reshape_for_batch_of_one(reshape, now);
  std::vector<size_t> axes;  // that are numbers in the target, or copied from the input
  std::optional<size_t> open;
  for (size_t i = 0; i < reshape.output.size(); ++i) {
    if (!may_hold(reshape, i, before)) continue;
    if (reshape.target[i] == -1)
      open = i;
    else
      axes.push_back(i);
  }
  if (open) {
    // What the model itself leaves open follows by itself, unless a number may be the batch instead: [-1,T,D] is read
    // so, [N,-1,D] and [-1,N,D] are not.
    const bool is_another = std::ranges::any_of(
        axes, [&, old = before](size_t axis) { return axis < *open || reshape.output[axis] == old; });
    return is_another ? std::nullopt : std::optional(reshape.target);
  }
  if (axes.size() != 1) return std::nullopt;
  Shape target = reshape.target;
  if (__builtin_mul_overflow(reshape.output[axes[0]] / before, now, &target[axes[0]])) return std::nullopt;
  return target;
}

// The axis is a number of batches.
bool is_multiple(Dim before, Dim now, const OtherBatch& batch) {
  if (before % batch.first != 0) return false;
  return now % batch.second == 0 && now / batch.second == before / batch.first;
}

}  // namespace

std::optional<Shape> reshape_for(const BatchReshape& reshape, const std::set<OtherBatch>& batches) {
  const Dim before = reshape.input[reshape.axis], now = reshape.new_input[reshape.axis];
  if (before <= 0 || now <= 0 || reshape.target.empty()) return std::nullopt;
  std::set<Shape> readings;
  bool is_of_no_batch = true,
       is_after_first = has_after_first(reshape.target, 1) || has_after_first(reshape.target, before);
  for (const OtherBatch& batch : batches) {
    is_after_first = is_after_first || has_after_first(reshape.target, batch.first);
    if (!is_multiple(before, now, batch)) continue;
    is_of_no_batch = false;
    const std::optional<Shape> reading = reshape_for_batch(reshape, batch);
    if (!reading) return std::nullopt;
    readings.insert(*reading);
  }
  // Such as a batch and a row more.
  if (is_of_no_batch && reshape.axis == 0 && reshape.target[0] == -1 && !is_after_first) return reshape.target;
  return readings.size() == 1 ? std::optional(*readings.begin()) : std::nullopt;
}

}  // namespace lowtide::layout
