// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements: of quantized tensors they move the integers.
//
// The traps: a mirror that repeats the border has no mode in ONNX; ONE_HOT of a negative index is all off in TFLite and
// counts from the end in ONNX; pads of integers are filled with the zero point.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/core/builtin.h"
#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kOpsetOfNumberOfParts = 18;  // of Split

int64_t from_front(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

// The size of an axis of an input, as a list of one.
std::string size_of(Raising& r, size_t input, size_t axis) {
  const core::Dim size = r.in(input).shape[axis];
  if (!core::is_symbol(size)) return r.int64_list({size});
  const auto at = static_cast<int64_t>(axis);
  return r.node("Slice", {r.node("Shape", {r.stored(input)}), r.int64_list({at}), r.int64_list({at + 1})});
}

// ---- shapes ----

void raise_reshape(Raising& r) {
  const bool stored = r.moves_stored() && !r.is_quantized();
  const std::string made = r.reshaped(stored ? r.data(0) : r.real(0), r.out().shape, 1);
  stored ? r.give_data(made) : r.give(made);
}

void raise_squeeze(Raising& r) {
  const core::Value& x = r.in(0);
  std::vector<int64_t> axes;
  for (int32_t axis : r.options<core::SqueezeOptions>().dims) axes.push_back(from_front(axis, x.rank()));
  if (axes.empty())
    for (size_t axis = 0; axis < x.shape.size(); ++axis)
      if (x.shape[axis] == 1) axes.push_back(static_cast<int64_t>(axis));
  r.give_data(axes.empty() ? r.data(0) : r.node("Squeeze", {r.data(0), r.int64_list(axes)}));
}

void raise_expand_dims(Raising& r) {
  const std::vector<int64_t> axes = r.need_ints(1, "an axis");
  r.give_data(r.node("Unsqueeze", {r.data(0), r.int64_list(axes)}));
}

void raise_shape(Raising& r) {
  const std::string shape = r.node("Shape", {r.stored(0)});
  r.give_stored(r.out().dtype == DType::kInt64 ? shape : r.cast(shape, r.out().dtype));
}

void raise_transpose(Raising& r) {
  r.give_data(r.node("Transpose", {r.data(0)}, {attribute("perm", r.need_ints(1, "a permutation"))}));
}

void raise_pack(Raising& r) {
  const int64_t axis = r.options<core::PackOptions>().axis;
  const std::string axes = r.int64_list({axis});
  Names parts;
  for (size_t i = 0; i < r.op.inputs.size(); ++i) parts.push_back(r.node("Unsqueeze", {r.data(i), axes}));
  r.give_data(r.node("Concat", std::move(parts), {attribute("axis", axis)}));
}

// The parts of a Split, each through `last`, as the outputs. Without a list of sizes they are equal.
template <typename Last>
void give_parts(Raising& r, const std::string& x, const std::string& sizes, int64_t axis, Last last) {
  const size_t count = r.op.outputs.size();
  Names inputs = {x};
  Attributes attributes = {attribute("axis", axis)};
  if (!sizes.empty())
    inputs.push_back(sizes);
  else if (r.onnx.opset >= kOpsetOfNumberOfParts)
    attributes.push_back(attribute("num_outputs", static_cast<int64_t>(count)));
  const Names parts = r.onnx.nodes("Split", std::move(inputs), count, std::move(attributes));
  for (size_t i = 0; i < parts.size(); ++i) r.give_data(last(parts[i]), i);
}

void raise_unpack(Raising& r) {
  const int64_t axis = r.options<core::PackOptions>().axis;
  const std::string axes = r.int64_list({axis});
  if (r.op.outputs.size() == 1) return r.give_data(r.node("Squeeze", {r.data(0), axes}));
  const std::string ones = r.int64_list(std::vector<int64_t>(r.op.outputs.size(), 1));
  give_parts(r, r.data(0), ones, axis, [&](const std::string& part) { return r.node("Squeeze", {part, axes}); });
}

void raise_concatenation(Raising& r) {
  const auto& o = r.options<core::ConcatOptions>();
  const bool stored = r.moves_stored() && o.activation == Activation::kNone;
  Names parts;
  for (size_t i = 0; i < r.op.inputs.size(); ++i) parts.push_back(stored ? r.data(i) : r.real(i));
  const std::string made = r.node("Concat", std::move(parts), {attribute("axis", int64_t{o.axis})});
  stored ? r.give_data(made) : r.give_activated(made, o.activation);
}

// The sizes of all parts as a list, where they are known.
std::optional<std::string> known_sizes(Raising& r, size_t axis) {
  std::vector<int64_t> sizes;
  for (core::ValueId id : r.op.outputs) sizes.push_back(r.graph.at(id).shape[axis]);
  if (std::any_of(sizes.begin(), sizes.end(), core::is_symbol)) return std::nullopt;
  return r.int64_list(sizes);
}

// The sizes of SPLIT_V, of which one may be -1: what the others leave.
std::string computed_sizes(Raising& r, size_t axis) {
  const std::string sizes = r.int64_input(1);
  const std::string others = r.node("Add", {r.node("ReduceSum", {sizes}), r.int64_list({1})});
  const std::string rest = r.node("Sub", {size_of(r, 0, axis), others});
  return r.node("Where", {r.node("Equal", {sizes, r.int64_list({-1})}), rest, sizes});
}

void give_split(Raising& r, size_t data, const std::string& sizes, int64_t axis) {
  if (r.op.outputs.size() == 1) return r.give_data(r.data(data));
  // Renaming the node's outputs one by one would hide them, so each has an Identity, which runtimes remove.
  give_parts(r, r.data(data), sizes, axis, [&](const std::string& part) { return r.node("Identity", {part}); });
}

void raise_split(Raising& r) {
  const int64_t axis = from_front(r.need_ints(0, "an axis").at(0), r.in(1).rank());
  give_split(r, 1, known_sizes(r, static_cast<size_t>(axis)).value_or(""), axis);
}
void raise_split_v(Raising& r) {
  const int64_t axis = from_front(r.need_ints(2, "an axis").at(0), r.in(0).rank());
  const auto at = static_cast<size_t>(axis);
  std::optional<std::string> sizes = known_sizes(r, at);
  give_split(r, 0, sizes ? *sizes : computed_sizes(r, at), axis);
}

// ---- reversed axes ----

void raise_reverse(Raising& r) {
  std::vector<int64_t> axes = r.need_ints(1, "axes");
  for (int64_t& axis : axes) axis = from_front(axis, r.in(0).rank());
  const size_t count = axes.size();
  r.give_data(r.node("Slice", {r.data(0), r.int64_list(std::vector<int64_t>(count, Raising::kToTheEnd)),
                               r.int64_list(std::vector<int64_t>(count, -Raising::kToTheEnd)), r.int64_list(axes),
                               r.int64_list(std::vector<int64_t>(count, -1))}));
}

// ONNX reverses along axes 0 and 1: the two are moved there, and back.
void raise_reverse_sequence(Raising& r) {
  const auto& o = r.options<core::ReverseSequenceOptions>();
  if (o.batch_axis == o.sequence_axis) r.unsupported("the axis of the sequences is that of the batch");
  const bool is_moved = std::max(o.batch_axis, o.sequence_axis) != 1;
  std::vector<int64_t> to_front = {o.batch_axis, o.sequence_axis}, back(r.in(0).shape.size());
  for (int64_t axis = 0; axis < r.in(0).rank(); ++axis)
    if (axis != o.batch_axis && axis != o.sequence_axis) to_front.push_back(axis);
  for (size_t i = 0; i < to_front.size(); ++i) back[static_cast<size_t>(to_front[i])] = static_cast<int64_t>(i);
  const std::string x = is_moved ? r.node("Transpose", {r.data(0)}, {attribute("perm", to_front)}) : r.data(0);
  const std::string made = r.node("ReverseSequence", {x, r.int64_input(1)},
                                  {attribute("batch_axis", int64_t{is_moved ? 0 : o.batch_axis}),
                                   attribute("time_axis", int64_t{is_moved ? 1 : o.sequence_axis})});
  r.give_data(is_moved ? r.node("Transpose", {made}, {attribute("perm", back)}) : made);
}

// ---- pads ----

// [[before, after], ...] as [before..., after...].
std::string pad_list(Raising& r) {
  if (const auto known = r.ints(1)) {
    std::vector<int64_t> list;
    for (size_t side = 0; side < 2; ++side)
      for (size_t i = side; i < known->size(); i += 2) list.push_back((*known)[i]);
    return r.int64_list(list);
  }
  const std::string sides = r.node("Transpose", {r.int64_input(1)}, {attribute("perm", {1, 0})});
  return r.node("Reshape", {sides, r.int64_list({-1})});
}

// ONNX Runtime's Pad has these types.
constexpr DType kPadded[] = {DType::kFloat32, DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8, DType::kBool};

// A Pad of integers of 16 bits in 32.
void raise_wide_pad(Raising& r, Attributes attributes) {
  Names inputs = {r.cast(r.stored(0), DType::kInt32), pad_list(r)};
  if (r.has(2)) {
    const std::string value = r.node("Reshape", {r.stored(2), r.int64_list(std::span<const int64_t>())});
    inputs.push_back(r.cast(value, DType::kInt32));
  }
  r.give_stored(r.cast(r.node("Pad", std::move(inputs), std::move(attributes)), r.out().dtype));
}

void raise_pad(Raising& r) {
  if (r.in(0).rank() == 0) return r.give_copy();
  if (r.is_widened(0)) return raise_wide_pad(r, {});
  const bool has_value = r.has(2);
  const bool stored = r.moves_stored(kPadded) && !r.is_quantized();
  std::string value;
  if (has_value) {
    value = r.node("Reshape", {stored ? r.stored(2) : r.real(2), r.int64_list(std::span<const int64_t>())});
  } else if (stored) {
    const auto& to = r.out().quantization;
    const int64_t zero = to && !to->zero_point.empty() ? to->zero_point[0] : 0;
    value = r.scalar(static_cast<double>(zero), r.in(0).dtype);
  } else {
    value = r.scalar(0, real_type(r.in(0)));
  }
  const std::string made = r.node("Pad", {stored ? r.stored(0) : r.real(0), pad_list(r), value});
  stored ? r.give_stored(made) : r.give(made);
}

// The places that a mirror which repeats the border reads along an axis.
std::vector<int64_t> mirrored(int64_t extent, int64_t before, int64_t after) {
  std::vector<int64_t> out;
  for (int64_t i = before - 1; i >= 0; --i) out.push_back(i);
  for (int64_t i = 0; i < extent; ++i) out.push_back(i);
  for (int64_t i = 0; i < after; ++i) out.push_back(extent - 1 - i);
  return out;
}

// The same of an axis of any size: its first and its last elements backwards, in front of it and behind.
std::string joined_mirrors(Raising& r, const std::string& x, int64_t axis, int64_t before, int64_t after) {
  const auto backwards = [&](int64_t from, int64_t to) {
    return r.node("Slice", {x, r.int64_list({from}), r.int64_list({to}), r.int64_list({axis}), r.int64_list({-1})});
  };
  Names parts = {x};
  if (before > 0) parts.insert(parts.begin(), backwards(before - 1, -Raising::kToTheEnd));
  if (after > 0) parts.push_back(backwards(-1, -after - 1));
  return r.node("Concat", std::move(parts), {attribute("axis", axis)});
}

void raise_mirror_pad(Raising& r) {
  if (r.in(0).rank() == 0) return r.give_copy();
  if (!r.options<core::MirrorPadOptions>().symmetric) {
    const Attributes reflect = {attribute("mode", std::string_view("reflect"))};
    if (r.is_widened(0)) return raise_wide_pad(r, reflect);
    const bool stored = r.moves_stored(kPadded);
    const std::string made = r.node("Pad", {stored ? r.stored(0) : r.real(0), pad_list(r)}, reflect);
    return stored ? r.give_stored(made) : r.give(made);
  }
  const std::vector<int64_t> pads = r.need_ints(1, "paddings");
  constexpr int64_t kMostPlaces = 1 << 20;
  std::string made = r.data(0);
  for (size_t axis = 0; axis < r.in(0).shape.size(); ++axis) {
    const int64_t before = pads[2 * axis], after = pads[2 * axis + 1];
    if (before == 0 && after == 0) continue;
    const core::Dim extent = r.in(0).shape[axis];
    const bool is_open = core::is_symbol(extent);
    if (before < 0 || after < 0 || (!is_open && (before > extent || after > extent)))
      r.unsupported(fmt::format("{} and {} mirrored elements of an axis of {}", before, after, extent));
    if (is_open || extent > kMostPlaces) {
      made = joined_mirrors(r, made, static_cast<int64_t>(axis), before, after);
      continue;
    }
    made = r.node("Gather", {made, r.int64_list(mirrored(extent, before, after))},
                  {attribute("axis", static_cast<int64_t>(axis))});
  }
  r.give_data(made);
}

// ---- gathers ----

// LiteRT's kernels begin each row, which has the axes from this one on, at a byte, also where rows end within one.
void need_rows_of_bytes(const Raising& r, const core::Value& table, size_t first_axis) {
  constexpr int kByte = 8;
  const int bits = stream::bits(table.dtype);
  if (bits >= kByte) return;
  int64_t numbers = 1;  // of a row, modulo 8
  for (size_t axis = first_axis; axis < table.shape.size(); ++axis)
    numbers = numbers * (r.need_static(table.shape[axis], "the size of a row is") % kByte) % kByte;
  if (numbers * bits % kByte != 0)
    r.unsupported(
        fmt::format("rows of integers of {} bits that do not end at a byte: LiteRT's kernel begins the next "
                    "one at a byte that belongs to both",
                    bits));
}

void raise_gather(Raising& r) {
  const auto& o = r.options<core::GatherOptions>();
  need_rows_of_bytes(r, r.in(0), static_cast<size_t>(o.axis) + 1);
  if (o.batch_dims == 0) {
    const std::string places = r.in(1).dtype == DType::kInt32 ? r.stored(1) : r.int64_input(1);
    return r.give_data(r.node("Gather", {r.data(0), places}, {attribute("axis", int64_t{o.axis})}));
  }
  // GatherND takes the first axis behind the batch: the axis is moved there, and what was before it behind the places.
  const int64_t batch = o.batch_dims, axis = o.axis, rank = r.in(0).rank(), listed = r.in(1).rank() - batch;
  std::vector<int64_t> to_front, back;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) to_front.push_back(i);
  to_front.insert(to_front.begin() + batch, axis);
  for (int64_t i = 0; i < batch; ++i) back.push_back(i);
  for (int64_t i = 0; i < axis - batch; ++i) back.push_back(batch + listed + i);
  for (int64_t i = 0; i < listed; ++i) back.push_back(batch + i);
  for (int64_t i = axis + 1; i < rank; ++i) back.push_back(i + listed - 1);
  const bool is_moved = axis != batch;
  const std::string data = is_moved ? r.node("Transpose", {r.data(0)}, {attribute("perm", to_front)}) : r.data(0);
  const std::string places = r.node("Unsqueeze", {r.int64_input(1), r.int64_list({-1})});
  const std::string made = r.node("GatherND", {data, places}, {attribute("batch_dims", batch)});
  r.give_data(is_moved ? r.node("Transpose", {made}, {attribute("perm", back)}) : made);
}

