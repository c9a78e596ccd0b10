#include "stream/reader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "stream/elementwise.h"
#include "stream/error.h"
#include "stream/extent_reader.h"
#include "stream/reduce_reader.h"
#include "stream/transpose.h"

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

class InlineReader : public Reader {
 public:
  InlineReader(const Recipe& recipe, const step::Inline& step) : Reader(recipe), lanes_(step.lanes) {}
  void read(const Box& box, std::byte* out) override { copy_runs(box, lanes_.data(), out); }

 private:
  const std::vector<std::byte>& lanes_;
};

void fill_lanes(const std::vector<std::byte>& lane, std::byte* out, uint64_t count) {
  uint64_t filled = lane.size(), bytes = count * lane.size();
  if (bytes == 0) return;
  std::memcpy(out, lane.data(), lane.size());
  constexpr uint64_t kMostAtOnce = 16 * 1024;  // copy what is still in the first cache
  for (uint64_t part; filled < bytes; filled += part) {
    part = std::min({filled, bytes - filled, kMostAtOnce / lane.size() * lane.size()});
    std::memcpy(out + filled, out, part);
  }
}

class FillReader : public Reader {
 public:
  FillReader(const Recipe& recipe, const step::Fill& step) : Reader(recipe), value_(step.lane) {}
  void read(const Box& box, std::byte* out) override { fill_lanes(value_, out, box.elements()); }

 private:
  const std::vector<std::byte>& value_;
};

class IotaReader : public Reader {
 public:
  IotaReader(const Recipe& recipe, const step::Iota& step)
      : Reader(recipe), start_(static_cast<uint64_t>(step.start)), delta_(static_cast<uint64_t>(step.delta)) {}
  void read(const Box& box, std::byte* out) override {
    for_each_run(box, dims_, [&](uint64_t first, uint64_t count) {
      for (uint64_t i = first; i < first + count; ++i, out += lane_) {
        uint64_t value = start_ + i * delta_;
        elementwise::cast(DType::kInt64, dtype_, reinterpret_cast<const std::byte*>(&value), out, 1);
      }
    });
  }

 private:
  uint64_t start_, delta_;
};

// Reads the input in its own order, piece by piece, and spreads each piece over the output.
class PermuteReader : public Reader {
 public:
  PermuteReader(const Recipe& recipe, const step::Permute& step, ReaderRef input, Scratch& scratch)
      : Reader(recipe), perm_(step.perm), input_(std::move(input)), scratch_(scratch) {}
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
  ReaderRef input_;
  Scratch& scratch_;
};

// The axes of both shapes fall into groups of equal product. Where the box is contiguous within every group, and its
// image a box, one read does; else each run of the box is read by itself.
class ReshapeReader : public Reader {
 public:
  ReshapeReader(const Recipe& recipe, ReaderRef input) : Reader(recipe), input_(std::move(input)) {
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
    if (std::all_of(groups_.begin(), groups_.end(), [&](const Group& group) { return map(group, box, from); })) {
      input_->read(from, out);
      return;
    }
    for_each_run(box, dims_, [&](uint64_t first, uint64_t count) {
      for_each_box(input_->dims(), first, count,
                   [&](const Box& part, uint64_t offset) { input_->read(part, at(out, offset)); });
      out = at(out, count);
    });
  }

 private:
  struct Group {
    size_t begin, end, from_begin, from_end;
  };

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
  ReaderRef input_;
};

class UnaryReader : public Reader {
 public:
  UnaryReader(const Recipe& recipe, const step::Unary& step, ReaderRef input, Scratch& scratch)
      : Reader(recipe), op_(step.op), input_(std::move(input)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    for_each_piece(box, scratch_.fits(lane_), [&](const Box& piece, uint64_t offset) {
      input_->read(piece, at(out, offset));
      elementwise::unary(op_, dtype_, at(out, offset), at(out, offset), piece.elements());
    });
  }

