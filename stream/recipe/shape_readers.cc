// SPDX-License-Identifier: Apache-2.0
// Steps that move elements without changing them.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "stream/recipe/step_readers.h"
#include "stream/recipe/transpose.h"

namespace lowtide::stream {
namespace {

// A box of `from` copied into a part of the dense array of extents `whole_size` that starts at element `offset`.
void place(int lane, const std::byte* from, const Shape& size, std::byte* to, const Shape& whole_strides,
           uint64_t offset) {
  copy_nest(lane, {size, {whole_strides, dense_strides(size), {}, {}}}, from,
            to + offset * static_cast<uint64_t>(lane));
}

uint64_t dot(const Shape& position, const Shape& strides) {
  int64_t sum = 0;
  for (size_t i = 0; i < position.size(); ++i) sum += position[i] * strides[i];
  return static_cast<uint64_t>(sum);
}

// Spreads the input over the output: all of it where it is mapped, else pieces that are read in the input's order.
class PermuteReader : public StepReader {
 public:
  PermuteReader(const Recipe& recipe, const step::Permute& step, StepReaderRef input, Scratch& scratch)
      : StepReader(recipe), perm_(step.perm), input_(std::move(input)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    Shape out_strides = dense_strides(box.size);
    Box from = box;
    Shape strides(perm_.size());
    for (size_t i = 0; i < perm_.size(); ++i) {
      auto axis = static_cast<size_t>(perm_[i]);
      from.begin[axis] = box.begin[i];
      from.size[axis] = box.size[i];
      strides[axis] = out_strides[i];
    }
    if (const std::byte* all = input_->view(from)) return place(lane_, all, from.size, out, strides, 0);
    Tile tile(scratch_);
    for_each_piece(from, scratch_.fits(lane_), [&](const Box& piece, uint64_t) {
      input_->read(piece, tile);
      Shape position = piece.begin;
      for (size_t i = 0; i < position.size(); ++i) position[i] -= from.begin[i];
      place(lane_, tile, piece.size, out, strides, dot(position, strides));
    });
  }

 private:
  const Perm& perm_;
  StepReaderRef input_;
  Scratch& scratch_;
};

// The axes of both shapes fall into groups of equal product. Where the box is contiguous within every group, and its
// image a box, one read does; else each run of the box is read by itself.
class ReshapeReader : public StepReader {
 public:
  ReshapeReader(const Recipe& recipe, StepReaderRef input) : StepReader(recipe), input_(std::move(input)) {
    const Shape& from = input_->dims();
    for (size_t i = 0, j = 0; i < dims_.size() || j < from.size();) {
      Group group{i, i, j, j};
      Dim left = i < dims_.size() ? dims_[i++] : 1, right = j < from.size() ? from[j++] : 1;
      while (left != right) {
        if (left < right) {
          left *= dims_[i++];
        } else {
          right *= from[j++];
        }
      }
      group.end = i;
      group.from_end = j;
      groups_.push_back(group);
    }
  }

  void read(const Box& box, std::byte* out) override {
    Box from{Shape(input_->dims().size()), Shape(input_->dims().size())};
    if (map(box, from)) {
      input_->read(from, out);
      return;
    }
    for_each_run(box, dims_, [&](uint64_t first, uint64_t count) {
      for_each_box(input_->dims(), first, count,
                   [&](const Box& part, uint64_t offset) { input_->read(part, at(out, offset)); });
      out = at(out, count);
    });
  }

  const std::byte* view(const Box& box) override {
    Box from{Shape(input_->dims().size()), Shape(input_->dims().size())};
    return map(box, from) ? input_->view(from) : nullptr;
  }

 private:
  struct Group {
    size_t begin, end, from_begin, from_end;
  };

  bool map(const Box& box, Box& from) const {
    return std::all_of(groups_.begin(), groups_.end(), [&](const Group& group) { return map(group, box, from); });
  }

  bool map(const Group& group, const Box& box, Box& from) const {
    uint64_t first = 0, count = 1;
    bool started = false;
    for (size_t i = group.begin; i < group.end; ++i) {
      if (started && box.size[i] != dims_[i]) return false;
      started = started || box.size[i] != 1;
      first = first * static_cast<uint64_t>(dims_[i]) + static_cast<uint64_t>(box.begin[i]);
      count *= static_cast<uint64_t>(box.size[i]);
    }
    // From the innermost axis outwards: whole axes while the range is made of them, one part, then single steps.
    for (size_t j = group.from_end; j-- > group.from_begin;) {
      auto extent = static_cast<uint64_t>(input_->dims()[j]);
      uint64_t size = 1, begin = first % extent;
      if (count % extent == 0 && begin == 0) {
        size = extent;
        count /= extent;
      } else if (begin + count <= extent) {
        size = count;
        count = 1;
      } else {
        return false;
      }
      first /= extent;
      from.begin[j] = static_cast<int64_t>(begin);
      from.size[j] = static_cast<int64_t>(size);
    }
    return true;
  }

