// SPDX-License-Identifier: Apache-2.0
// What is known of each TFLite builtin: one row for each kind, written in ops/<family>.cc and joined in builtin.cc. How
// a builtin is written to a file is in emit/builtins/; the types and ranks that its kernel takes are measured
// (kernel_limits.h).
//
// A row leaves nothing out: its fields have no defaults. Families have functions that make the rows of alike builtins.
// Source of the semantics, where a field names no other: LiteRT's tflite/kernels/<builtin>.cc.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <span>
#include <vector>

#include "layout/core/graph.h"
#include "layout/core/required.h"

namespace lowtide::core {

class DimRequirements;

// An op and its inputs as the functions of a row see them, before or after the op is added to the graph.
struct OpView {
  Graph& graph;
  Kind kind;
  std::span<const ValueId> inputs;
  const Options& options;
  int output_count = 1;                     // for ops with a variable number (SPLIT, UNPACK)
  DimRequirements* requirements = nullptr;  // given: collects what the op requires of dimensions known only at run time

  bool has(size_t i) const { return i < inputs.size() && inputs[i] != kAbsent; }
  const Value& in(size_t i) const { return graph.at(inputs[i]); }
  const Shape& shape(size_t i) const { return in(i).shape; }
  DType dtype(size_t i) const { return in(i).dtype; }
  int rank(size_t i) const { return in(i).rank(); }
  const RecipeRef& recipe(size_t i) const { return in(i).constant; }
  // Known integer elements of a small input; ints() only when none is symbolic.
  const std::vector<Dim>* contents(size_t i) const { return graph.contents(inputs[i]); }
  std::optional<std::vector<int64_t>> ints(size_t i) const { return graph.ints(inputs[i]); }
  template <typename T>
  const T& get() const {
    return std::get<T>(options);
  }
  Symbols& symbols() const { return graph.symbols; }
};

struct TensorType {
  DType dtype = DType::kUndefined;
  Shape shape;
  std::optional<std::vector<Dim>> contents;  // see Value::contents
};

// Dtype, shape and, for small integer tensors, contents of the outputs. Dimensions that the op itself decides at run
// time (NonZero) are fresh symbols. Throws Error(kMalformed) when the inputs do not fit the op.
using Infer = std::vector<TensorType> (*)(const OpView&);

// What the row of the op infers. Contents are dropped that are longer than contents may be, or that the result's type
// does not hold: the kernel's numbers wrap there.
std::vector<TensorType> inferred(const OpView& op);

// The outputs as recipes, given that all inputs are constants (absent ones aside); empty when no recipe says it. Never
// reads more than small constants.
using Fold = std::vector<RecipeRef> (*)(const OpView&);
inline constexpr Fold kNotFolded = nullptr;

// How an op moves as a whole when one of its slots is stored permuted: for each slot the permutation of what it holds
// before the move (empty = stays). A permutation longer than an input's rank means: lift the input with leading 1s,
// then permute.
struct Movement {
  std::vector<Perm> inputs, outputs;
};
struct Slot {
  bool output = false;
  size_t index = 0;
};
// Given that `slot` is permuted by `perm`, how must the other slots move so that the op stays the same up to its
// options and its small constant inputs (axes, paddings)? nullopt: it cannot. `outputs` are the op's output values.
using Commute = std::optional<Movement> (*)(const OpView&, std::span<const ValueId> outputs, Slot slot,
                                            const Perm& perm);
inline constexpr Commute kFixed = nullptr;  // refuses every permutation

// Rewrites options and constant inputs (axis, paddings, begin/size) for a movement that Commute returned. Not called
// for data inputs: the layout pass exchanges those. New constants are added to the graph; shared ones are never changed
// in place.
using Rewrite = void (*)(Graph&, Op&, const Movement&);
inline constexpr Rewrite kNothingToRewrite = nullptr;

// Rewrites an op with as few axes as it can have, for kernels that take fewer than the op has (merge_axes.h). False:
// not possible for this op.
struct AxisMerger;
using MergeAxes = bool (*)(AxisMerger&);
inline constexpr MergeAxes kNotMerged = nullptr;

// What an operand is to the kernel.
enum class Role : uint8_t {
  kData,       // the kernel is chosen by its dtype, and all data are of one dtype
  kIndices,    // axes, shapes, counts, positions: i32 or i64
  kIndices32,  // the same, i32 only
  kOther,      // of a dtype of its own: a condition, a thing of another element type
};

// The roles of an op's inputs or outputs, in their order.
class Roles {
 public:
  template <std::same_as<Role>... Rest>
  constexpr Roles(Role first, Rest... rest) : listed_{first, rest...}, behind_(Role::kOther) {}
  // Of any number of operands.
  static constexpr Roles all(Role role) {
    Roles roles(role, role, role, role, role);
    roles.behind_ = role;
    return roles;
  }
  constexpr Role operator[](size_t i) const { return i < listed_.size() ? listed_[i] : behind_; }

