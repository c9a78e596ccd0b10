// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "stream/error.h"
#include "stream/recipe/elementwise.h"
#include "stream/recipe/recipe.h"
#include "stream/recipe/recipe_step.h"

namespace lowtide::stream::recipe {
namespace {

using Lane = std::vector<std::byte>;

[[noreturn]] void malformed(std::string text) { throw Error(Code::kMalformed, std::move(text)); }

template <typename S>
const S* as(const RecipeRef& recipe) {
  return std::get_if<S>(&recipe->step);
}

RecipeRef same_step(const RecipeRef& recipe, RecipeRef input) {
  Shape dims = input->dims;
  return make(recipe->dtype, std::move(dims), recipe->step, {std::move(input)});
}

size_t rank(const RecipeRef& recipe) { return recipe->dims.size(); }

void check_axis(const RecipeRef& recipe, int axis) {
  if (axis < 0 || static_cast<size_t>(axis) >= rank(recipe))
    malformed(fmt::format("axis {} of a tensor of shape {}", axis, to_string(recipe->dims)));
}

// A step on each element by itself, so that a reshape may be done before it instead of after it.
bool per_element(const RecipeRef& recipe) { return as<step::Unary>(recipe) || as<step::Cast>(recipe); }

RecipeRef with_rank(const RecipeRef& input, size_t wanted) {
  if (rank(input) >= wanted) return input;
  Shape dims(wanted - rank(input), 1);
  dims.insert(dims.end(), input->dims.begin(), input->dims.end());
  return reshape(input, std::move(dims));
}

const Lane* fill_lane(const RecipeRef& recipe) {
  auto* step = as<step::Fill>(recipe);
  return step ? &step->lane : nullptr;
}

// Every value of `from` is one of `to`.
bool widens(DType from, DType to) {
  if (is_float(to)) {
    int precision = to == DType::kFloat64 ? 53 : to == DType::kFloat32 ? 24 : to == DType::kFloat16 ? 11 : 8;
    if (is_float(from)) {
      if (to == DType::kFloat64) return true;
      return to == DType::kFloat32 && (from == DType::kFloat16 || from == DType::kBFloat16);
    }
    return from == DType::kBool || (is_integer(from) && bits(from) <= precision);
  }
  if (!is_integer(to)) return false;
  if (from == DType::kBool) return true;
  if (!is_integer(from)) return false;
  if (is_signed_int(from) && !is_signed_int(to)) return false;
  return bits(from) < bits(to) || (bits(from) == bits(to) && is_signed_int(from) == is_signed_int(to));
}

void check_scales(const RecipeRef& input, const std::vector<float>& scale, const std::vector<int64_t>& zero, int axis,
                  DType quantized) {
  if (!elementwise::quantizable(quantized))
    throw Error(Code::kUnsupported, fmt::format("quantization to type {}", dtype_name(quantized)));
  if (axis != -1) check_axis(input, axis);
  uint64_t wanted = axis == -1 ? 1 : static_cast<uint64_t>(input->dims[static_cast<size_t>(axis)]);
  if (scale.size() != wanted || (!zero.empty() && zero.size() != wanted))
    malformed(fmt::format("{} scales and {} zero points for {} channels", scale.size(), zero.size(), wanted));
  for (int64_t point : zero)
    if (!fits(point, quantized))
      malformed(fmt::format("zero point {} does not fit type {}", point, dtype_name(quantized)));
}

// A slice of a file's bytes that are one run themselves; null otherwise.
RecipeRef part_of_stored(const RecipeRef& input, const std::vector<int64_t>& begin, const Shape& size,
                         const std::vector<int64_t>& stride) {
  const step::Stored* stored = plain_stored(*input);
  if (!stored || bits(input->dtype) % 8 != 0) return nullptr;
  uint64_t first = 0, inner = 1;  // in elements
  bool is_whole = true;           // all axes after this one are
  for (size_t i = size.size(); i-- > 0;) {
    if (size[i] != 1 && (!is_whole || stride[i] != 1)) return nullptr;
    first += static_cast<uint64_t>(begin[i]) * inner;
    inner *= static_cast<uint64_t>(input->dims[i]);
    is_whole = is_whole && size[i] == input->dims[i];
  }
  const uint64_t width = static_cast<uint64_t>(bits(input->dtype)) / 8, elements = element_count(size);
  return recipe::stored(stored->source, {{stored->file_runs[0].offset + first * width, elements * width, elements}},
                        input->dtype, size);
}

// Parts of parts become parts up to this many: x and x of x and x of ... would be 2^n.
constexpr size_t kMostParts = 1024;

// Whether the sum of so many equal elements is their product by the number: integers wrap, and doubles hold all sums of
// so many floats.
bool sums_exactly(DType dtype, int64_t count) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || (dtype == DType::kFloat32 && count <= int64_t{1} << 29);
}

Lane sum_of_equal(const Lane& lane, DType dtype, int64_t count) {
  Lane out(lane.size());
  if (dtype == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, lane.data(), sizeof value);
    value = static_cast<float>(0.0 + static_cast<double>(value) * static_cast<double>(count));  // not -0
    std::memcpy(out.data(), &value, sizeof value);
  } else {
    uint64_t value = 0;  // little-endian: the low bits
    std::memcpy(&value, lane.data(), lane.size());
    value *= static_cast<uint64_t>(count);
    std::memcpy(out.data(), &value, lane.size());
  }
  return out;
}