void raise_gather_nd(Raising& r) { r.give_data(r.node("GatherND", {r.data(0), r.int64_input(1)})); }

// A table of integers gives floats of 32 or 16 bits.
void raise_embedding_lookup(Raising& r) {
  const core::Value& table = r.in(1);
  const DType to = r.out().dtype;
  need_rows_of_bytes(r, table, 1);
  const auto rows = [&](const std::string& of) {
    return r.node("Gather", {of, r.stored(0)}, {attribute("axis", int64_t{0})});
  };
  if (table.dtype == to) return r.give_data(rows(r.data(1)));
  if (!table.quantization) return r.give(rows(r.real(1)));
  const std::vector<int64_t>& zeros = table.quantization->zero_point;
  if (to == DType::kFloat32 && !zeros.empty() && zeros[0] != 0)
    r.unsupported("a table with a zero point, which LiteRT refuses");
  const std::string made = rows(raised_weights(r, 1, to));
  r.give(to == DType::kFloat16 ? r.cast(made, to) : made);
}

void raise_one_hot(Raising& r) {
  if (stream::is_float(r.out().dtype) && r.out().dtype != DType::kFloat32)
    r.unsupported(fmt::format("values of {}", dtype_name(r.out().dtype)));
  const std::string depth = r.node("Reshape", {r.int64_input(1), r.int64_list(std::span<const int64_t>())});
  // ONNX has no places without axes.
  const bool is_single = r.in(0).rank() == 0;
  const std::string places = is_single ? r.node("Reshape", {r.int64_input(0), r.int64_list({1})}) : r.int64_input(0);
  const std::string is_negative = r.node("Less", {places, r.scalar(0, DType::kInt64)});
  const std::string inside = r.node("Where", {is_negative, depth, places});
  const std::string one = r.int64_list({1});
  const std::string both = r.node("Concat", {r.node("Reshape", {r.data(3), one}), r.node("Reshape", {r.data(2), one})},
                                  {attribute("axis", int64_t{0})});
  // ONNX Runtime's kernels with indices of 64 bits have these values.
  const DType dtype = r.out().dtype;
  const bool is_real = r.out().quantization && !r.moves_stored();
  const bool has_kernel = is_real || dtype == DType::kFloat32 || dtype == DType::kInt64;
  const std::string made =
      r.node("OneHot", {inside, depth, has_kernel ? both : r.cast(both, DType::kInt64)},
             {attribute("axis", is_single ? int64_t{-1} : int64_t{r.options<core::OneHotOptions>().axis})});
  const std::string flat = is_single ? r.node("Reshape", {made, r.int64_list({-1})}) : made;
  r.give_data(has_kernel ? flat : r.cast(flat, dtype));
}

