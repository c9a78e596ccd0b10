// SPDX-License-Identifier: Apache-2.0
#include "stream/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "stream/error.h"

namespace lowtide::stream {

bool is_static(std::span<const Dim> shape) {
  return std::all_of(shape.begin(), shape.end(), [](Dim d) { return is_static(d); });
}

uint64_t checked_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product))
    throw Error(Code::kMalformed, fmt::format("size {} x {} overflows", a, b));
  return product;
}

uint64_t checked_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) throw Error(Code::kMalformed, fmt::format("size {} + {} overflows", a, b));
  return sum;
}

uint64_t element_count(std::span<const Dim> shape) {
  uint64_t count = 1;
  bool empty = false;
  for (Dim dim : shape) {
    if (dim < 0) throw Error(Code::kMalformed, fmt::format("shape {} has no element count", to_string(shape)));
    if (dim == 0) {
      empty = true;  // [2^40, 2^40, 0] holds nothing and overflows nothing
    } else if (!empty) {
      count = checked_mul(count, static_cast<uint64_t>(dim));
    }
  }
  return empty ? 0 : count;
}

bool has_at_most(uint64_t most, std::span<const Dim> shape) {
  if (!is_static(shape)) return false;
  uint64_t left = most;
  for (const Dim dim : shape) left /= static_cast<uint64_t>(std::max<Dim>(dim, 1));
  return left > 0;
}

std::string to_string(std::span<const Dim> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) out += ",";
    out += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  return out + "]";
}

bool is_identity(const Perm& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int>(i)) return false;
  return true;
}

Perm identity_perm(int rank) {
  Perm perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

Perm inverse(const Perm& perm) {
  Perm out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) out[static_cast<size_t>(perm[i])] = static_cast<int>(i);
  return out;
}

Perm compose(const Perm& first, const Perm& second) {
  Perm out(second.size());
  for (size_t i = 0; i < second.size(); ++i) out[i] = first[static_cast<size_t>(second[i])];
  return out;
}

Shape permuted(std::span<const Dim> shape, const Perm& perm) {
  Shape out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) out[i] = shape[static_cast<size_t>(perm[i])];
  return out;
}

bool moves_no_bytes(std::span<const Dim> shape, const Perm& perm) {
  int last = -1;
  for (int axis : perm) {
    if (shape[static_cast<size_t>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace lowtide::stream