void drop_zeros(std::vector<int64_t>& points) {
  if (std::all_of(points.begin(), points.end(), [](int64_t point) { return point == 0; })) points = {};
}

}  // namespace

RecipeRef permute(RecipeRef input, const Perm& perm) {
  std::vector<bool> seen(rank(input));
  for (int axis : perm) {
    if (perm.size() != rank(input) || axis < 0 || static_cast<size_t>(axis) >= rank(input) || seen[axis])
      malformed(
          fmt::format("[{}] is no permutation of the axes of shape {}", fmt::join(perm, ","), to_string(input->dims)));
    seen[static_cast<size_t>(axis)] = true;
  }
  if (perm.size() != rank(input))
    malformed(fmt::format("a permutation of no axis of shape {}", to_string(input->dims)));
  if (is_identity(perm)) return input;
  Shape dims = permuted(input->dims, perm);
  if (const Lane* lane = fill_lane(input)) return fill(*lane, input->dtype, std::move(dims));
  if (moves_no_bytes(input->dims, perm)) return reshape(std::move(input), std::move(dims));
  if (auto* inner = as<step::Permute>(input)) return permute(input->from[0], compose(inner->perm, perm));
  DType dtype = input->dtype;
  return make(dtype, std::move(dims), step::Permute{perm}, {std::move(input)});
}

RecipeRef reshape(RecipeRef input, Shape dims) {
  if (dims == input->dims) return input;
  if (element_count(dims) != input->elements())
    malformed(fmt::format("shape {} cannot become {}", to_string(input->dims), to_string(dims)));
  DType dtype = input->dtype;
  if (as<step::Stored>(input) || as<step::Fill>(input) || as<step::Iota>(input))
    return make(dtype, std::move(dims), input->step);
  if (per_element(input)) return same_step(input, reshape(input->from[0], std::move(dims)));
  if (as<step::Reshape>(input)) return reshape(input->from[0], std::move(dims));
  return make(dtype, std::move(dims), step::Reshape{}, {std::move(input)});
}

RecipeRef cast(RecipeRef input, DType to) {
  if (input->dtype == to) return input;
  for (DType dtype : {input->dtype, to})
    if (!elementwise::castable(dtype) || to == DType::kFloat8E8M0)
      throw Error(Code::kUnsupported,
                  fmt::format("a constant is cast from {} to {}", dtype_name(input->dtype), dtype_name(to)));
  Shape dims = input->dims;
  if (const Lane* lane = fill_lane(input)) {
    Lane out(static_cast<size_t>(lane_bytes(to)));
    elementwise::cast(input->dtype, to, lane->data(), out.data(), 1);
    return fill(std::move(out), to, std::move(dims));
  }
  if (as<step::Cast>(input) && input->from[0]->dtype == to && widens(to, input->dtype)) return input->from[0];
  if (const auto* moved = as<step::Permute>(input)) {
    const Perm perm = moved->perm;
    return permute(cast(input->from[0], to), perm);
  }
  return make(to, std::move(dims), step::Cast{}, {std::move(input)});
}