  std::vector<Group> groups_;
  StepReaderRef input_;
};

class BroadcastReader : public StepReader {
 public:
  BroadcastReader(const Recipe& recipe, StepReaderRef input, Scratch& scratch)
      : StepReader(recipe), input_(std::move(input)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    Tile tile(scratch_);
    for_each_piece(box, scratch_.fits(lane_), [&](const Box& piece, uint64_t offset) {
      Box from = operand_box(piece, input_->dims());
      copy_nest(lane_, {piece.size, {dense_strides(piece.size), broadcast_strides(from.size, piece.size), {}, {}}},
                input_->lanes(from, tile), at(out, offset));
    });
  }

 private:
  StepReaderRef input_;
  Scratch& scratch_;
};

// Steps whose box is put together from boxes of their inputs, each moved by a distance along the axes.
class AssemblingReader : public StepReader {
 protected:
  AssemblingReader(const Recipe& recipe, Scratch& scratch) : StepReader(recipe), scratch_(scratch) {}

  // Reads `from` of the input and puts it at `position` of the dense copy of a box of extents `size`.
  void assemble(StepReader& input, const Box& from, const Shape& position, const Shape& size, std::byte* out) {
    Shape strides = dense_strides(size);
    if (contiguous(from.size, size)) {
      input.read(from, at(out, dot(position, strides)));
      return;
    }
    Tile tile(scratch_);
    for_each_piece(from, scratch_.fits(lane_), [&](const Box& piece, uint64_t) {
      const std::byte* lanes = input.lanes(piece, tile);
      Shape to = position;
      for (size_t i = 0; i < to.size(); ++i) to[i] += piece.begin[i] - from.begin[i];
      place(lane_, lanes, piece.size, out, strides, dot(to, strides));
    });
  }

  Scratch& scratch_;

 private:
  static bool contiguous(const Shape& part, const Shape& size) {
    size_t i = 0;
    while (i < part.size() && part[i] == 1) ++i;
    for (++i; i < part.size(); ++i)
      if (part[i] != size[i]) return false;
    return true;
  }
};

class ConcatReader : public AssemblingReader {
 public:
  ConcatReader(const Recipe& recipe, const step::Concat& step, std::vector<StepReaderRef> inputs, Scratch& scratch)
      : AssemblingReader(recipe, scratch), axis_(static_cast<size_t>(step.axis)), inputs_(std::move(inputs)) {
    int64_t first = 0;
    for (const StepReaderRef& input : inputs_) {
      firsts_.push_back(first);
      first += input->dims()[axis_];
    }
  }
  void read(const Box& box, std::byte* out) override {
    int64_t begin = box.begin[axis_], end = begin + box.size[axis_];
    auto input = static_cast<size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), begin) - firsts_.begin()) - 1;
    Shape position(box.size.size(), 0);
    for (; begin < end; ++input) {
      Box part = box;
      part.begin[axis_] = begin - firsts_[input];
      part.size[axis_] = std::min(end - begin, inputs_[input]->dims()[axis_] - part.begin[axis_]);
      assemble(*inputs_[input], part, position, box.size, out);
      position[axis_] += part.size[axis_];
      begin += part.size[axis_];
    }
  }

 private:
  size_t axis_;
  std::vector<StepReaderRef> inputs_;
  std::vector<int64_t> firsts_;
};

class PadReader : public AssemblingReader {
 public:
  PadReader(const Recipe& recipe, const step::Pad& step, StepReaderRef input, Scratch& scratch)
      : AssemblingReader(recipe, scratch), before_(step.before), value_(step.lane), input_(std::move(input)) {}
  void read(const Box& box, std::byte* out) override {
    Box from = box;
    Shape position(box.size.size());
    bool empty = false;
    for (size_t i = 0; i < before_.size(); ++i) {
      int64_t begin = std::max(box.begin[i] - before_[i], int64_t{0});
      int64_t end = std::min(box.begin[i] + box.size[i] - before_[i], input_->dims()[i]);
      from.begin[i] = begin;
      from.size[i] = end - begin;
      position[i] = begin + before_[i] - box.begin[i];
      empty = empty || end <= begin;
    }
    if (empty || from.size != box.size) fill_lanes(value_, out, box.elements());
    if (!empty) assemble(*input_, from, position, box.size, out);
  }