 private:
  stream::Unary op_;
  ReaderRef input_;
  Scratch& scratch_;
};

class CastReader : public Reader {
 public:
  CastReader(const Recipe& recipe, ReaderRef input, Scratch& scratch)
      : Reader(recipe), input_(std::move(input)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    Tile tile(scratch_);
    for_each_piece(box, scratch_.fits(input_->lane()), [&](const Box& piece, uint64_t offset) {
      input_->read(piece, tile);
      elementwise::cast(input_->dtype(), dtype_, tile, at(out, offset), piece.elements());
    });
  }

 private:
  ReaderRef input_;
  Scratch& scratch_;
};

// Quantize and Dequantize: runs of elements that share one scale.
class ScaleReader : public Reader {
 public:
  template <typename Step>
  ScaleReader(const Recipe& recipe, const Step& step, ReaderRef input, Scratch& scratch)
      : Reader(recipe),
        quantizes_(std::is_same_v<Step, step::Quantize>),
        scale_(step.scale),
        zero_(step.zero),
        axis_(step.axis),
        input_(std::move(input)),
        scratch_(scratch) {}

  void read(const Box& box, std::byte* out) override {
    Tile tile(scratch_);
    for_each_piece(box, scratch_.fits(input_->lane()), [&](const Box& piece, uint64_t offset) {
      input_->read(piece, tile);
      uint64_t run = piece.elements(), channels = 1, first = 0, done = 0;
      if (axis_ >= 0) {
        auto axis = static_cast<size_t>(axis_);
        run = 1;
        for (size_t i = axis + 1; i < piece.size.size(); ++i) run *= static_cast<uint64_t>(piece.size[i]);
        channels = static_cast<uint64_t>(piece.size[axis]);
        first = static_cast<uint64_t>(piece.begin[axis]);
      }
      for (uint64_t elements = piece.elements(); done < elements;)
        for (uint64_t channel = first; channel < first + channels; ++channel, done += run)
          convert(channel, input_->at(tile, done), at(out, offset + done), run);
    });
  }

 private:
  void convert(uint64_t channel, const std::byte* in, std::byte* out, uint64_t count) {
    if (quantizes_) {
      elementwise::quantize(input_->dtype(), dtype_, scale_[channel], zero_[channel], in, out, count);
    } else {
      elementwise::dequantize(input_->dtype(), scale_[channel], zero_[channel], in, out, count);
    }
  }

  bool quantizes_;
  const std::vector<float>& scale_;
  const std::vector<int64_t>& zero_;
  int axis_;
  ReaderRef input_;
  Scratch& scratch_;
};

// The part of a broadcast operand that a box of the result needs.
Box operand_box(const Box& box, const Shape& dims) {
  Box part = box;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 1) {
      part.begin[i] = 0;
      part.size[i] = 1;
    }
  return part;
}

class BinaryReader : public Reader {
 public:
  BinaryReader(const Recipe& recipe, const step::Binary& step, ReaderRef a, ReaderRef b, Scratch& scratch)
      : Reader(recipe), op_(step.op), a_(std::move(a)), b_(std::move(b)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    Tile left(scratch_), right(scratch_);
    for_each_piece(box, scratch_.fits(a_->lane()), [&](const Box& piece, uint64_t offset) {
      Box a_box = operand_box(piece, a_->dims()), b_box = operand_box(piece, b_->dims());
      bool in_place = a_->lane() == lane_ && a_box.size == piece.size;
      std::byte* a_data = in_place ? at(out, offset) : left.data();
      a_->read(a_box, a_data);
      b_->read(b_box, right);
      elementwise::binary(op_, a_->dtype(), piece.size, {a_data, a_box.size}, {right, b_box.size}, at(out, offset));
    });
  }

 private:
  stream::Binary op_;
  ReaderRef a_, b_;
  Scratch& scratch_;
};

