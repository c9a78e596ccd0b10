// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/ranks.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "layout/legalise/roles.h"

namespace lowtide::layout {

using core::Builder;
using core::Dim;
using core::Graph;
using core::Kind;
using core::Op;
using core::Shape;
using core::Val;
using core::ValueId;

namespace {

// What an op does to an axis, as a number: neighbours of one number are merged. kAny: it does nothing to it.
using Marks = std::vector<int64_t>;
constexpr int64_t kAny = -1;
constexpr int64_t kAlone = 1000;  // and above: each axis its own

// Which group each axis falls into.
struct Groups {
  std::vector<int> of;
  int count = 0;
};

Groups group(const Marks& marks) {
  Groups groups;
  int64_t current = kAny;
  for (int64_t mark : marks) {
    const bool joins = groups.count > 0 && (mark == kAny || current == kAny || mark == current);
    if (!joins) {
      ++groups.count;
      current = mark;
    }
    if (current == kAny) current = mark;
    groups.of.push_back(groups.count - 1);
  }
  return groups;
}

Shape merged(core::Symbols& symbols, const Shape& shape, const Groups& groups) {
  Shape out(static_cast<size_t>(groups.count), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    Dim& dim = out[static_cast<size_t>(groups.of[i])];
    dim = symbols.mul(dim, shape[i]);
  }
  return out;
}

Shape lifted(const Shape& shape, size_t rank) {
  Shape out(rank - std::min(rank, shape.size()), 1);
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

// One op on its way through merge_axes.
struct Merging {
  Builder& b;
  Op& op;
  std::vector<std::pair<ValueId, ValueId>>& restore;

  const Shape& shape(ValueId id) const { return b.graph.at(id).shape; }
  const Shape& in(size_t i) const { return shape(op.inputs[i]); }
  const Shape& out(size_t i = 0) const { return shape(op.outputs[i]); }
  std::optional<std::vector<int64_t>> ints(size_t i) const { return b.graph.ints(op.inputs[i]); }

  void reshape_input(size_t i, const Shape& to) { op.inputs[i] = b.reshape(Val{op.inputs[i]}, to).id; }
  void merge_input(size_t i, const Groups& groups) {
    reshape_input(i, merged(b.graph.symbols, lifted(in(i), groups.of.size()), groups));
  }
  void replace_output(size_t i, Shape to) {
    const ValueId old = op.outputs[i];
    op.outputs[i] = b.graph.add_value(b.graph.at(old).dtype, std::move(to));
    b.graph.at(op.outputs[i]).quantization = b.graph.at(old).quantization;
    restore.emplace_back(op.outputs[i], old);
  }
  void merge_output(size_t i, const Groups& groups) { replace_output(i, merged(b.graph.symbols, out(i), groups)); }

  bool broadcasting(std::span<const size_t> operands, size_t own_axes);
  bool reducing();
  bool along_one_axis(int axis, size_t first_data, size_t data_count, const std::function<void(int)>& set_axis);
  bool padding();
  bool transposing();
  bool last_axis(std::span<const size_t> operands);
  bool slicing();
  bool tiling();
};

// Operands that broadcast against each other; the last `own_axes` axes of all are left alone.
bool Merging::broadcasting(std::span<const size_t> operands, size_t own_axes) {
  const Shape full = out();
  const size_t rank = full.size();
  for (size_t i : operands)
    if (in(i).size() > rank) return false;  // no elementwise result: SHAPE, WHERE
  Marks marks;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t mark = 0;
    if (axis + own_axes >= rank) {
      mark = kAlone + static_cast<int64_t>(axis);
    } else {
      for (size_t i : operands) {
        const Dim dim = lifted(in(i), rank)[axis];
        mark = mark * 2 + (dim != 1);
        if (dim != 1 && dim != full[axis]) return false;  // may be 1 at run time
      }
      if (full[axis] == 1) mark = kAny;
    }
    marks.push_back(mark);
  }
  const Groups groups = group(marks);
  // The own axes of a matrix product differ between operands: only the axes before them are those of the result.
  for (size_t i : operands) merge_input(i, groups);
  merge_output(0, groups);
  return true;
}

bool Merging::reducing() {
  auto axes = ints(1);
  if (!axes) return false;
  const auto rank = static_cast<int64_t>(in(0).size());
  Marks marks(static_cast<size_t>(rank), 0);
  for (int64_t axis : *axes) marks[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = 1;
  const std::vector<int64_t> reduced = marks;
  for (size_t i = 0; i < marks.size(); ++i)
    if (in(0)[i] == 1) marks[i] = kAny;
  const Groups groups = group(marks);
  std::vector<int64_t> is_reduced(static_cast<size_t>(groups.count), 0);
  for (size_t i = 0; i < marks.size(); ++i)
    if (reduced[i] && marks[i] != kAny) is_reduced[static_cast<size_t>(groups.of[i])] = 1;
  merge_input(0, groups);
  std::vector<int64_t> merged_axes;
  Shape left;
  for (size_t g = 0; g < is_reduced.size(); ++g) {
    if (is_reduced[g])
      merged_axes.push_back(static_cast<int64_t>(g));
    else
      left.push_back(in(0)[g]);
  }
  op.inputs[1] = b.i32(merged_axes).id;
  op.options = core::ReduceOptions{false};
  replace_output(0, std::move(left));
  return true;
}

// CONCATENATION, SPLIT: all data alike but along one axis.
bool Merging::along_one_axis(int axis, size_t first_data, size_t data_count, const std::function<void(int)>& set_axis) {
  const auto rank = static_cast<int>(in(first_data).size());
  Marks marks;
  for (int i = 0; i < rank; ++i) marks.push_back(i < axis ? 0 : i == axis ? 1 : 2);
  const Groups groups = group(marks);
  for (size_t i = 0; i < data_count; ++i) merge_input(first_data + i, groups);
  for (size_t i = 0; i < op.outputs.size(); ++i) merge_output(i, groups);
  set_axis(groups.of[static_cast<size_t>(axis)]);
  return true;
}

bool Merging::padding() {
  auto table = ints(1);
  if (!table) return false;
  Marks marks;
  for (size_t i = 0; i < in(0).size(); ++i) {
    const bool padded = (*table)[2 * i] != 0 || (*table)[2 * i + 1] != 0;
    marks.push_back(padded ? kAlone + static_cast<int64_t>(i) : in(0)[i] == 1 ? kAny : 0);
  }
  const Groups groups = group(marks);
  std::vector<int64_t> fewer(static_cast<size_t>(groups.count) * 2, 0);
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] < kAlone) continue;
    fewer[2 * static_cast<size_t>(groups.of[i])] = (*table)[2 * i];
    fewer[2 * static_cast<size_t>(groups.of[i]) + 1] = (*table)[2 * i + 1];
  }
  merge_input(0, groups);
  op.inputs[1] = b.graph.add_ints(fewer, core::DType::kInt32, {groups.count, 2});
  merge_output(0, groups);
  return true;
}