RecipeRef slice(RecipeRef input, std::vector<int64_t> begin, std::vector<int64_t> size, std::vector<int64_t> stride) {
  size_t axes = rank(input);
  if (begin.size() != axes || size.size() != axes || stride.size() != axes)
    malformed(fmt::format("a slice of {} axes of shape {}", begin.size(), to_string(input->dims)));
  bool everything = true, empty = element_count(size) == 0;
  for (size_t i = 0; i < axes && !empty; ++i) {
    if (size[i] == 1) stride[i] = 1;
    int64_t way, last;
    if (stride[i] == 0 || __builtin_mul_overflow(size[i] - 1, stride[i], &way) ||
        __builtin_add_overflow(begin[i], way, &last) || std::min(begin[i], last) < 0 ||
        std::max(begin[i], last) >= input->dims[i])
      malformed(fmt::format("a slice from {} of {} by {} leaves axis {} of shape {}", begin[i], size[i], stride[i], i,
                            to_string(input->dims)));
    everything = everything && size[i] == input->dims[i] && stride[i] == 1;
  }
  DType dtype = input->dtype;
  if (empty) return fill(Lane(static_cast<size_t>(lane_bytes(dtype))), dtype, std::move(size));
  if (everything) return input;
  if (const Lane* lane = fill_lane(input)) return fill(*lane, dtype, std::move(size));
  if (RecipeRef part = part_of_stored(input, begin, size, stride)) return part;
  if (auto* range = as<step::Iota>(input); range && axes == 1) {
    auto start = static_cast<uint64_t>(range->start), delta = static_cast<uint64_t>(range->delta);
    return iota(static_cast<int64_t>(start + delta * static_cast<uint64_t>(begin[0])),
                static_cast<int64_t>(delta * static_cast<uint64_t>(stride[0])), dtype, size[0]);
  }
  if (auto* inner = as<step::Slice>(input)) {
    for (size_t i = 0; i < axes; ++i) {
      begin[i] = inner->begin[i] + begin[i] * inner->stride[i];
      stride[i] *= inner->stride[i];
    }
    return slice(input->from[0], std::move(begin), std::move(size), std::move(stride));
  }
  return make(dtype, std::move(size), step::Slice{std::move(begin), std::move(stride)}, {std::move(input)});
}

RecipeRef concat(std::vector<RecipeRef> inputs, int axis) {
  if (inputs.empty()) malformed("a concatenation of nothing");
  check_axis(inputs[0], axis);
  auto along = static_cast<size_t>(axis);
  Shape dims = inputs[0]->dims;
  dims[along] = 0;
  std::vector<RecipeRef> parts;
  for (const RecipeRef& input : inputs) {
    Shape rest = input->dims;
    if (rest.size() == dims.size()) rest[along] = dims[along];
    if (rest != dims || input->dtype != inputs[0]->dtype)
      malformed(fmt::format("a concatenation of shapes {} and {} along axis {}", to_string(inputs[0]->dims),
                            to_string(input->dims), axis));
    dims[along] = static_cast<int64_t>(
        checked_add(static_cast<uint64_t>(dims[along]), static_cast<uint64_t>(input->dims[along])));
    if (input->dims[along] == 0) continue;
    auto* nested = as<step::Concat>(input);
    if (nested && nested->axis == axis && parts.size() + input->from.size() <= kMostParts) {
      parts.insert(parts.end(), input->from.begin(), input->from.end());
    } else {
      parts.push_back(input);
    }
  }
  if (parts.size() == 1) return parts[0];
  element_count(dims);
  DType dtype = inputs[0]->dtype;
  if (parts.empty()) return inputs[0];
  const Lane* lane = fill_lane(parts[0]);
  bool one_value = lane && std::all_of(parts.begin(), parts.end(), [&](const RecipeRef& part) {
                     return fill_lane(part) && *fill_lane(part) == *lane;
                   });
  if (one_value) return fill(*lane, dtype, std::move(dims));
  return make(dtype, std::move(dims), step::Concat{axis}, std::move(parts));
}

Shape broadcast_shape(std::span<const Dim> a, std::span<const Dim> b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    size_t from_end = out.size() - i;
    Dim left = from_end <= a.size() ? a[a.size() - from_end] : 1;
    Dim right = from_end <= b.size() ? b[b.size() - from_end] : 1;
    if (left != right && left != 1 && right != 1)
      malformed(fmt::format("shapes {} and {} do not broadcast", to_string(a), to_string(b)));
    out[i] = left == 1 ? right : left;
  }
  return out;
}

RecipeRef broadcast(RecipeRef input, Shape dims) {
  if (dims == input->dims) return input;
  if (broadcast_shape(input->dims, dims) != dims)
    malformed(fmt::format("shape {} does not broadcast to {}", to_string(input->dims), to_string(dims)));
  DType dtype = input->dtype;
  element_count(dims);
  if (const Lane* lane = fill_lane(input)) return fill(*lane, dtype, std::move(dims));
  if (as<step::Broadcast>(input)) return broadcast(input->from[0], std::move(dims));
  input = with_rank(input, dims.size());
  if (dims == input->dims) return input;
  return make(dtype, std::move(dims), step::Broadcast{}, {std::move(input)});
}

