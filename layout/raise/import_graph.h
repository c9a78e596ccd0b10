// SPDX-License-Identifier: Apache-2.0
// Makes a core graph of a subgraph of a TFLite file (import_tflite.h says what of). import_graph.cc has operators as
// such; import_custom.cc custom ones; import_calls.cc those that call subgraphs; import_states.cc variables;
// import_blocks.cc operators on blocks, import_written.cc others that are written with several ops;
// import_complex.cc complex numbers; import_dilation.cc convolutions that are written with blocks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/core/graph.h"
#include "layout/raise/import_options.h"
#include "layout/raise/import_values.h"
#include "layout/raise/raised_operator.h"
#include "layout/raise/stateful.h"
#include "layout/raise/unique_names.h"
#include "stream/error.h"
#include "stream/tflite/model.h"

namespace lowtide::layout {

using core::DType;
using core::kAbsent;
using core::Kind;
using core::Options;
using core::RecipeRef;
using core::Shape;
using core::TensorType;
using core::ValueId;

inline constexpr ValueId kNotMade = -2;

// Whether GraphImport::stateful takes a builtin.
bool is_stateful(int32_t code);

// A subgraph that is being imported: which value each of its tensors is.
struct SubgraphScope {
  const tfl::Subgraph& from;
  std::vector<ValueId> values;
  std::string label;  // in front of operators' numbers: empty, or "7." inside the composite 7
  int depth = 0;
  std::set<size_t> done = {};         // operators that one before them was imported with
  std::vector<int32_t> readers = {};  // by tensor (GraphImport::sole_reader); empty: not made yet
  std::vector<bool> changed = {};     // by tensor (GraphImport::never_changes); empty: not made yet
};

// How a subgraph uses a variable.
struct VariableUse {
  const tfl::Tensor* like = nullptr;  // has its type: the last that is read, or the first that is assigned
  bool is_read = false, is_assigned = false;
};
using VariableUses = std::map<std::string, VariableUse>;
// Variables by the tensor that refers to them.
using Handles = std::map<int32_t, std::string>;

// What all graphs of one model share.
struct ImportedModel {
  const tfl::Model& from;
  core::Model& out;
  const ImportOptions& options;
  std::vector<stream::Unsupported>& refused;
  // Open dimensions that an operator needs to have one size (OpenDimensionIs), found by an import before.
  const std::map<core::Dim, int64_t>& bound;
  std::vector<RaisedState> states = {};
  std::map<core::Dim, std::string> open_dimensions = {};  // of the model's inputs: "axis 0 of input 'x'"
  size_t called_operators = 0;                            // imported for operators that call subgraphs
  uint64_t made_bytes = 0;                                // of constants that are not in the file
  // Operators and reasons: an operator of a subgraph is refused once, however often that is called.
  std::set<std::pair<const tfl::Operator*, std::string>> refused_operators = {};
  std::map<std::string, std::pair<std::string, std::string>> variables = {};  // container and name, by both
  size_t searched = 0;  // steps of the search for the variables that called subgraphs use
  std::map<std::pair<uint32_t, Handles>, VariableUses> uses = {};  // what it found, by subgraph and passed handles
  std::map<const tfl::Tensor*, RecipeRef> dense = {};              // of sparse tensors
  std::set<const tfl::Tensor*> other_shapes = {};  // results whose shape in the file is not what the operator gives
  std::string first_other_shape = {};
};

// One graph of the result: the model's own, or one that IF or WHILE runs.
class GraphImport {
 public:
  explicit GraphImport(ImportedModel& shared)
      : shared_(shared),
        model_(shared.from),
        graph_(*shared.out.graphs.emplace_back(std::make_unique<core::Graph>(shared.out.symbols, shared.out.budget))),
        refused_(shared.refused) {}

  void run(uint32_t main, const tfl::Signature* signature);