class SelectReader : public Reader {
 public:
  SelectReader(const Recipe& recipe, ReaderRef condition, ReaderRef yes, ReaderRef no, Scratch& scratch)
      : Reader(recipe), condition_(std::move(condition)), yes_(std::move(yes)), no_(std::move(no)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    Tile condition(scratch_), yes(scratch_), no(scratch_);
    for_each_piece(box, scratch_.fits(lane_), [&](const Box& piece, uint64_t offset) {
      Box c = operand_box(piece, condition_->dims()), y = operand_box(piece, yes_->dims()),
          n = operand_box(piece, no_->dims());
      condition_->read(c, condition);
      yes_->read(y, yes);
      no_->read(n, no);
      elementwise::select(lane_, piece.size, {condition, c.size}, {yes, y.size}, {no, n.size}, at(out, offset));
    });
  }

 private:
  ReaderRef condition_, yes_, no_;
  Scratch& scratch_;
};

class BroadcastReader : public Reader {
 public:
  BroadcastReader(const Recipe& recipe, ReaderRef input, Scratch& scratch)
      : Reader(recipe), input_(std::move(input)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    Tile tile(scratch_);
    for_each_piece(box, scratch_.fits(lane_), [&](const Box& piece, uint64_t offset) {
      Box from = operand_box(piece, input_->dims());
      input_->read(from, tile);
      copy_nest(lane_, {piece.size, {dense_strides(piece.size), broadcast_strides(from.size, piece.size), {}, {}}},
                tile, at(out, offset));
    });
  }

 private:
  ReaderRef input_;
  Scratch& scratch_;
};

// Steps whose box is put together from boxes of their inputs, each moved by a distance along the axes.
class AssemblingReader : public Reader {
 protected:
  AssemblingReader(const Recipe& recipe, Scratch& scratch) : Reader(recipe), scratch_(scratch) {}