 private:
  const std::vector<int64_t>& before_;
  const std::vector<std::byte>& value_;
  StepReaderRef input_;
};

class GatherReader : public AssemblingReader {
 public:
  GatherReader(const Recipe& recipe, const step::Gather& step, StepReaderRef input, Scratch& scratch)
      : AssemblingReader(recipe, scratch),
        axis_(static_cast<size_t>(step.axis)),
        indices_(step.indices),
        input_(std::move(input)) {}
  void read(const Box& box, std::byte* out) override {
    Shape position(box.size.size(), 0);
    for (int64_t i = 0, run; i < box.size[axis_]; i += run) {
      const int64_t* index = indices_.data() + box.begin[axis_] + i;
      for (run = 1; i + run < box.size[axis_] && index[run] == index[0] + run;) ++run;
      Box part = box;
      part.begin[axis_] = index[0];
      part.size[axis_] = run;
      position[axis_] = i;
      assemble(*input_, part, position, box.size, out);
    }
  }

 private:
  size_t axis_;
  const std::vector<int64_t>& indices_;
  StepReaderRef input_;
};

// Strided axes are read whole, from their first to their last element, where that wastes little; else index by index.
class SliceReader : public StepReader {
 public:
  SliceReader(const Recipe& recipe, const step::Slice& step, StepReaderRef input, Scratch& scratch)
      : StepReader(recipe), begin_(step.begin), stride_(step.stride), input_(std::move(input)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    Box from = span(box);
    if (from.size == box.size && forward(box)) return input_->read(from, out);
    size_t axis = 0;  // the outermost axis that is strided
    while (box.size[axis] == 1 || stride_[axis] == 1) ++axis;
    uint64_t inner = static_cast<uint64_t>(lane_);
    for (size_t i = axis + 1; i < box.size.size(); ++i) inner *= static_cast<uint64_t>(from.size[i]);
    if (inner * static_cast<uint64_t>(std::abs(stride_[axis])) >= kWorthARead || from.elements() > scratch_.fits(lane_))
      return read_steps(box, out);
    Tile tile(scratch_);
    const std::byte* lanes = input_->lanes(from, tile);
    Shape strides = dense_strides(from.size);
    int64_t first = 0;
    for (size_t i = 0; i < strides.size(); ++i) {
      if (stride_[i] < 0) first += (from.size[i] - 1) * strides[i];
      strides[i] *= stride_[i];
    }
    copy_nest(lane_, {box.size, {dense_strides(box.size), strides, {}, {}}}, at(lanes, static_cast<uint64_t>(first)),
              out);
  }

 private:
  static constexpr uint64_t kWorthARead = 4096;  // bytes

  bool forward(const Box& box) const {
    for (size_t i = 0; i < box.size.size(); ++i)
      if (box.size[i] != 1 && stride_[i] < 0) return false;
    return true;
  }

  Box span(const Box& box) const {
    Box from = box;
    for (size_t i = 0; i < box.size.size(); ++i) {
      int64_t first = begin_[i] + box.begin[i] * stride_[i], last = first + (box.size[i] - 1) * stride_[i];
      from.begin[i] = std::min(first, last);
      from.size[i] = std::max(first, last) - from.begin[i] + 1;
    }
    return from;
  }

  // In halves along the outermost axis of more than one index.
  void read_steps(const Box& box, std::byte* out) {
    size_t axis = 0;
    while (box.size[axis] == 1) ++axis;
    Box half = box;
    half.size[axis] = box.size[axis] / 2;
    read(half, out);
    out = at(out, half.elements());
    half.begin[axis] += half.size[axis];
    half.size[axis] = box.size[axis] - half.size[axis];
    read(half, out);
  }

  const std::vector<int64_t>&begin_, &stride_;
  StepReaderRef input_;
  Scratch& scratch_;
};

}  // namespace

StepReaderRef make_step_reader(const Recipe& recipe, const step::Permute& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<PermuteReader>(recipe, step, from[0], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Reshape&, const StepReaders& from, Scratch&) {
  return std::make_shared<ReshapeReader>(recipe, from[0]);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Broadcast&, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<BroadcastReader>(recipe, from[0], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Concat& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<ConcatReader>(recipe, step, from, scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Pad& step, const StepReaders& from, Scratch& scratch) {
  return std::make_shared<PadReader>(recipe, step, from[0], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Gather& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<GatherReader>(recipe, step, from[0], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Slice& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<SliceReader>(recipe, step, from[0], scratch);
}

}  // namespace lowtide::stream