RecipeRef pad(RecipeRef input, std::vector<int64_t> before, const std::vector<int64_t>& after,
              std::vector<std::byte> lane) {
  size_t axes = rank(input);
  if (before.size() != axes || after.size() != axes || lane.size() != static_cast<size_t>(lane_bytes(input->dtype)))
    malformed(fmt::format("pads of {} axes for shape {}", before.size(), to_string(input->dims)));
  // Negative pads crop, before the others add.
  std::vector<int64_t> begin(axes), size = input->dims, dims(axes);
  for (size_t i = 0; i < axes; ++i) {
    begin[i] = before[i] < 0 ? -before[i] : 0;
    if (begin[i] < 0 || begin[i] > size[i] || (after[i] < 0 && after[i] < begin[i] - size[i]))
      malformed(fmt::format("pads {} and {} leave nothing of axis {} of shape {}", before[i], after[i], i,
                            to_string(input->dims)));
    size[i] = size[i] - begin[i] + std::min<int64_t>(after[i], 0);
    before[i] = std::max<int64_t>(before[i], 0);
    if (__builtin_add_overflow(size[i], before[i], &dims[i]) ||
        __builtin_add_overflow(dims[i], std::max<int64_t>(after[i], 0), &dims[i]))
      malformed(fmt::format("pads of axis {} overflow", i));
  }
  element_count(dims);
  DType dtype = input->dtype;
  input = slice(std::move(input), std::move(begin), std::move(size), std::vector<int64_t>(axes, 1));
  if (dims == input->dims) return input;
  if (input->elements() == 0) return fill(std::move(lane), dtype, std::move(dims));
  if (const Lane* inner = fill_lane(input); inner && *inner == lane)
    return fill(std::move(lane), dtype, std::move(dims));
  return make(dtype, std::move(dims), step::Pad{std::move(before), std::move(lane)}, {std::move(input)});
}

RecipeRef gather(RecipeRef input, int axis, std::vector<int64_t> indices) {
  check_axis(input, axis);
  auto along = static_cast<size_t>(axis);
  for (int64_t index : indices)
    if (index < 0 || index >= input->dims[along])
      malformed(fmt::format("index {} on axis {} of shape {}", index, axis, to_string(input->dims)));
  Shape dims = input->dims;
  dims[along] = static_cast<int64_t>(indices.size());
  DType dtype = input->dtype;
  if (const Lane* lane = fill_lane(input)) return fill(*lane, dtype, std::move(dims));
  bool ascending = !indices.empty();
  for (size_t i = 1; i < indices.size() && ascending; ++i) ascending = indices[i] == indices[i - 1] + 1;
  if (ascending) {
    std::vector<int64_t> begin(dims.size(), 0), stride(dims.size(), 1);
    begin[along] = indices[0];
    return slice(std::move(input), std::move(begin), std::move(dims), std::move(stride));
  }
  return make(dtype, std::move(dims), step::Gather{axis, std::move(indices)}, {std::move(input)});
}

RecipeRef unary(Unary op, RecipeRef input) {
  DType dtype = input->dtype;
  if (!elementwise::takes(op, dtype))
    throw Error(Code::kUnsupported, fmt::format("this function of a constant of type {}", dtype_name(dtype)));
  Shape dims = input->dims;
  if (const Lane* lane = fill_lane(input)) {
    Lane out(lane->size());
    elementwise::unary(op, dtype, lane->data(), out.data(), 1);
    return fill(std::move(out), dtype, std::move(dims));
  }
  if (const auto* moved = as<step::Permute>(input)) {
    const Perm perm = moved->perm;
    return permute(unary(op, input->from[0]), perm);
  }
  return make(dtype, std::move(dims), step::Unary{op}, {std::move(input)});
}

RecipeRef binary(Binary op, RecipeRef a, RecipeRef b) {
  DType dtype = a->dtype;
  if (dtype != b->dtype)
    throw Error(Code::kInternal, fmt::format("operands of types {} and {}", dtype_name(dtype), dtype_name(b->dtype)));
  if (!elementwise::takes(op, dtype))
    throw Error(Code::kUnsupported, fmt::format("this arithmetic on constants of type {}", dtype_name(dtype)));
  DType result = elementwise::compares(op) ? DType::kBool : dtype;
  Shape dims = broadcast_shape(a->dims, b->dims);
  element_count(dims);
  const Lane *left = fill_lane(a), *right = fill_lane(b);
  if (left && right && element_count(dims) > 0) {
    Lane out(static_cast<size_t>(lane_bytes(result)));
    elementwise::binary(op, dtype, {}, {left->data(), {}}, {right->data(), {}}, out.data());
    return fill(std::move(out), result, std::move(dims));
  }
  a = with_rank(a, dims.size());
  b = with_rank(b, dims.size());
  return make(result, std::move(dims), step::Binary{op}, {std::move(a), std::move(b)});
}

