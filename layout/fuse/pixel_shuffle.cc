// SPDX-License-Identifier: Apache-2.0
// Replaces a pixel shuffle written as RESHAPE, TRANSPOSE, RESHAPE by DEPTH_TO_SPACE, and removes a GATHER that permutes
// channels, as in front of a DEPTH_TO_SPACE.
//
// DEPTH_TO_SPACE has the channel order (row, column, channel); exporters use any order, PyTorch and DUC (channel, row,
// column). The difference is a permutation of channels, which is folded into the weights of the convolutions that make
// them; where that is not possible, the ops stay.
#include <algorithm>
#include <array>

#include "layout/core/builtin.h"
#include "layout/core/kernel_limits.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using Indices = std::vector<int64_t>;
namespace recipe = stream::recipe;

// How many elementwise ops one behind the other are looked through: each is a call inside the call for the next.
constexpr int kMostLevels = 64;

// Permutes the last axis of a value by changing its producer: the new channel k is the old channel indices[k].
class ChannelPermutation {
 public:
  ChannelPermutation(Rewriter& rewriter, const Indices& indices) : rewriter_(rewriter), indices_(indices) {}

  bool possible(ValueId id, int level = 0) const {
    if (rewriter_.is_foldable(id)) return rewriter_.value(id).shape.back() == static_cast<core::Dim>(indices_.size());
    const OpId producer = rewriter_.producer(id);
    if (producer < 0 || rewriter_.uses(id) != 1 || rewriter_.value(id).quantization) return false;
    const Op& op = rewriter_.op(producer);
    if (const core::Weights* where = weights_of(op)) {
      if (!rewriter_.is_foldable(op.inputs[where->weights]) || rewriter_.uses(op.inputs[where->weights]) != 1)
        return false;
      if (!has_bias(op, *where)) return true;
      return rewriter_.is_foldable(op.inputs[where->bias]) && rewriter_.value(op.inputs[where->bias]).rank() == 1;
    }
    if (!core::builtin(op.kind).is_elementwise() || level == kMostLevels) return false;
    return std::all_of(op.inputs.begin(), op.inputs.end(),
                       [&](ValueId in) { return !spans_channels(in) || possible(in, level + 1); });
  }

  void apply(ValueId id) {
    const OpId producer = rewriter_.producer(id);
    if (const core::Weights* where = weights_of(rewriter_.op(producer))) {
      permute_constant(producer, where->weights, where->output_axis);
      if (has_bias(rewriter_.op(producer), *where)) permute_constant(producer, where->bias, 0);
      return;
    }
    for (size_t slot = 0; slot < rewriter_.op(producer).inputs.size(); ++slot) {
      const ValueId in = rewriter_.op(producer).inputs[slot];
      if (!spans_channels(in)) continue;
      if (rewriter_.is_foldable(in))
        permute_constant(producer, slot, rewriter_.value(in).rank() - 1);
      else
        apply(in);
    }
  }

 private:
  // Null where the output channels cannot be permuted: those of a depthwise convolution are the channels of its input,
  // and those of a grouped convolution cannot leave their group.
  const core::Weights* weights_of(const Op& op) const {
    const core::Weights* where = core::weights_of(op.kind);
    if (!where || where->input_axis == core::kNone) return nullptr;
    const core::Shape& shape = rewriter_.value(op.inputs[where->weights]).shape;
    const core::Dim outputs = shape[static_cast<size_t>(*where->output_axis)];
    const core::Dim inputs = shape[static_cast<size_t>(*where->input_axis)];
    if (outputs != static_cast<core::Dim>(indices_.size())) return nullptr;
    return inputs == rewriter_.value(op.inputs[where->data]).shape.back() ? where : nullptr;
  }
  static bool has_bias(const Op& op, const core::Weights& where) { return core::has_input(op, where.bias); }
  // An extent that is known at run time only may be that of all channels.
  bool spans_channels(ValueId in) const {
    if (in == core::kAbsent || rewriter_.value(in).rank() == 0) return false;
    return rewriter_.value(in).shape.back() != 1;
  }
  void permute_constant(OpId id, size_t slot, int axis) {
    const core::Value old = rewriter_.value(rewriter_.op(id).inputs[slot]);
    const ValueId made = rewriter_.graph.add_constant(recipe::gather(old.constant, axis, indices_), old.name);
    rewriter_.note_new_ops();
    rewriter_.set_input(id, slot, made);
  }

  Rewriter& rewriter_;
  const Indices& indices_;
};

struct Shuffle {
  ValueId source;
  int64_t block;
  Indices channels;  // by channel of DEPTH_TO_SPACE's input: the old channel
};