 private:
  static constexpr size_t kMost = 5;
  std::array<Role, kMost> listed_;
  Role behind_;
};

// What the kernel does with the numbers in its data. It tells in which other dtype the op may be computed when no
// kernel takes the data's own (legalise/element_types.h).
enum class Numbers : uint8_t {
  kMoved,     // only moves elements: any dtype of the same width, or a wider one, does as well
  kSignFree,  // the same bits for signed and unsigned integers: sums, products, equality modulo 2^n
  kOrdered,   // only compares: any dtype that keeps the order of the numbers does as well
  kComputed,  // none of these
};

// Where LiteRT puts the first result. Source: tflite/arena_planner.cc, InputTensorCanBeShared and
// IdentifyInPlaceTensors. In case of doubt kMayOverwrite, which costs a copy at worst (legalise/aliases.h).
enum class Memory : uint8_t {
  kOwn,           // memory that no input has
  kMayOverwrite,  // may be written over an input that no later op reads
  kSharesInput,   // the memory of input 0: the bytes stay as they are
};

// The rank that kernel_limits() is about.
enum class LimitedRank : uint8_t {
  kData,        // the highest among the data inputs
  kFirstInput,  // that of input 0
  kResult,      // that of output 0
};

// How a kernel reads weights that are stored in eight or four bits. Measured with ai-edge-litert 2.3.0;
// docs/decisions/smaller-weights.md has the figures.
enum class SmallWeights : uint8_t {
  kEight,         // as they are, in eight bits: a hybrid kernel
  kEightAndFour,  // as they are, in eight or four bits
  kDequantized,   // not worth it or wrong: as floats, from a DEQUANTIZE
};

// What the integer kernel of an op does with the scales and zero points of its data. Which element types it takes is
// measured (KernelLimits::quantized and one_scale). Source: LiteRT's kernels; docs/decisions/integer-kernels.md says
// why some kernels are not used.
enum class Integers : uint8_t {
  kNone,       // no integer kernel, or one that is not right in every mode of LiteRT
  kChosen,     // elements of the result are elements of the data: any one scale and zero point for all, and exact
  kOneScale,   // computes, on one scale and zero point for all
  kRescaled,   // operands and result have scales and zero points of their own
  kRescaled8,  // the same, but right for types of 8 bits only
  kFixed8,     // 8 bits; the result's scale and zero point are fixed (quantize/conditions.h)
};

// An axis or input that an op does not have.
inline constexpr int kNone = -1;

// Where an op with trained weights has them. The channels of its result are the last axis.
struct Weights {
  Required<size_t> data, weights, bias;  // inputs; the bias may be absent
  Required<int> output_axis;             // the axis of the weights that counts the result's channels
  Required<int> input_axis;      // the axis that counts the data's (a group's); kNone: each channel is filtered alone
  Required<bool> requires_bias;  // the kernel refuses to run, or crashes, without (docs/kernels.md)
  Required<SmallWeights> small;
};
inline constexpr const Weights* kNoWeights = nullptr;

// The fused activation in the options of a kernel that computes one. CONCATENATION and CONV_3D_TRANSPOSE have the
// field, but their kernels refuse it.
struct ActivationField {
  Activation (*get)(const Options&);
  void (*set)(Options&, Activation);
};
template <typename T>
inline constexpr ActivationField kActivationIn = {
    [](const Options& options) { return std::get<T>(options).activation; },
    [](Options& options, Activation activation) { std::get<T>(options).activation = activation; }};
inline constexpr const ActivationField* kNoActivation = nullptr;

struct Builtin {
  Required<Kind> kind;
  Required<Infer> infer;
  Required<Fold> fold;
  Required<Commute> commute;
  Required<Rewrite> rewrite;
  Required<MergeAxes> merge_axes;
  Roles inputs, outputs;
  Required<LimitedRank> limited_rank;
  Required<Numbers> numbers;
  Required<Memory> memory;
  Required<bool> broadcasts;        // the operands broadcast by numpy's rule, in both directions
  Required<bool> keeps_infinities;  // an infinity in the data is one in the result, or is dropped
  Required<Integers> integers;
  Required<const Weights*> weights;
  Required<const ActivationField*> activation;
  // The input of which the kernel reads no byte behind its end: weights that are packed before use, tables whose rows
  // are copied. XNNPACK may read up to 16 bytes behind other inputs. kNone: no input is known to be read so.
  Required<int> exact_input;