RecipeRef select(RecipeRef condition, RecipeRef yes, RecipeRef no) {
  DType dtype = yes->dtype;
  if (condition->dtype != DType::kBool || dtype != no->dtype)
    throw Error(Code::kInternal, fmt::format("a selection by {} from {} and {}", dtype_name(condition->dtype),
                                             dtype_name(dtype), dtype_name(no->dtype)));
  Shape dims = broadcast_shape(broadcast_shape(condition->dims, yes->dims), no->dims);
  element_count(dims);
  if (const Lane* lane = fill_lane(condition))
    return broadcast((*lane)[0] != std::byte{0} ? std::move(yes) : std::move(no), std::move(dims));
  if (fill_lane(yes) && fill_lane(no) && *fill_lane(yes) == *fill_lane(no))
    return fill(*fill_lane(yes), dtype, std::move(dims));
  condition = with_rank(condition, dims.size());
  yes = with_rank(yes, dims.size());
  no = with_rank(no, dims.size());
  return make(dtype, std::move(dims), step::Select{}, {std::move(condition), std::move(yes), std::move(no)});
}

RecipeRef quantize(RecipeRef input, DType to, std::vector<float> scale, std::vector<int64_t> zero, int axis) {
  check_scales(input, scale, zero, axis, to);
  DType from = input->dtype;
  if (!is_float(from) || from == DType::kFloat64)
    throw Error(Code::kUnsupported, fmt::format("quantization of type {}", dtype_name(from)));
  Shape dims = input->dims;
  drop_zeros(zero);
  if (const auto* moved = as<step::Permute>(input)) {
    const Perm perm = moved->perm;
    const int source = axis < 0 ? axis : perm[static_cast<size_t>(axis)];
    return permute(quantize(input->from[0], to, std::move(scale), std::move(zero), source), perm);
  }
  if (const Lane* lane = fill_lane(input); lane && axis == -1) {
    Lane out(static_cast<size_t>(lane_bytes(to)));
    elementwise::quantize(from, to, scale[0], zero.empty() ? 0 : zero[0], lane->data(), out.data(), 1);
    return fill(std::move(out), to, std::move(dims));
  }
  return make(to, std::move(dims), step::Quantize{std::move(scale), std::move(zero), axis}, {std::move(input)});
}

RecipeRef dequantize(RecipeRef input, std::vector<float> scale, std::vector<int64_t> zero, int axis) {
  DType from = input->dtype;
  check_scales(input, scale, zero, axis, from);
  Shape dims = input->dims;
  drop_zeros(zero);
  if (const Lane* lane = fill_lane(input); lane && axis == -1) {
    Lane out(sizeof(float));
    elementwise::dequantize(from, scale[0], zero.empty() ? 0 : zero[0], lane->data(), out.data(), 1);
    return fill(std::move(out), DType::kFloat32, std::move(dims));
  }
  step::Dequantize step{std::move(scale), std::move(zero), axis};
  return make(DType::kFloat32, std::move(dims), std::move(step), {std::move(input)});
}

RecipeRef reduce(Reduction op, RecipeRef input, std::vector<int> axes) {
  DType dtype = input->dtype;
  if (!elementwise::takes(op, dtype))
    throw Error(Code::kUnsupported, fmt::format("this reduction of a constant of type {}", dtype_name(dtype)));
  Shape dims = input->dims;
  bool reduces = false;
  for (int axis : axes) {
    check_axis(input, axis);
    reduces = reduces || dims[static_cast<size_t>(axis)] != 1;
    dims[static_cast<size_t>(axis)] = 1;
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  bool extreme = op == Reduction::kMin || op == Reduction::kMax;
  if (!reduces) return input;
  // Other sums and products of floats are rounded on their way, so theirs must really be run.
  if (const Lane* lane = fill_lane(input); lane && input->elements() > 0) {
    if (extreme) return fill(*lane, dtype, std::move(dims));
    const auto summed = static_cast<int64_t>(input->elements() / element_count(dims));
    if (op == Reduction::kSum && sums_exactly(dtype, summed))
      return fill(sum_of_equal(*lane, dtype, summed), dtype, std::move(dims));
  }
  return make(dtype, std::move(dims), step::Reduce{op, std::move(axes)}, {std::move(input)});
}

}  // namespace lowtide::stream::recipe
