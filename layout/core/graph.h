// SPDX-License-Identifier: Apache-2.0
// The core graph: TFLite's builtins with their own semantics (NHWC convolutions, and so on), before it is written.
// Values and ops are held in vectors and named by integers; constants are recipes.
//
//     Value 0 (graph input) --+
//     Value 1 (constant) -----+--> Op 0 (CONV_2D) --> Value 3 --> Op 1 (TRANSPOSE, perm in Value 4) --> Value 5
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "layout/core/boxed.h"
#include "layout/core/kept_ranges.h"
#include "layout/core/model_notes.h"
#include "layout/core/options.h"
#include "layout/core/symbols.h"
#include "stream/file/budget.h"
#include "stream/recipe/recipe.h"

namespace lowtide::core {

using stream::Perm;
using stream::RecipeRef;

// TFLite's builtin operators by their schema codes (kinds.inc), and those that exist only between two passes.
enum class Kind : int16_t {
#define LOWTIDE_KIND(schema_name, enumerator, code) enumerator = code,
#include "layout/core/kinds.inc"
#undef LOWTIDE_KIND
  // The error function, elementwise. No kernel computes it. Patterns that contain it are fused; what is left is written
  // with builtins (legalise/expand_erf.h).
  kErf = 240,  // builtin codes are below
  kTensorList =
      241,  // tensors that ONNX has in a sequence (lower/sequence.cc); the lowering of its users takes them out
  // An image op in ONNX's axis order, while a graph is on its way to ONNX (raise/channels_first.h).
  kChannelsFirst = 242,
  kDead = -1,  // an op that a pass took out; tidy() removes it
};
std::string_view kind_name(Kind kind);  // "CONV_2D"

using ValueId = int32_t;
inline constexpr ValueId kAbsent = -1;  // an optional input that is not given
using OpId = int32_t;

// TFLite's affine quantization: real = scale * (q - zero_point). One entry, or one for each index of `axis`. An empty
// zero_point means zeros: weights have many channels.
struct Quantization {
  std::vector<float> scale;
  std::vector<int64_t> zero_point;
  int axis = 0;
  // The same numbers; the axis says nothing where there is one scale.
  bool operator==(const Quantization& other) const {
    return scale == other.scale && zero_point == other.zero_point && (scale.size() < 2 || axis == other.axis);
  }
};

struct Value {
  std::string name;  // ONNX's name, or empty: the writer then makes one from the producer
  DType dtype = DType::kUndefined;
  OpId producer = -1;  // -1: graph input or constant
  Shape shape;         // symbols allowed, unless constant
  RecipeRef constant;  // non-null: a constant
  // Elements of a small integer tensor where they are known or known symbolically (Shape -> Gather -> Concat chains).
  Boxed<std::vector<Dim>> contents;
  Boxed<Quantization> quantization;

  bool is_constant() const { return constant != nullptr; }
  int rank() const { return static_cast<int>(shape.size()); }
};

struct Op {
  Kind kind = Kind::kDead;
  std::vector<ValueId> inputs;  // kAbsent where optional and not given
  std::vector<ValueId> outputs;
  Options options;
  uint32_t origin = 0;       // index into Graph::origins: the ONNX node it came from
  bool stays_float = false;  // no pass draws it into integers (quantize/place_grids.h)
};

// The most elements that Value::contents has. Shape tensors are short; anything longer is data.
inline constexpr uint64_t kContentsElements = 4096;

inline bool has_input(const Op& op, size_t i) { return i < op.inputs.size() && op.inputs[i] != kAbsent; }
// Whether the op is control flow: its options name graphs of the model.
inline bool runs_graphs(const Op& op) { return std::holds_alternative<SubgraphOptions>(op.options); }
// Whether the types of the op's results follow from its inputs, by its row.
inline bool is_inferred(const Op& op) {
  return !runs_graphs(op) && op.kind != Kind::kTensorList && op.kind != Kind::kCustom &&
         !std::holds_alternative<StatefulOptions>(op.options);
}

// Of Graph::reductions_left, in elements as recipe::work() counts them: about a second of one core.
inline constexpr uint64_t kMostReductions = uint64_t{1} << 29;

class Graph {
 public:
  Graph(Symbols& graph_symbols, stream::Budget& graph_budget) : symbols(graph_symbols), budget(graph_budget) {}