// The data with the update, which is smaller along these axes. Along the first: what is before, the update of the rest,
// what is behind. The place is moved so that the update fits.
std::string updated(Raising& r, const std::string& data, std::span<const size_t> narrow) {
  if (narrow.empty()) return r.data(1);
  const size_t axis = narrow.front();
  const auto at = static_cast<int64_t>(axis);
  const std::string axes = r.int64_list({at}), extent = size_of(r, 1, axis);
  const std::string given = r.node("Slice", {r.int64_input(2), axes, r.int64_list({at + 1})});
  const std::string last = r.node("Sub", {size_of(r, 0, axis), extent});
  const std::string begin = r.node("Min", {r.node("Max", {given, r.int64_list({0})}), last});
  const std::string end = r.node("Add", {begin, extent});
  const std::string before = r.node("Slice", {data, r.int64_list({0}), begin, axes});
  const std::string behind = r.node("Slice", {data, end, r.int64_list({Raising::kToTheEnd}), axes});
  const std::span<const size_t> rest = narrow.subspan(1);
  const std::string replaced = rest.empty() ? data : r.node("Slice", {data, begin, end, axes});
  return r.node("Concat", {before, updated(r, replaced, rest), behind}, {attribute("axis", at)});
}

void raise_dynamic_update_slice(Raising& r) {
  const Shape &whole = r.in(0).shape, &part = r.in(1).shape;
  std::vector<size_t> narrow;
  for (size_t axis = 0; axis < whole.size(); ++axis)
    if (whole[axis] != part[axis]) narrow.push_back(axis);
  if (narrow.empty()) return r.give_data(r.node("Identity", {r.data(1)}));
  r.give_data(updated(r, r.data(0), narrow));
}