  // Reads `from` of the input and puts it at `position` of the dense copy of a box of extents `size`.
  void assemble(Reader& input, const Box& from, const Shape& position, const Shape& size, std::byte* out) {
    Shape strides = dense_strides(size);
    if (contiguous(from.size, size)) {
      input.read(from, at(out, dot(position, strides)));
      return;
    }
    Tile tile(scratch_);
    for_each_piece(from, scratch_.fits(lane_), [&](const Box& piece, uint64_t) {
      input.read(piece, tile);
      Shape to = position;
      for (size_t i = 0; i < to.size(); ++i) to[i] += piece.begin[i] - from.begin[i];
      place(lane_, tile, piece.size, out, strides, dot(to, strides));
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
  ConcatReader(const Recipe& recipe, const step::Concat& step, std::vector<ReaderRef> inputs, Scratch& scratch)
      : AssemblingReader(recipe, scratch), axis_(static_cast<size_t>(step.axis)), inputs_(std::move(inputs)) {
    int64_t first = 0;
    for (const ReaderRef& input : inputs_) {
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
  std::vector<ReaderRef> inputs_;
  std::vector<int64_t> firsts_;
};

class PadReader : public AssemblingReader {
 public:
  PadReader(const Recipe& recipe, const step::Pad& step, ReaderRef input, Scratch& scratch)
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
  ReaderRef input_;
};

class GatherReader : public AssemblingReader {
 public:
  GatherReader(const Recipe& recipe, const step::Gather& step, ReaderRef input, Scratch& scratch)
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
  ReaderRef input_;
};

// Strided axes are read whole, from their first to their last element, where that wastes little; else index by index.
class SliceReader : public Reader {
 public:
  SliceReader(const Recipe& recipe, const step::Slice& step, ReaderRef input, Scratch& scratch)
      : Reader(recipe), begin_(step.begin), stride_(step.stride), input_(std::move(input)), scratch_(scratch) {}
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
    input_->read(from, tile);
    Shape strides = dense_strides(from.size);
    int64_t first = 0;
    for (size_t i = 0; i < strides.size(); ++i) {
      if (stride_[i] < 0) first += (from.size[i] - 1) * strides[i];
      strides[i] *= stride_[i];
    }
    copy_nest(lane_, {box.size, {dense_strides(box.size), strides, {}, {}}}, at(tile, static_cast<uint64_t>(first)),
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
  ReaderRef input_;
  Scratch& scratch_;
};

struct TilesHeld {
  uint64_t operator()(const step::Extent&) const { return kExtentTiles; }
  uint64_t operator()(const step::Permute&) const { return 1; }
  uint64_t operator()(const step::Cast&) const { return 1; }
  uint64_t operator()(const step::Slice&) const { return 1; }
  uint64_t operator()(const step::Concat&) const { return 1; }
  uint64_t operator()(const step::Broadcast&) const { return 1; }
  uint64_t operator()(const step::Pad&) const { return 1; }
  uint64_t operator()(const step::Gather&) const { return 1; }
  uint64_t operator()(const step::Binary&) const { return 2; }
  uint64_t operator()(const step::Select&) const { return 3; }
  uint64_t operator()(const step::Quantize&) const { return 1; }
  uint64_t operator()(const step::Dequantize&) const { return 1; }
  uint64_t operator()(const step::Reduce&) const { return kReduceTiles; }
  template <typename Step>
  uint64_t operator()(const Step&) const {
    return 0;
  }
};

// A result that is worked out whole at the first read.
class KeptReader : public Reader {
 public:
  KeptReader(const Recipe& recipe, ReaderRef input, std::byte* lanes)
      : Reader(recipe), input_(std::move(input)), lanes_(lanes) {}
  void read(const Box& box, std::byte* out) override {
    if (input_) {
      input_->read(whole(dims_), lanes_);
      input_.reset();
    }
    copy_runs(box, lanes_, out);
  }

 private:
  ReaderRef input_;  // null when it has been read
  std::byte* lanes_;
};

constexpr uint64_t kMostKept = 64 * 1024;

uint64_t size_in_lanes(const Recipe& recipe) {
  return checked_mul(recipe.elements(), static_cast<uint64_t>(lane_bytes(recipe.dtype)));
}

bool is_kept(const Recipe& step, const Recipe& input) {
  bool repeats = std::holds_alternative<step::Binary>(step.step) || std::holds_alternative<step::Select>(step.step) ||
                 std::holds_alternative<step::Broadcast>(step.step);
  return repeats && !input.from.empty() && size_in_lanes(input) <= kMostKept && size_in_lanes(step) > kMostKept;
}

// Places of kept results are whole cache lines.
uint64_t kept_bytes(const Recipe& recipe) { return (size_in_lanes(recipe) + 63) / 64 * 64; }

Needs collect_needs(const Recipe& recipe, std::unordered_map<const Recipe*, Needs>& known) {
  auto found = known.find(&recipe);
  if (found != known.end()) return {found->second.tiles, found->second.largest, 0};
  Needs needs{0, size_in_lanes(recipe), 0};
  for (const RecipeRef& input : recipe.from) {
    Needs inner = collect_needs(*input, known);
    needs.tiles = std::max(needs.tiles, inner.tiles);
    needs.largest = std::max(needs.largest, inner.largest);
    needs.kept += inner.kept + (is_kept(recipe, *input) ? kept_bytes(*input) : 0);
  }
  needs.tiles += std::visit(TilesHeld{}, recipe.step);
  return known[&recipe] = needs;
}

class Builder {
 public:
  explicit Builder(Scratch& scratch) : scratch_(scratch) {}
  ReaderRef build(const Recipe& recipe) {
    ReaderRef& reader = built_[&recipe];
    if (reader) return reader;
    std::vector<ReaderRef> from;
    for (const RecipeRef& input : recipe.from) {
      from.push_back(build(*input));
      if (is_kept(recipe, *input))
        from.back() = ref<KeptReader>(*input, from.back(), scratch_.keep(kept_bytes(*input)));
    }
    return reader = std::visit([&](const auto& step) { return make(recipe, step, from); }, recipe.step);
  }

 private:
  using Readers = std::vector<ReaderRef>;
  template <typename R, typename... Args>
  static ReaderRef ref(Args&&... args) {
    return std::make_shared<R>(std::forward<Args>(args)...);
  }

  ReaderRef make(const Recipe& r, const step::Extent& s, Readers&) { return make_extent_reader(r, s, scratch_); }
  ReaderRef make(const Recipe& r, const step::Inline& s, Readers&) { return ref<InlineReader>(r, s); }
  ReaderRef make(const Recipe& r, const step::Fill& s, Readers&) { return ref<FillReader>(r, s); }
  ReaderRef make(const Recipe& r, const step::Iota& s, Readers&) { return ref<IotaReader>(r, s); }
  ReaderRef make(const Recipe& r, const step::Permute& s, Readers& f) {
    return ref<PermuteReader>(r, s, f[0], scratch_);
  }
  ReaderRef make(const Recipe& r, const step::Reshape&, Readers& f) { return ref<ReshapeReader>(r, f[0]); }
  ReaderRef make(const Recipe& r, const step::Cast&, Readers& f) { return ref<CastReader>(r, f[0], scratch_); }
  ReaderRef make(const Recipe& r, const step::Slice& s, Readers& f) { return ref<SliceReader>(r, s, f[0], scratch_); }
  ReaderRef make(const Recipe& r, const step::Concat& s, Readers& f) { return ref<ConcatReader>(r, s, f, scratch_); }
  ReaderRef make(const Recipe& r, const step::Broadcast&, Readers& f) {
    return ref<BroadcastReader>(r, f[0], scratch_);
  }
  ReaderRef make(const Recipe& r, const step::Pad& s, Readers& f) { return ref<PadReader>(r, s, f[0], scratch_); }
  ReaderRef make(const Recipe& r, const step::Gather& s, Readers& f) { return ref<GatherReader>(r, s, f[0], scratch_); }
  ReaderRef make(const Recipe& r, const step::Unary& s, Readers& f) { return ref<UnaryReader>(r, s, f[0], scratch_); }
  ReaderRef make(const Recipe& r, const step::Binary& s, Readers& f) {
    return ref<BinaryReader>(r, s, f[0], f[1], scratch_);
  }
  ReaderRef make(const Recipe& r, const step::Select&, Readers& f) {
    return ref<SelectReader>(r, f[0], f[1], f[2], scratch_);
  }
  ReaderRef make(const Recipe& r, const step::Quantize& s, Readers& f) {
    return ref<ScaleReader>(r, s, f[0], scratch_);
  }
  ReaderRef make(const Recipe& r, const step::Dequantize& s, Readers& f) {
    return ref<ScaleReader>(r, s, f[0], scratch_);
  }
  ReaderRef make(const Recipe& r, const step::Reduce& s, Readers& f) {
    return make_reduce_reader(r, s, f[0], scratch_);
  }

  Scratch& scratch_;
  std::unordered_map<const Recipe*, ReaderRef> built_;
};

}  // namespace

Reader::Reader(const Recipe& recipe) : dims_(recipe.dims), dtype_(recipe.dtype), lane_(lane_bytes(recipe.dtype)) {}

void Reader::copy_runs(const Box& box, const std::byte* lanes, std::byte* out) const {
  for_each_run(box, dims_, [&](uint64_t first, uint64_t count) {
    uint64_t bytes = count * static_cast<uint64_t>(lane_);
    std::memcpy(out, lanes + first * static_cast<uint64_t>(lane_), bytes);
    out += bytes;
  });
}

Needs needs_of(const Recipe& recipe) {
  std::unordered_map<const Recipe*, Needs> known;
  return collect_needs(recipe, known);
}

ReaderRef make_reader(const Recipe& recipe, Scratch& scratch) { return Builder(scratch).build(recipe); }

}  // namespace lowtide::stream