  std::string name;
  // Deques: with many nodes these are the largest things in memory, and a vector that grows is there twice.
  std::deque<Value> values;
  std::deque<Op> ops;  // after tidy(): all used, and every value is made before its uses
  std::vector<ValueId> inputs, outputs;
  std::vector<std::string> input_names, output_names;  // ONNX's names: an output may be an input or a constant too
  std::vector<std::string> origins{""};                // labels of ONNX nodes
  std::vector<uint32_t> origin_operators{0};           // their operators: indices into Model::onnx_operators
  Symbols& symbols;
  // Dimensions that values of this graph have, by SHAPE: they are not negative, whatever their formula is.
  std::set<Dim> extents;
  // The open extents of the model's inputs, which its caller chooses, and which are taken to be at least 1 where that
  // makes formulas simpler. Shared with branches and bodies: what these get from outside may well be empty.
  std::shared_ptr<std::set<Dim>> chosen_extents = std::make_shared<std::set<Dim>>();
  // Those of axis 0, the batch. Shared in the same way.
  std::shared_ptr<std::set<Dim>> batches = std::make_shared<std::set<Dim>>();
  // Adds the extents of an input of the model to both.
  void add_chosen_extents(const Shape& input);
  // f16 and bf16, where the ONNX model has such values: constants may be rounded to them. Shared as the others are.
  std::shared_ptr<std::set<DType>> halves = std::make_shared<std::set<DType>>();
  stream::Budget& budget;  // for the early evaluation of small constants
  // What products of constants may still take in all, when they are folded. The main graph of a model gets some; a
  // small file could ask for hours otherwise.
  int64_t multiplications_left = 0;
  // What constants may still take that are folded to much fewer elements than they are made of; shared with branches
  // and bodies.
  std::shared_ptr<uint64_t> reductions_left = std::make_shared<uint64_t>(kMostReductions);

  // With --quantize, in the main graph.
  std::optional<KeptRanges> kept_ranges;
  // Whether the value has a name of ONNX's.
  bool has_onnx_name(ValueId id) const {
    return !at(id).name.empty() && !(kept_ranges && kept_ranges->made.contains(at(id).name));
  }

  // Pairs of origins: an op of the first was removed because an op of the second does its work. For reports.
  std::vector<std::pair<uint32_t, uint32_t>> fused_origins;
  void add_origin(std::string label, uint32_t onnx_operator) {
    origins.push_back(std::move(label));
    origin_operators.resize(origins.size() - 1);
    origin_operators.push_back(onnx_operator);
  }
  // 0, an empty name, where it is not known.
  uint32_t origin_operator(uint32_t origin) const {
    return origin < origin_operators.size() ? origin_operators[origin] : 0;
  }

  Value& at(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& at(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Op& op(OpId id) { return ops[static_cast<size_t>(id)]; }
  const Op& op(OpId id) const { return ops[static_cast<size_t>(id)]; }
  ValueId add_value(DType dtype, Shape shape, std::string value_name = {});
  ValueId add_constant(RecipeRef recipe, std::string value_name = {});
  ValueId add_ints(std::span<const int64_t> elements, DType dtype, Shape shape);
  OpId add_op(Op op);  // behind all others; tidy() brings it to its place

  // The elements of a small integer (or bool) value where all are known, symbols included; null otherwise. The result
  // stays valid until values are added.
  const std::vector<Dim>* contents(ValueId id);
  // The same when none is symbolic.
  std::optional<std::vector<int64_t>> ints(ValueId id);
  // The elements of a small numeric constant; nullopt when it is not constant or not small.
  std::optional<std::vector<double>> numbers(ValueId id);

  // Removes dead ops and those whose outputs are not used, and puts the rest in topological order (stable: ops keep
  // their order where they can). Renumbers producers. Throws Error(kMalformed) on a cycle.
  void tidy();
  // Puts ops[order[i]] at i, drops ops that are not in `order`, and renumbers producers. `order` must be topological
  // and have all ops that are used; the graph is tidy afterwards.
  void set_order(std::vector<uint32_t> order);
  // Whether tidy() would change nothing.
  bool is_tidy() const;
  // For each value: the ops that use it (an op twice when it uses it twice). Graph outputs are not listed.
  std::vector<std::vector<OpId>> users() const;
  // Replaces every use of `from`, as an op's input and as a graph output, by `to`.
  void replace_uses(ValueId from, ValueId to);
};

// Whether the value is a sequence that is known at conversion (Kind::kTensorList).
bool is_tensor_list(const Graph& graph, ValueId id);

// For a value that goes, whose elements `source` has in another order of axes, or with other axes of extent 1: the
// source gets its ONNX name if it has none.
void keep_name(Graph& graph, ValueId arranged, ValueId source);
// The same for an op that goes, if it does no more than that.
void keep_name(Graph& graph, const Op& op);
// Whether the op only gives the elements another order of axes, or more or fewer axes of extent 1.
bool only_arranges_axes(const Graph& graph, const Op& op);

// A model: graph 0 is the main one; IF and WHILE name others.
struct Model {
  explicit Model(stream::Budget& model_budget) : budget(model_budget) {}
  stream::Budget& budget;
  Symbols symbols;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::string description;
  std::vector<std::string> onnx_operators{""};  // the names that Graph::origin_operators refers to
  std::map<size_t, std::string> signatures;     // of graphs that have one; empty: graph 0 has serving_default
  // Recipes whose bytes are those of another one, which is stored for both (emit/equal_constants.h).
  std::unordered_map<const stream::Recipe*, const stream::Recipe*> stored_with;
  std::optional<ModelNotes> notes;  // nullopt: no metadata is written
};

}  // namespace lowtide::core