  // What an input of a called graph is: with a constant it is that constant, and no input of the graph.
  struct Given {
    TensorType type;
    std::optional<core::Quantization> quantization;
    RecipeRef constant;
  };
  // What IF and WHILE pass to their graphs beside values: handles of variables, by the place among the inputs, and the
  // variables that the graphs use, whose values are inputs behind the others.
  struct PassedVariables {
    std::map<size_t, std::string> handles;
    std::vector<std::string> names;
    bool are_results = false;  // their values at the end are outputs behind the others
  };
  // A graph that IF or WHILE runs. `inputs` are its inputs that are no handles, then the variables.
  void run_called(uint32_t called, std::span<const Given> inputs, const PassedVariables& variables, std::string label,
                  int depth);

 private:
  // Throws Unsupported where what is passed to a subgraph does not fit its input.
  static void check_given(const Given& given, const tfl::Tensor& wanted, uint32_t called, bool has_rank = true);

  using Ports = std::vector<std::pair<std::string, uint32_t>>;

  // A tensor's own name, or that of the signature where it has none.
  static std::string port_name(const std::string& own, uint32_t tensor, const Ports* ports, const char* what, size_t i);

  void add_input(SubgraphScope& scope, int32_t index, const tfl::Signature* signature, size_t i);
  // By the file, with symbols for open dimensions, or by --shape.
  Shape input_shape(const tfl::Tensor& tensor, const std::string& name);

  ValueId value(SubgraphScope& scope, int32_t index);

  // Of a value that has its shape, which may be another than the file's: several scales must fit their axis.
  void set_scales(ValueId id, std::optional<core::Quantization> quantization);

  stream::Unsupported known_at_run_time(std::string_view what) const;

  // Of constants of the result that are not in the file: few bytes of a file could name very many.
  void count_made_bytes(uint64_t bytes);

  static std::string names(const SubgraphScope& scope, std::span<const int32_t> tensors);

  void operators(SubgraphScope& scope);

  // Of an operator that is refused: so that those behind it are judged too.
  void use_types_of_file(SubgraphScope& scope, const tfl::Operator& op);

  void operation(SubgraphScope& scope, const tfl::Operator& op, size_t index);
  void import_one(SubgraphScope& scope, const tfl::Operator& op, size_t index);

  // A result may have data in the file: onnx2tf writes shapes twice in this way. XNNPACK reads the data, LiteRT's own
  // kernels the result, so they must be known to be equal.
  void need_data_of_file(const SubgraphScope& scope, int32_t output);

  std::vector<ValueId> values(SubgraphScope& scope, std::span<const int32_t> tensors);

  bool is_list(ValueId id) const;

  // A list of axes, none of which counts from the end. What is computed at run time stays as it is.
  ValueId from_the_front(ValueId axes, size_t rank);

  // What RESHAPE takes, as LiteRT does: an input that is a list of i32, else the option, as old converters write it.
  void take_shape_option(const tfl::Operator& op, std::vector<ValueId>& inputs);

  int front(int axis, size_t rank, const char* what) const;

  Options options_of(Kind kind, const tfl::Operator& op, std::span<const ValueId> inputs, DType result);

  bool has_computed_rank(std::span<const ValueId> inputs, const tfl::Tensor& result) const;
  TensorType with_rank_of_file(ValueId data, const tfl::Tensor& result);

  // Whether EMBEDDING_LOOKUP gives the numbers of a table of integers as floats of 16 bits.
  bool gives_halves(ValueId table, const tfl::Tensor& result) const;

  // The result where all inputs are short constants (import_folded.cc). Null: it is not known.
  RecipeRef folded(Kind kind, std::span<const ValueId> inputs, const Options& options,
                   std::span<const TensorType> types);

  std::vector<TensorType> infer(Kind kind, std::span<const ValueId> inputs, const Options& options, size_t outputs);

  // The type of the file in place of what was inferred of real numbers.
  void check_type(const TensorType& type, const tfl::Tensor& tensor, bool is_quantized) const;
  // The shape of a result is what the operator gives, as in LiteRT. Where the file has another one, a note says so:
  // onnx2tf writes ones for sizes that it does not know.
  void compare_shape(const Shape& shape, const tfl::Tensor& tensor);

  // LiteRT counts the elements of a bias and takes any shape: litert-torch writes [1,1,1,C].
  void flatten_bias(Kind kind, std::span<ValueId> inputs);