// RESHAPE [n,h,w,K] -> [n,h,w,a,b,c] -> TRANSPOSE (n,h,i,w,j,channel) -> RESHAPE [n,h*r,w*r,C].
std::optional<Shuffle> match_shuffle(Rewriter& rewriter, OpId id) {
  const Op& outer = rewriter.op(id);
  const OpId turn = rewriter.sole_producer(outer.inputs[0], Kind::kTranspose);
  if (turn < 0) return std::nullopt;
  const OpId inner = rewriter.sole_producer(rewriter.op(turn).inputs[0], Kind::kReshape);
  auto perm = rewriter.graph.ints(rewriter.op(turn).inputs[1]);
  if (inner < 0 || !perm || perm->size() != 6) return std::nullopt;
  const ValueId source = rewriter.op(inner).inputs[0];
  const core::Shape &in = rewriter.value(source).shape, &apart = rewriter.value(rewriter.op(inner).outputs[0]).shape,
                    &out = rewriter.value(outer.outputs[0]).shape;
  if (!core::kernel_takes(Kind::kDepthToSpace, rewriter.value(source).dtype)) return std::nullopt;
  if (in.size() != 4 || out.size() != 4 || !std::equal(in.begin(), in.begin() + 3, apart.begin())) return std::nullopt;
  const Indices& p = *perm;
  if (p[0] != 0 || p[1] != 1 || p[3] != 2) return std::nullopt;
  const auto row = static_cast<size_t>(p[2]), column = static_cast<size_t>(p[4]), channel = static_cast<size_t>(p[5]);
  if (row < 3 || column < 3 || channel < 3 || !stream::is_static({apart.begin() + 1, apart.end()})) return std::nullopt;
  const int64_t block = apart[row], channels = apart[channel];
  if (block < 2 || apart[column] != block) return std::nullopt;
  // A channel is an element of a list, and in[3] may be known at run time only.
  if (!stream::has_at_most(stream::kSmallElements, std::span(apart).subspan(3))) return std::nullopt;
  if (out[0] != in[0] || out[1] != in[1] * block || out[2] != in[2] * block || out[3] != channels) return std::nullopt;
  Indices strides(6, 1);
  for (size_t axis = 5; axis-- > 3;) strides[axis] = strides[axis + 1] * apart[axis + 1];
  Shuffle shuffle{source, block, {}};
  for (int64_t i = 0; i < block; ++i)
    for (int64_t j = 0; j < block; ++j)
      for (int64_t c = 0; c < channels; ++c)
        shuffle.channels.push_back(i * strides[row] + j * strides[column] + c * strides[channel]);
  return shuffle;
}

bool pixel_shuffle(Rewriter& rewriter, OpId id) {
  auto shuffle = match_shuffle(rewriter, id);
  if (!shuffle) return false;
  const bool in_order = std::is_sorted(shuffle->channels.begin(), shuffle->channels.end());
  if (!in_order) {
    ChannelPermutation permutation(rewriter, shuffle->channels);
    if (rewriter.value(shuffle->source).is_constant() || !permutation.possible(shuffle->source)) return false;
    permutation.apply(shuffle->source);
  }
  const Op outer = rewriter.op(id);
  rewriter.b.origin = outer.origin;
  const Val made = rewriter.b.depth_to_space({shuffle->source}, static_cast<int>(shuffle->block));
  rewriter.note_new_ops();
  rewriter.replace(outer.outputs[0], made.id);
  return true;
}

// The indices of a GATHER that has each element of the last axis once; nullopt for other ones.
std::optional<Indices> permuted_channels(Rewriter& rewriter, const Op& op) {
  const core::Shape& in = rewriter.value(op.inputs[0]).shape;
  const auto& options = std::get<core::GatherOptions>(op.options);
  if (in.empty() || options.batch_dims != 0 || options.axis + 1 != static_cast<int>(in.size())) return std::nullopt;
  if (rewriter.value(op.inputs[1]).rank() != 1) return std::nullopt;
  auto indices = rewriter.graph.ints(op.inputs[1]);
  if (!indices || static_cast<core::Dim>(indices->size()) != in.back()) return std::nullopt;
  Indices sorted = *indices;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i)) return std::nullopt;
  return indices;
}

// The permutation of DepthToSpace's mode CRD, for example, in front of a DEPTH_TO_SPACE.
bool permute_producer(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const ValueId source = op.inputs[0], result = op.outputs[0];
  const auto indices = permuted_channels(rewriter, op);
  if (!indices || rewriter.value(source).is_constant()) return false;
  ChannelPermutation permutation(rewriter, *indices);
  if (!permutation.possible(source)) return false;
  permutation.apply(source);
  rewriter.replace(result, source);
  return true;
}

constexpr std::array kPixelShuffleRules = {FuseRule{Kind::kReshape, pixel_shuffle},
                                           FuseRule{Kind::kGather, permute_producer}};

}  // namespace

std::span<const FuseRule> pixel_shuffle_rules() { return kPixelShuffleRules; }

}  // namespace lowtide::layout
