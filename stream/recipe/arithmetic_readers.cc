// SPDX-License-Identifier: Apache-2.0
// Steps that compute: they read their inputs piece by piece, so that a piece is still in the cache when it is needed.
#include <algorithm>
#include <functional>
#include <type_traits>
#include <utility>

#include "stream/recipe/elementwise.h"
#include "stream/recipe/step_readers.h"

namespace lowtide::stream {
namespace {

class UnaryReader : public StepReader {
 public:
  UnaryReader(const Recipe& recipe, const step::Unary& step, StepReaderRef input, Scratch& scratch)
      : StepReader(recipe), op_(step.op), input_(std::move(input)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    for_each_piece(box, scratch_.fits(lane_), [&](const Box& piece, uint64_t offset) {
      input_->read(piece, at(out, offset));
      elementwise::unary(op_, dtype_, at(out, offset), at(out, offset), piece.elements());
    });
  }

 private:
  stream::Unary op_;
  StepReaderRef input_;
  Scratch& scratch_;
};

class CastReader : public StepReader {
 public:
  CastReader(const Recipe& recipe, StepReaderRef input, Scratch& scratch)
      : StepReader(recipe), input_(std::move(input)), scratch_(scratch) {}
  void read(const Box& box, std::byte* out) override {
    Tile tile(scratch_);
    for_each_piece(box, scratch_.fits(input_->lane()), [&](const Box& piece, uint64_t offset) {
      elementwise::cast(input_->dtype(), dtype_, input_->lanes(piece, tile), at(out, offset), piece.elements());
    });
  }

 private:
  StepReaderRef input_;
  Scratch& scratch_;
};

// Quantize and Dequantize: runs of elements that share one scale, or rows of channels.
class ScaleReader : public StepReader {
 public:
  template <typename Step>
  ScaleReader(const Recipe& recipe, const Step& step, StepReaderRef input, Scratch& scratch)
      : StepReader(recipe),
        quantizes_(std::is_same_v<Step, step::Quantize>),
        scale_(step.scale),
        zero_(step.zero),
        one_zero_(std::adjacent_find(zero_.begin(), zero_.end(), std::not_equal_to<>()) == zero_.end()),
        axis_(step.axis),
        input_(std::move(input)),
        scratch_(scratch) {}

  void read(const Box& box, std::byte* out) override {
    Tile tile(scratch_);
    for_each_piece(box, scratch_.fits(input_->lane()), [&](const Box& piece, uint64_t offset) {
      convert(piece, input_->lanes(piece, tile), at(out, offset));
    });
  }

 private:
  void convert(const Box& piece, const std::byte* in, std::byte* out) {
    uint64_t run = piece.elements(), channels = 1, first = 0, done = 0;
    if (axis_ >= 0) {
      auto axis = static_cast<size_t>(axis_);
      run = 1;
      for (size_t i = axis + 1; i < piece.size.size(); ++i) run *= static_cast<uint64_t>(piece.size[i]);
      channels = static_cast<uint64_t>(piece.size[axis]);
      first = static_cast<uint64_t>(piece.begin[axis]);
    }
    const uint64_t elements = piece.elements();
    if (run == 1 && quantizes_ && one_zero_) {
      for (; done < elements; done += channels)
        elementwise::quantize_each(input_->dtype(), dtype_, scale_.data() + first, zero_of(0), input_->at(in, done),
                                   at(out, done), channels);
      return;
    }
    while (done < elements)
      for (uint64_t channel = first; channel < first + channels; ++channel, done += run)
        convert(channel, input_->at(in, done), at(out, done), run);
  }

  void convert(uint64_t channel, const std::byte* in, std::byte* out, uint64_t count) {
    if (quantizes_) {
      elementwise::quantize(input_->dtype(), dtype_, scale_[channel], zero_of(channel), in, out, count);
    } else {
      elementwise::dequantize(input_->dtype(), scale_[channel], zero_of(channel), in, out, count);
    }
  }

  int64_t zero_of(uint64_t channel) const { return zero_.empty() ? 0 : zero_[channel]; }

  bool quantizes_;
  const std::vector<float>& scale_;
  const std::vector<int64_t>& zero_;
  bool one_zero_;
  int axis_;
  StepReaderRef input_;
  Scratch& scratch_;
};

class BinaryReader : public StepReader {
 public:
  BinaryReader(const Recipe& recipe, const step::Binary& step, StepReaderRef a, StepReaderRef b, Scratch& scratch)
      : StepReader(recipe), op_(step.op), a_(std::move(a)), b_(std::move(b)), scratch_(scratch) {}
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
  StepReaderRef a_, b_;
  Scratch& scratch_;
};

class SelectReader : public StepReader {
 public:
  SelectReader(const Recipe& recipe, StepReaderRef condition, StepReaderRef yes, StepReaderRef no, Scratch& scratch)
      : StepReader(recipe),
        condition_(std::move(condition)),
        yes_(std::move(yes)),
        no_(std::move(no)),
        scratch_(scratch) {}
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
  StepReaderRef condition_, yes_, no_;
  Scratch& scratch_;
};

}  // namespace

StepReaderRef make_step_reader(const Recipe& recipe, const step::Unary& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<UnaryReader>(recipe, step, from[0], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Cast&, const StepReaders& from, Scratch& scratch) {
  return std::make_shared<CastReader>(recipe, from[0], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Quantize& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<ScaleReader>(recipe, step, from[0], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Dequantize& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<ScaleReader>(recipe, step, from[0], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Binary& step, const StepReaders& from,
                               Scratch& scratch) {
  return std::make_shared<BinaryReader>(recipe, step, from[0], from[1], scratch);
}

StepReaderRef make_step_reader(const Recipe& recipe, const step::Select&, const StepReaders& from, Scratch& scratch) {
  return std::make_shared<SelectReader>(recipe, from[0], from[1], from[2], scratch);
}

}  // namespace lowtide::stream