  void add(SubgraphScope& scope, Kind kind, std::vector<ValueId> inputs, Options options,
           std::span<const int32_t> outputs);

  // An op between two operators of the file, on floats.
  ValueId add_float(Kind kind, std::vector<ValueId> inputs, Options options);

  // Builtins that are written with other ops (import_written.cc). False: it is none of them.
  bool written_with_others(SubgraphScope& scope, const tfl::Operator& op);
  using Inputs = std::vector<ValueId>;
  void add_n(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void bucketize(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void fake_quant(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void l2_normalization(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void l2_pool(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void matrix_diagonal(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void open_matrix_diagonal(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void quantize(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void rank(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void segment_sum(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void select(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void sparse_to_dense(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void squared_difference(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  void zeros_like(SubgraphScope& scope, const tfl::Operator& op, const Inputs& inputs);
  // Of no axes.
  ValueId number(double value, DType dtype);

  // Complex numbers (import_complex.cc): a tensor of them is one of floats with real and imaginary parts in a last
  // axis. False: the operator has no complex tensor. Looked at first: others would take such a tensor for floats.
  bool complex_numbers(SubgraphScope& scope, const tfl::Operator& op);
  void fourier_transform(SubgraphScope& scope, const tfl::Operator& op);
  void reshaped_complex(SubgraphScope& scope, const tfl::Operator& op);
  ValueId openly_reshaped(Kind kind, const tfl::Operator& op, ValueId x, const Inputs& inputs, const Shape& shape);
  void part_of_complex(SubgraphScope& scope, const tfl::Operator& op);

  // An op between two operators of the file that moves elements of a static shape.
  ValueId add_moved(Kind kind, ValueId x, ValueId parameter);
  ValueId add_moved(Kind kind, std::vector<ValueId> inputs, Options options);
  ValueId ints(std::span<const int64_t> list);

  // Data, block shape, and paddings or crops.
  struct Blocks {
    ValueId data, border_list;
    Shape shape;
    std::vector<int64_t> block, border;
    bool is_open;    // sizes or borders are known at run time only, and `border` says nothing
    int64_t places;  // in a block
  };
  Blocks blocks_of(SubgraphScope& scope, const tfl::Operator& op);

  // The extents as a list that the model computes.
  ValueId extents_of(ValueId x);
  // The borders as a list of one axis, of i32.
  ValueId computed_borders(const Blocks& from);
  void open_space_to_batch(SubgraphScope& scope, const tfl::Operator& op, const Blocks& from);
  void open_batch_to_space(SubgraphScope& scope, const tfl::Operator& op, const Blocks& from);
  // Pads, then divides each axis into blocks, whose places come in front of the batch.
  void space_to_batch(SubgraphScope& scope, const tfl::Operator& op);

  // The reverse, then crops.
  void batch_to_space(SubgraphScope& scope, const tfl::Operator& op);

  // The operator that reads a tensor; negative where there is none, or where there are several or it is an output.
  static int32_t sole_reader(SubgraphScope& scope, int32_t tensor);
  static bool is_read(SubgraphScope& scope, int32_t tensor);

  // SPACE_TO_BATCH_ND that begins a convolution with dilations, with the two operators behind it. False: it does not.
  bool dilated_convolution(SubgraphScope& scope, const tfl::Operator& op);

  // NON_MAX_SUPPRESSION_V4 and _V5 (suppression.cc).
  void suppression(SubgraphScope& scope, const tfl::Operator& op);

  // STRIDED_SLICE with an ellipsis, new axes, or fewer axes than the data: a slice of all axes, and EXPAND_DIMS.
  bool has_other_axes(SubgraphScope& scope, const tfl::Operator& op);
  void slice_with_other_axes(SubgraphScope& scope, const tfl::Operator& op);
  // In the place of ends that are counted from the begins, those that are counted from the first element.
  void take_offsets(const tfl::Operator& op, Inputs& inputs);
  ValueId list_of_axes(ValueId list, std::span<const int64_t> places, int64_t other);

  // Its decomposition in its place.
  void composite(SubgraphScope& scope, const tfl::Operator& op, size_t index);

  // ---- control flow ----

  uint32_t called_by(const SubgraphScope& scope, const tfl::Operator& op, const char* option) const;
  void check_ports(uint32_t called, size_t inputs, size_t outputs) const;
  std::vector<ValueId> all_inputs(SubgraphScope& scope, const tfl::Operator& op);
  Given given(ValueId id) const;
  // Another graph of the model; its index. The graphs that it calls stand behind it.
  size_t called_graph(SubgraphScope& scope, uint32_t called, std::span<const Given> inputs,
                      const PassedVariables& variables, size_t index);

  // What a subgraph uses, and those that it calls.
  const VariableUses& uses_in(uint32_t subgraph, const Handles& passed, int depth);
  VariableUses find_uses(uint32_t subgraph, Handles handles, int depth);
  // Of the search, which ends where it would take too long.
  void count_searched(size_t steps);
  // The handles among an operator's inputs from `first` on, by their place in the called subgraphs.
  std::map<size_t, std::string> passed_handles(const SubgraphScope& scope, const tfl::Operator& op, size_t first) const;
  VariableUses uses_of_called(uint32_t called, const std::map<size_t, std::string>& handles, int depth);
  // The value that a variable has now.
  ValueId variable_now(const std::string& name, const tfl::Tensor& like);
  const core::Graph& made_graph(size_t index) const;

  // Where two sizes of one axis differ, or may differ, it is known at run time only: it becomes a symbol of its own,
  // which is added to `open`. Sizes that are there already stay. Returns whether something changed.
  bool widen(Shape& shape, const Shape& other, std::set<core::Dim>& open);

  // The op itself, with results of these types: those of `outputs`, then others, which it returns.
  std::vector<ValueId> add_call(SubgraphScope& scope, Kind kind, std::vector<ValueId> inputs,
                                core::SubgraphOptions options, std::span<const Given> types,
                                std::span<const int32_t> outputs);

  static Given result_of(const core::Graph& graph, size_t i);

  // IF: the condition, then what both branches get. The op has the inputs that are not constants.
  void branches(SubgraphScope& scope, const tfl::Operator& op, size_t index);

  // WHILE: the condition's subgraph and the body's, with the same inputs. The op has the values that the body changes,
  // then those that it only reads; its results are the former.
  void loop(SubgraphScope& scope, const tfl::Operator& op, size_t index);

  // Condition and body. Sizes that a turn changes become unknown, and the body is imported again. nullopt: refused.
  std::optional<std::pair<size_t, size_t>> loop_graphs(SubgraphScope& scope, std::pair<uint32_t, uint32_t> called,
                                                       std::vector<Given>& arguments, std::span<const size_t> carried,
                                                       PassedVariables variables, size_t index);

  // Puts the inputs that a turn changes in front. Those that are constants are no inputs of the graph.
  static void order_ports(core::Graph& graph, std::span<const Given> arguments, std::span<const size_t> carried);
  static void keep_outputs(core::Graph& graph, std::span<const size_t> places);

  // ---- variables ----
  // A variable is an input of the result, with a default, and an output with the value that the run leaves in it.

  struct Variable {
    ValueId value = kNotMade;
    RecipeRef initial;
    bool is_assigned = false;
  };

  void handle(SubgraphScope& scope, const tfl::Operator& op);
  static std::string text_option(const tfl::Operator& op, std::string_view name);
  // Container and name of a variable as one name; those of several must not be equal.
  std::string variable_name(const tfl::Operator& op);
  // The variable that the operator's first input refers to.
  std::pair<const std::string, Variable>& variable(const SubgraphScope& scope, const tfl::Operator& op);

  void read_variable(SubgraphScope& scope, const tfl::Operator& op);

  // What LiteRT puts into a variable before the first run: the zero point of i8, and else zero bytes.
  RecipeRef zeros_of(const tfl::Tensor& tensor);
  // Whether a tensor that is a variable has this value in each run: onnx2tf writes first states of a GRU so.
  static bool never_changes(SubgraphScope& scope, int32_t variable);

  // An input that holds what the run before left, at first `initial` or zeros.
  ValueId add_state(const std::string& name, const tfl::Tensor& tensor, RecipeRef initial);

  void assign_variable(SubgraphScope& scope, const tfl::Operator& op);

  // A constant that is stored as a sparse tensor, as a dense one (import_sparse.cc). Nothing where it is dense.
  void take_sparse(SubgraphScope& scope, int32_t tensor);
  void densify(SubgraphScope& scope, const tfl::Operator& op);

  // The numbers of weights with a scale for each block (import_blocks.cc).
  ValueId value_in_blocks(SubgraphScope& scope, const tfl::Tensor& tensor);

  // ---- custom operators (import_custom.cc) ----

  void custom(SubgraphScope& scope, const tfl::Operator& op);
  // Those that have a form in ONNX. False: it is none of them.
  bool known_custom(SubgraphScope& scope, const tfl::Operator& op);
  void detection(SubgraphScope& scope, const tfl::Operator& op);
  void transpose_conv_with_bias(SubgraphScope& scope, const tfl::Operator& op);
  void pool_with_places(SubgraphScope& scope, const tfl::Operator& op);
  void unpooling(SubgraphScope& scope, const tfl::Operator& op);
  // As a node of a domain of its own.
  void foreign(SubgraphScope& scope, const tfl::Operator& op);
  // Adds the CUSTOM op, with values of these types as its results.
  std::vector<ValueId> add_custom(std::shared_ptr<const RaisedOperator> described, std::vector<ValueId> inputs,
                                  std::span<const TensorType> types);
  // Exactly this many f32 inputs and outputs, none of them absent or quantized.
  std::vector<ValueId> float_inputs(SubgraphScope& scope, const tfl::Operator& op, size_t inputs, size_t outputs);
  // f32 in the file too. The name and the value are the output's.
  void define_output(SubgraphScope& scope, const tfl::Operator& op, size_t output, ValueId made);

  // LSTM, RNN, SVDF and their sequences (import_stateful.cc).
  void stateful(SubgraphScope& scope, const tfl::Operator& op);
  // The variable that is an input of the operator, and of no other; `taken` is its value before the run.
  Variable& take_state(SubgraphScope& scope, const tfl::Operator& op, size_t input, ValueId& taken);
  // Adds the op. Its inputs `states` are those of `held`, which get their new values. The result is not quantized.
  ValueId add_stateful(std::shared_ptr<const StatefulOperator> made, std::vector<ValueId> inputs,
                       std::span<const size_t> states, std::span<Variable* const> held, const TensorType& result);

  // BIDIRECTIONAL_SEQUENCE_LSTM and _RNN: a sequence forwards, and one backwards (import_bidirectional.cc).
  void bidirectional_lstm(SubgraphScope& scope, const tfl::Operator& op);
  void bidirectional_rnn(SubgraphScope& scope, const tfl::Operator& op);
  struct Half;
  ValueId half_of_sequence(SubgraphScope& scope, const tfl::Operator& op, const Half& half);
  void join_halves(SubgraphScope& scope, const tfl::Operator& op, ValueId forwards, ValueId backwards);
  std::pair<bool, bool> further_data(SubgraphScope& scope, const tfl::Operator& op, size_t aux, size_t weights);

  // LSTM with four outputs and one matrix for all gates (import_basic_lstm.cc).
  void basic_lstm(SubgraphScope& scope, const tfl::Operator& op);

  // What runs once, before the first run: it may give variables their first values.
  void call_once(SubgraphScope& scope, const tfl::Operator& op, size_t index);

  ImportedModel& shared_;
  const tfl::Model& model_;
  core::Graph& graph_;
  std::vector<stream::Unsupported>& refused_;
  std::map<std::pair<const tfl::Subgraph*, int32_t>, std::string> handles_;  // tensors that refer to variables
  std::map<std::string, Variable> variables_;
  std::set<std::pair<const tfl::Subgraph*, int32_t>> taken_states_;  // tensors that an operator has its state in
  UniqueNames names_of_inputs_;                                      // in symbols
  bool is_called_ = false;                                           // by IF or WHILE
  bool is_initial_ = false;                                          // in what CALL_ONCE runs
};

}  // namespace lowtide::layout