// Axes that stay side by side.
bool Merging::transposing() {
  auto perm = ints(1);
  if (!perm) return false;
  Marks run_of(perm->size());
  std::vector<int64_t> order;  // the runs, as the output has them
  for (size_t i = 0; i < perm->size(); ++i) {
    if (i == 0 || (*perm)[i] != (*perm)[i - 1] + 1) order.push_back(static_cast<int64_t>(i));
    run_of[static_cast<size_t>((*perm)[i])] = kAlone + order.back();
  }
  const Groups groups = group(run_of);
  std::vector<int64_t> fewer;
  Shape to;
  for (int64_t first : order) fewer.push_back(groups.of[static_cast<size_t>((*perm)[static_cast<size_t>(first)])]);
  merge_input(0, groups);
  for (int64_t g : fewer) to.push_back(in(0)[static_cast<size_t>(g)]);
  op.inputs[1] = b.i32(fewer).id;
  replace_output(0, std::move(to));
  return true;
}

// Softmax and its kin, and rows of matrices: the last axis is left alone.
bool Merging::last_axis(std::span<const size_t> operands) {
  Marks marks(in(operands[0]).size(), 0);
  marks.back() = 1;
  const Groups groups = group(marks);
  for (size_t i : operands) merge_input(i, groups);
  for (size_t i = 0; i < op.outputs.size(); ++i) merge_output(i, groups);
  return true;
}

bool Merging::slicing() {
  auto begin = ints(1), size = ints(2);
  if (!begin || !size) return false;
  Marks marks;
  for (size_t i = 0; i < in(0).size(); ++i) {
    const bool whole = (*begin)[i] == 0 && ((*size)[i] == -1 || (*size)[i] == in(0)[i]);
    marks.push_back(whole ? 0 : kAlone + static_cast<int64_t>(i));
  }
  const Groups groups = group(marks);
  std::vector<int64_t> from(static_cast<size_t>(groups.count), 0), count(static_cast<size_t>(groups.count), -1);
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] < kAlone) continue;
    from[static_cast<size_t>(groups.of[i])] = (*begin)[i];
    count[static_cast<size_t>(groups.of[i])] = (*size)[i];
  }
  merge_input(0, groups);
  op.inputs[1] = b.i32(from).id;
  op.inputs[2] = b.i32(count).id;
  merge_output(0, groups);
  return true;
}