void raise_where(Raising& r) {
  // ONNX Runtime's NonZero has these types.
  constexpr DType kTypes[] = {DType::kBool, DType::kFloat32, DType::kInt32, DType::kInt64, DType::kUint8};
  const bool has_kernel = std::find(std::begin(kTypes), std::end(kTypes), r.in(0).dtype) != std::end(kTypes);
  const std::string x = has_kernel ? r.stored(0) : r.cast(r.stored(0), DType::kBool);
  r.give_stored(r.node("Transpose", {r.node("NonZero", {x})}, {attribute("perm", {1, 0})}));
}

// ---- repeated elements ----

// The shape that two broadcast to: where one has a 1, or nothing, the other's size.
void raise_broadcast_args(Raising& r) {
  constexpr int64_t kMostAxes = 1024;  // more than any tensor has
  const int64_t longest = std::max(r.need_static(r.in(0).shape[0], "a number of axes"),
                                   r.need_static(r.in(1).shape[0], "a number of axes"));
  if (longest > kMostAxes) r.unsupported(fmt::format("a shape of {} axes, more than {}", longest, kMostAxes));
  Names shapes;
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<int64_t> ones(static_cast<size_t>(longest - r.in(i).shape[0]), 1);
    const std::string shape = r.int64_input(i);
    shapes.push_back(ones.empty() ? shape
                                  : r.node("Concat", {r.int64_list(ones), shape}, {attribute("axis", int64_t{0})}));
  }
  const std::string is_one = r.node("Equal", {shapes[0], r.scalar(1, DType::kInt64)});
  const std::string made = r.node("Where", {is_one, shapes[1], shapes[0]});
  r.give_stored(r.out().dtype == DType::kInt64 ? made : r.cast(made, r.out().dtype));
}