  // Each element of the result depends on the elements at the same place (broadcast) and on nothing else.
  bool is_elementwise() const;
};

// Throws Error(kInternal) when the kind has no row: it cannot be built.
const Builtin& builtin(Kind kind);
// All rows, in the order of their families.
std::span<const Builtin* const> all_builtins();

// Where ops of this kind have their weights; null for ops without.
inline const Weights* weights_of(Kind kind) { return builtin(kind).weights; }

// The activation that is fused into the op: kNone for kernels that compute none.
Activation fused_activation(const Op& op);
// Requires a kernel that computes one.
void fuse_activation(Op& op, Activation activation);

// ---- for rows: movements that many ops share ----

// Elementwise with numpy broadcasting: every input and output moves alike; inputs of lower rank are lifted, scalars
// (one element) stay. Refuses a slot of lower rank than the output.
std::optional<Movement> follow_elementwise(const OpView&, std::span<const ValueId> outputs, Slot slot,
                                           const Perm& perm);
// Only input 0 and output 0, of equal rank, move alike; all other inputs stay (rewrite remaps their axes).
std::optional<Movement> follow_first(const OpView&, std::span<const ValueId> outputs, Slot slot, const Perm& perm);
// The same for ops that work along the last axis, which has to stay the last.
std::optional<Movement> follow_but_last(const OpView&, std::span<const ValueId> outputs, Slot slot, const Perm& perm);
// All inputs and all outputs are data of one rank and move alike.
std::optional<Movement> follow_all(const OpView&, std::span<const ValueId> outputs, Slot slot, const Perm& perm);

// Where axis `axis` of the unpermuted tensor is found after `perm`.
int moved_axis(int axis, const Perm& perm);

// The rows by family.
std::span<const Builtin> elementwise_builtins();  // ops/elementwise.cc: arithmetic, comparisons, SELECT_V2, CAST
std::span<const Builtin> reduce_builtins();       // ops/reduce.cc: sums, ARG_MAX, CUMSUM, SOFTMAX, TOPK_V2
std::span<const Builtin> shape_builtins();        // ops/shape.cc: RESHAPE, SQUEEZE, SHAPE, TRANSPOSE, PACK, BITCAST
std::span<const Builtin> concat_builtins();       // ops/concat.cc: CONCATENATION, SPLIT
std::span<const Builtin> slice_builtins();        // ops/slice.cc: SLICE, STRIDED_SLICE, REVERSE_V2
std::span<const Builtin> pad_builtins();          // ops/pad.cc: PAD, MIRROR_PAD
std::span<const Builtin> gather_builtins();       // ops/gather.cc: GATHER, SCATTER_ND, ONE_HOT, WHERE, UNIQUE
std::span<const Builtin> fill_builtins();         // ops/fill.cc: FILL, RANGE, TILE, BROADCAST_TO
std::span<const Builtin> conv_builtins();         // ops/conv.cc: convolutions, pools, resizes, blocks
std::span<const Builtin> matmul_builtins();       // ops/matmul.cc: FULLY_CONNECTED, BATCH_MATMUL
std::span<const Builtin> control_builtins();      // ops/control.cc: IF, WHILE, lists of tensors
std::span<const Builtin> custom_builtins();       // ops/custom.cc: CUSTOM
std::span<const Builtin> stateful_builtins();     // ops/stateful.cc: LSTM, RNN, SVDF

}  // namespace lowtide::core