bool Merging::tiling() {
  auto times = ints(1);
  if (!times) return false;
  Marks marks;
  for (size_t i = 0; i < times->size(); ++i) marks.push_back((*times)[i] == 1 ? 0 : kAlone + static_cast<int64_t>(i));
  const Groups groups = group(marks);
  std::vector<int64_t> fewer(static_cast<size_t>(groups.count), 1);
  for (size_t i = 0; i < marks.size(); ++i) fewer[static_cast<size_t>(groups.of[i])] *= (*times)[i];
  merge_input(0, groups);
  op.inputs[1] = b.i32(fewer).id;
  merge_output(0, groups);
  return true;
}

}  // namespace

int kernel_rank(const Graph& graph, const Op& op) {
  auto rank = [&](ValueId id) { return graph.at(id).rank(); };
  if (op.kind == Kind::kFill || op.kind == Kind::kScatterNd) return rank(op.outputs[0]);
  if (op.kind == Kind::kOneHot || op.kind == Kind::kFullyConnected) return rank(op.inputs[0]);
  const Roles role = roles(op.kind);
  int highest = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (role.is_data_input(i) && op.inputs[i] != core::kAbsent) highest = std::max(highest, rank(op.inputs[i]));
  return highest;
}

bool merge_axes(Builder& builder, Op& op, std::vector<std::pair<ValueId, ValueId>>& restore) {
  Merging m{builder, op, restore};
  constexpr size_t kFirst[] = {0};
  constexpr size_t kPair[] = {0, 1};
  constexpr size_t kTriple[] = {0, 1, 2};
  switch (op.kind) {
    case Kind::kSum:
    case Kind::kMean:
    case Kind::kReduceMax:
    case Kind::kReduceMin:
    case Kind::kReduceProd:
    case Kind::kReduceAny:
    case Kind::kReduceAll:
      return m.reducing();
    case Kind::kConcatenation:
      return m.along_one_axis(std::get<core::ConcatOptions>(op.options).axis, 0, op.inputs.size(),
                              [&](int axis) { std::get<core::ConcatOptions>(op.options).axis = axis; });
    case Kind::kSplit:
    case Kind::kSplitV: {
      const size_t data = op.kind == Kind::kSplit ? 1 : 0, axis_input = op.kind == Kind::kSplit ? 0 : 2;
      auto axis = m.ints(axis_input);
      if (!axis) return false;
      const auto rank = static_cast<int64_t>(m.in(data).size());
      return m.along_one_axis(static_cast<int>(axis->at(0) < 0 ? axis->at(0) + rank : axis->at(0)), data, 1,
                              [&](int to) { op.inputs[axis_input] = builder.i32_scalar(to).id; });
    }
    case Kind::kPad:
    case Kind::kPadv2:
    case Kind::kMirrorPad:
      return m.padding();
    case Kind::kTranspose:
      return m.transposing();
    case Kind::kSoftmax:
    case Kind::kLogSoftmax:
      return m.last_axis(kFirst);
    case Kind::kSlice:
      return m.slicing();
    case Kind::kTile:
      return m.tiling();
    case Kind::kBroadcastTo: {
      if (!m.broadcasting(kFirst, 0)) return false;
      op.inputs[1] = builder.dims(m.out()).id;
      return true;
    }
    case Kind::kSelectV2:
      return m.broadcasting(kTriple, 0);
    case Kind::kBatchMatmul:
      return m.broadcasting(kPair, 2);
    case Kind::kFullyConnected:
      return std::get<core::FullyConnectedOptions>(op.options).keep_num_dims && m.last_axis(kFirst);
    case Kind::kL2Normalization:
    case Kind::kPack:
    case Kind::kUnpack:
      return false;
    default: {
      // Elementwise, of one or two operands: whatever has nothing but data.
      const Roles role = roles(op.kind);
      const bool all_data = role.index_in == 0 && role.data_in == ~0U && op.outputs.size() == 1;
      if (!all_data || op.inputs.empty() || op.inputs.size() > 2) return false;
      return op.inputs.size() == 1 ? m.broadcasting(kFirst, 0) : m.broadcasting(kPair, 0);
    }
  }
}

}  // namespace lowtide::layout