void raise_tile(Raising& r) { r.give_data(r.node("Tile", {r.data(0), r.int64_input(1)})); }
void raise_broadcast_to(Raising& r) { r.give_data(r.node("Expand", {r.data(0), r.int64_input(1)})); }
void raise_fill(Raising& r) { r.give_data(r.node("Expand", {r.data(1), r.int64_input(0)})); }

// LiteRT counts the elements of a range of f32 by a quotient of f32, ONNX by one of f64: from 0 to 0.3 by 0.1 they give
// 3 and 4. Both add the step to the element before, and up to 2^24 elements the rounding to f32 passes no integer, so
// LiteRT's elements are the first of ONNX's.
constexpr core::Dim kMostExact = core::Dim{1} << 24;

std::string first_of_range(Raising& r, const std::string& range, const Names& ends) {
  const core::Dim count = r.out().shape[0];
  if (!core::is_symbol(count)) {
    if (count > kMostExact)
      r.unsupported("of more than 2^24 floats, LiteRT and ONNX Runtime give different numbers of elements");
    return r.node("Slice", {range, r.int64_list({0}), r.int64_list({count})});
  }
  const std::string steps = r.node("Div", {r.node("Sub", {ends[1], ends[0]}), ends[2]});
  const std::string counted = r.cast(r.node("Ceil", {steps}), DType::kInt64);
  return r.node("Slice", {range, r.int64_list({0}), r.reshaped(counted, {1})});
}

