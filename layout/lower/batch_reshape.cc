// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/batch_reshape.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lowtide::layout {
namespace {

using stream::Dim;
using stream::Shape;

// Of extents that are known and not 0; nullopt for others, and where it is too large.
std::optional<Dim> product_before(const Shape& shape, size_t end) {
  Dim product = 1;
  for (size_t i = 0; i < end; ++i)
    if (shape[i] <= 0 || __builtin_mul_overflow(product, shape[i], &product)) return std::nullopt;
  return product;
}

// A reshape keeps the order of the elements: what stands before the batch is as large in the output as in the input. Of
// a larger axis a part may stand before the batch.
bool may_hold(const BatchReshape& reshape, size_t axis, Dim batch) {
  if (reshape.output[axis] <= 0 || reshape.output[axis] % batch != 0) return false;
  const auto front = product_before(reshape.input, reshape.axis), out_front = product_before(reshape.output, axis);
  if (!front || !out_front) return false;
  const Dim common = std::gcd(*front, *out_front);
  const Dim parts = reshape.input[reshape.axis] / batch, out_parts = reshape.output[axis] / batch;
  return parts % (*out_front / common) == 0 && out_parts % (*front / common) == 0;
}

bool has_behind_first(const Shape& target, Dim extent) {
  return std::find(target.begin() + 1, target.end(), extent) != target.end();
}

// A batch of 1 may be any axis: two forms are taken, in which exporters write the batch first.
std::optional<Shape> reshape_for_batch_of_one(const BatchReshape& reshape, Dim now) {
  if (reshape.axis != 0) return std::nullopt;
  // The batch is the first part of a larger axis. An extent of 1 behind it might be the batch instead.
  if (reshape.target[0] == -1)
    return has_behind_first(reshape.target, 1) ? std::nullopt : std::optional(reshape.target);
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
  std::vector<size_t> axes;
  for (size_t i = 0; i < reshape.output.size(); ++i) {
    // What the model itself leaves open follows by itself.
    const bool is_open = reshape.target[i] == -1 && (reshape.output[i] < 0 || may_hold(reshape, i, before));
    if (is_open) return reshape.target;
    if (may_hold(reshape, i, before)) axes.push_back(i);
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
  bool is_of_no_batch = true, is_behind = has_behind_first(reshape.target, 1);
  for (const OtherBatch& batch : batches) {
    is_behind = is_behind || has_behind_first(reshape.target, batch.first);
    if (!is_multiple(before, now, batch)) continue;
    is_of_no_batch = false;
    const std::optional<Shape> reading = reshape_for_batch(reshape, batch);
    if (!reading) return std::nullopt;
    readings.insert(*reading);
  }
  // Such as a batch and a row more.
  if (is_of_no_batch && reshape.axis == 0 && reshape.target[0] == -1 && !is_behind) return reshape.target;
  return readings.size() == 1 ? std::optional(*readings.begin()) : std::nullopt;
}

}  // namespace lowtide::layout