// Whether the ends are known, and the number of elements is the same in both ways to count them.
bool has_count_of_onnx(const Raising& r) {
  const auto start = r.graph.numbers(r.op.inputs[0]), limit = r.graph.numbers(r.op.inputs[1]),
             delta = r.graph.numbers(r.op.inputs[2]);
  if (!start || !limit || !delta) return false;
  const float extent = static_cast<float>((*limit)[0]) - static_cast<float>((*start)[0]);
  const double count = std::max(0.0, std::ceil(static_cast<double>(extent) / (*delta)[0]));
  return count == static_cast<double>(r.out().shape[0]);
}

void raise_range(Raising& r) {
  if (r.out().quantization) r.unsupported("a quantized result is not supported");
  const Names ends = {r.stored(0), r.stored(1), r.stored(2)};
  const std::string range = r.node("Range", ends);
  const bool is_whole = !stream::is_float(r.out().dtype) || has_count_of_onnx(r);
  r.give_stored(is_whole ? range : first_of_range(r, range, ends));
}

constexpr RaiseRow kMoves[] = {
    {Kind::kReshape, 2, 2, raise_reshape},
    {Kind::kSqueeze, 1, 1, raise_squeeze},
    {Kind::kExpandDims, 2, 2, raise_expand_dims},
    {Kind::kShape, 1, 1, raise_shape},
    {Kind::kTranspose, 2, 2, raise_transpose},
    {Kind::kPack, 1, RaiseRow::kAnyNumber, raise_pack},
    {Kind::kUnpack, 1, 1, raise_unpack},
    {Kind::kConcatenation, 1, RaiseRow::kAnyNumber, raise_concatenation},
    {Kind::kSplit, 2, 2, raise_split},
    {Kind::kSplitV, 3, 3, raise_split_v},
    {Kind::kReverseV2, 2, 2, raise_reverse},
    {Kind::kReverseSequence, 2, 2, raise_reverse_sequence},
    {Kind::kPad, 2, 2, raise_pad},
    {Kind::kPadv2, 3, 3, raise_pad},
    {Kind::kMirrorPad, 2, 2, raise_mirror_pad},
    {Kind::kGather, 2, 2, raise_gather},
    {Kind::kGatherNd, 2, 2, raise_gather_nd},
    {Kind::kEmbeddingLookup, 2, 2, raise_embedding_lookup},
    {Kind::kOneHot, 4, 4, raise_one_hot},
    {Kind::kDynamicUpdateSlice, 3, 3, raise_dynamic_update_slice},
    {Kind::kWhere, 1, 1, raise_where},
    {Kind::kTile, 2, 2, raise_tile},
    {Kind::kBroadcastTo, 2, 2, raise_broadcast_to},
    {Kind::kBroadcastArgs, 2, 2, raise_broadcast_args},
    {Kind::kFill, 2, 2, raise_fill},
    {Kind::kRange, 3, 3, raise_range},
};

}  // namespace

std::span<const RaiseRow> raised_moves() { return kMoves; }

}  // namespace lowtide::layout
