// SPDX-License-Identifier: Apache-2.0
#include "layout/divide_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "layout/lower/node_order.h"
#include "layout/lower/values_used.h"
#include "layout/marked_nodes.h"
#include "layout/partition/by_memory.h"
#include "layout/partition/cheapest.h"
#include "layout/partition/fewer_parts.h"
#include "layout/partition/fewest.h"
#include "layout/piece_weights.h"
#include "layout/sub_model.h"
#include "layout/value_names.h"

namespace lowtide::layout {
namespace {

using onnx::ValueInfo;
using stream::Code;
using stream::Error;
using Prefer = DivideOptions::Prefer;

constexpr size_t kNoPiece = SIZE_MAX;
// Measured: a call of ONNX Runtime and one of LiteRT, with their copies (picoseconds).
constexpr uint64_t kPerSwitch = 20'000'000, kPerByte = 200;
// Of all minimum cuts together: k pieces take k - 1 variables a unit, for both first runtimes. Some seconds.
constexpr size_t kMostVariables = 70000;
// What cheapest_division may add up: 2^50 picoseconds.
constexpr double kMostCosts = 0x1p50;

[[noreturn]] void refuse_end(const std::string& name, bool is_output, const onnx::Model& model) {
  throw Error(
      Code::kUnsupported,
      fmt::format("the {} '{}' is no tensor, and pieces take and give tensors only; lowtide extract {} VALUE "
                  "makes a model that {} at a tensor",
                  is_output ? "output" : "input", name, is_output ? "--to" : "--from", is_output ? "ends" : "begins"),
      {.file = model.path});
}

class Divider {
 public:
  Divider(onnx::Model&& model, const DivideOptions& options, stream::Budget& budget)
      : options_(options), budget_(budget) {
    check_ends(model);
    types_ = find_types(model, options.types, budget);
    out_.model = std::move(model);
    out_.undeclared = types_.undeclared;
    reasons_ = types_.reasons;
    if (options.takes_onnx) reasons_.assign(reasons_.size(), "");
    for (size_t i = 0; i < graph().nodes.size(); ++i) {
      const onnx::Node& node = graph().nodes[i];
      out_.nodes.push_back({node.label(), full_name(node), kNoPiece, ""});
      if (!reasons_[i].empty() || !options.refuse) continue;
      reasons_[i] = options.refuse(node, types_);
    }
    is_known_.assign(graph().nodes.size(), false);
    declare_types();
    put_integers();
    for (size_t i = 0; i < graph().nodes.size(); ++i)
      for (const std::string& name : graph().nodes[i].outputs)
        if (!name.empty()) maker_.emplace(name, i);
    weights_.emplace(out_.model);
    for (const ValueInfo& info : graph().inputs)
      if (!weights_->of_value(info.name)) model_inputs_.insert(info.name);
  }

  DividedModel divide() {
    left_out_.assign(graph().nodes.size(), "");
    do {
      do {
        units_ =
            make_units(out_.model, types_, reasons_, {.penalty = options_.penalty}, options_.measured, options_.groups);
        choose();
      } while (!make_pieces() || !all_convert());
    } while (!are_few_pieces());
    if (std::all_of(out_.pieces.begin(), out_.pieces.end(), [](const auto& piece) { return piece.outputs.empty(); }))
      throw Error(Code::kUnsupported, "no output of the model is computed: there is nothing to divide",
                  {.file = out_.model.path});
    tell();
    return std::move(out_);
  }

 private:
  onnx::Graph& graph() { return out_.model.graph; }

  static void check_ends(const onnx::Model& model) {
    auto check = [&](const std::vector<ValueInfo>& ends, bool is_output) {
      for (const ValueInfo& info : ends)
        if (info.type != ValueInfo::Type::kNone && info.type != ValueInfo::Type::kTensor)
          refuse_end(info.name, is_output, model);
    };
    check(model.graph.inputs, false);
    check(model.graph.outputs, true);
  }

  // What is known of the types is written into the model: pieces take them from there.
  void declare_types() {
    std::unordered_set<std::string> outputs;
    for (ValueInfo& info : graph().outputs) {
      outputs.insert(info.name);
      if (const auto type = types_.values.find(info.name); type != types_.values.end() && !info.has_shape) {
        info = type->second;
        info.place = {};
      }
    }
    std::vector<ValueInfo> kept;
    for (ValueInfo& info : graph().value_info)
      if (!types_.values.contains(info.name)) kept.push_back(std::move(info));
    for (const onnx::Node& node : graph().nodes)
      for (const std::string& name : node.outputs)
        if (const auto type = types_.values.find(name); type != types_.values.end() && !outputs.contains(name)) {
          kept.push_back(type->second);
          kept.back().place = {};
        }
    graph().value_info = std::move(kept);
  }

  // Integers that are known become initializers: what uses them needs no piece that computes them.
  void put_integers() {
    std::set<std::string> taken;
    for (const ValueInfo& info : graph().outputs) taken.insert(info.name);
    ValueNames names = all_value_names(graph());
    for (size_t i = 0; i < graph().nodes.size(); ++i) {
      onnx::Node& node = graph().nodes[i];
      for (std::string& name : node.outputs) {
        const auto known = types_.integers.find(name);
        if (name.empty() || known == types_.integers.end() || taken.contains(name)) continue;
        onnx::Tensor tensor{name, types_.values.at(name).dtype, {}, known->second, {}};
        for (const onnx::Dimension& dim : types_.values.at(name).dims) tensor.dims.push_back(dim.value);
        graph().initializers.push_back(std::move(tensor));
        const std::string other = new_value_name(name + "_computed", names);
        types_.values.emplace(other, types_.values.at(name));
        name = other;
        node.place = {};
        is_known_[i] = true;
      }
    }
  }

  // ---- Division ----

  static uint64_t total(const UnitGraph& graph, const Division& division, PieceRuntime runtime) {
    uint64_t work = 0;
    for (size_t unit = 0; unit < graph.units.size(); ++unit)
      if (division.runtime(division.piece[unit]) == runtime) work += graph.units[unit].in(PieceRuntime::kOnnx);
    return work;
  }

  void choose() {
    UnitGraph graph = units_.graph;
    division_ = {};
    out_.certificate.clear();
    out_.fewest = 0;
    out_.is_cheapest = true;
    if (graph.units.empty()) return;
    const FewestPieces fewest = fewest_pieces(graph);
    out_.fewest = fewest.division.pieces;
    fewest_in_target_ = fewest.division.pieces_in_target();
    for (const std::vector<size_t>& path : fewest.paths) {
      out_.certificate.emplace_back();
      for (const size_t unit : path) out_.certificate.back().push_back(out_.nodes[units_.nodes[unit].front()].name);
    }
    PieceLimits limits = piece_limits();
    limits.pieces = std::min(limits.pieces, graph.units.size() + 1);
    if (options_.prefer == Prefer::kCheap) {
      for (size_t unit = 0; unit < graph.units.size(); ++unit)
        if (is_left_out(unit)) graph.units[unit].work[static_cast<size_t>(PieceRuntime::kTarget)] = kCannotRun;
      division_ = division_of_fewer_parts(graph, {kPerSwitch, kPerByte}, limits);
      improve(graph, {kPerSwitch, kPerByte}, 1, limits);
      out_.is_cheapest = out_.is_cheapest && times_left_out_ == 0;
      return;
    }
    division_ = fewest.division;
    for (Unit& unit : graph.units)
      if (unit.in_target()) unit.work[static_cast<size_t>(PieceRuntime::kOnnx)] = kCannotRun;
    const bool is_fewest = options_.prefer == Prefer::kFewest;
    if (is_fewest) limits.pieces = out_.fewest;
    improve(graph, {is_fewest ? 0 : kPerSwitch, kPerByte}, out_.fewest, limits);
  }

  bool is_left_out(size_t unit) const {
    const std::vector<size_t>& nodes = units_.nodes[unit];
    return std::any_of(nodes.begin(), nodes.end(), [&](size_t node) { return !left_out_[node].empty(); });
  }

  PieceLimits piece_limits() const {
    PieceLimits out;
    if (options_.max_pieces > 0) out.pieces = options_.max_pieces;
    if (options_.max_target_pieces > 0) out.in_target = options_.max_target_pieces;
    return out;
  }

  // All that a division into so many pieces may cost. As a double: absurd shapes must not overflow it.
  static double all_costs(const UnitGraph& graph, const DivisionCosts& costs, size_t pieces) {
    double sum = 0, bytes = 0;
    for (const Unit& unit : graph.units)
      for (const uint64_t work : unit.work) sum += work == kCannotRun ? 0 : static_cast<double>(work);
    for (const SeamValue& value : graph.values) bytes += static_cast<double>(value.bytes);
    const double border = bytes * static_cast<double>(costs.per_byte) + static_cast<double>(costs.per_switch);
    return sum + border * static_cast<double>(pieces);
  }

  // By the exact method, as far as its minimum cuts are small enough, and its sums: it is not tried with fewer pieces
  // than the graph needs, where each order that a cut has to break adds to its sum.
  void improve(const UnitGraph& graph, const DivisionCosts& costs, size_t least_pieces, const PieceLimits& limits) {
    const uint64_t cost = cost_of(graph, division_, costs);
    uint64_t least = 0;
    for (const Unit& unit : graph.units) least += std::min(unit.work[0], unit.work[1]);
    size_t most = limits.most();
    // More pieces than these cost more for their borders alone.
    if (costs.per_switch > 0) most = std::min<size_t>(most, (cost - least) / costs.per_switch + 1);
    size_t tried = 1;
    while (tried < most && (tried + 1) * tried * graph.units.size() <= kMostVariables) ++tried;
    out_.is_cheapest = tried == most;
    if (tried < std::max<size_t>(least_pieces, 2)) return;
    if (all_costs(graph, costs, tried) >= kMostCosts) {
      out_.is_cheapest = false;
      return;
    }
    Division cheapest = cheapest_division(graph, costs, {tried, limits.in_target});
    if (cheapest.pieces > 0 && cost_of(graph, cheapest, costs) < cost) division_ = std::move(cheapest);
  }

  // ---- Pieces ----

  // False: some units are too large for the target. They have a reason to be in ONNX then.
  bool make_pieces() {
    out_.pieces.clear();
    const std::vector<size_t> order = unit_order();
    std::vector<size_t> begins = {0};
    if (options_.max_piece > 0 || options_.max_target_piece > 0) {
      stream::Budget::Charge listed;
      const std::vector<OrderedUnit> places = in_memory(order, listed);
      if (refuse_large(order, places)) return false;
      std::vector<size_t> cuts = cut_by_memory(places);
      if (!are_allowed(cuts, order)) cuts = cut_by_memory(places, FewestOf::kPieces);
      begins.insert(begins.end(), cuts.begin(), cuts.end());
    } else {
      for (size_t place = 1; place < order.size(); ++place)
        if (begins_piece(place, order)) begins.push_back(place);
    }
    piece_of_.assign(graph().nodes.size(), kNoPiece);
    for (size_t i = 0; i < begins.size() && !order.empty(); ++i) {
      ModelPiece piece;
      piece.runtime = runtime_at(begins[i], order);
      for (size_t place = begins[i]; place < (i + 1 < begins.size() ? begins[i + 1] : order.size()); ++place)
        for (const size_t node : units_.nodes[order[place]]) {
          piece.nodes.push_back(node);
          piece_of_[node] = i;
        }
      std::sort(piece.nodes.begin(), piece.nodes.end());
      out_.pieces.push_back(std::move(piece));
    }
    if (out_.pieces.empty()) out_.pieces.emplace_back();
    find_borders();
    return true;
  }

  PieceRuntime runtime_at(size_t place, const std::vector<size_t>& order) const {
    return division_.runtime(division_.piece[order[place]]);
  }

  bool begins_piece(size_t place, const std::vector<size_t>& order) const {
    return place > 0 && division_.piece[order[place]] != division_.piece[order[place - 1]];
  }

  bool are_allowed(const std::vector<size_t>& cuts, const std::vector<size_t>& order) const {
    const PieceLimits limits = piece_limits();
    auto is_in_target = [&](size_t place) { return runtime_at(place, order) == PieceRuntime::kTarget; };
    const auto in_target =
        std::count_if(cuts.begin(), cuts.end(), is_in_target) + (!order.empty() && is_in_target(0) ? 1 : 0);
    return cuts.size() < limits.pieces && static_cast<size_t>(in_target) <= limits.in_target;
  }

  bool refuse_large(const std::vector<size_t>& order, const std::vector<OrderedUnit>& places) {
    bool is_any = false;
    for (size_t i = 0; i < order.size(); ++i) {
      if (options_.max_target_piece == 0 || places[i].bytes() <= options_.max_target_piece ||
          runtime_at(i, order) != PieceRuntime::kTarget)
        continue;
      is_any = true;
      for (const size_t node : units_.nodes[order[i]])
        reasons_[node] = fmt::format("it and what stays with it need {} bytes, and a piece of the target may have {}",
                                     places[i].bytes(), options_.max_target_piece);
    }
    return is_any;
  }

  // Units are numbered in an order in which they can run.
  std::vector<size_t> unit_order() const {
    std::vector<size_t> order(units_.graph.units.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return division_.piece[a] < division_.piece[b]; });
    return order;
  }

  // Shapes are what a model says: sums stay at the most that there is.
  static void add(uint64_t bytes, uint64_t& sum) { sum = bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes; }

  // `listed`: of the lists of weights.
  std::vector<OrderedUnit> in_memory(const std::vector<size_t>& order, stream::Budget::Charge& listed) {
    std::vector<size_t> place(order.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    std::vector<OrderedUnit> out(order.size());
    uint64_t listed_bytes = 0;
    std::unordered_map<std::string_view, size_t> last_user;  // of inputs of the model: its place
    auto limit_to = [](uint64_t bytes, OrderedUnit& unit) {
      if (bytes > 0) unit.limit = std::min(unit.limit, bytes);
    };
    for (size_t i = 0; i < order.size(); ++i) {
      out[i].must_cut = begins_piece(i, order);
      limit_to(options_.max_piece, out[i]);
      if (runtime_at(i, order) == PieceRuntime::kTarget) limit_to(options_.max_target_piece, out[i]);
      std::set<std::string_view> made;
      for (const size_t node : units_.nodes[order[i]])
        for (const std::string& name : graph().nodes[node].outputs)
          if (const auto type = types_.values.find(name); type != types_.values.end() && made.insert(name).second)
            add(bytes_of(type->second), out[i].activation_bytes);
      const Used used = used_by(units_.nodes[order[i]]);
      const std::set<size_t> weights = weights_of(used, i + 1 == order.size());
      // Each of many parts may use each of many weights: a file of few bytes says so.
      listed_bytes += weights.size() * sizeof(PartWeights);
      listed = {};
      listed = budget_.try_charge(listed_bytes);
      if (listed_bytes > 0 && !listed)
        throw Error(Code::kBudget,
                    fmt::format("the list of weights of each part takes {} bytes for {} of {} parts, and --max-rss "
                                "leaves {} for it: give more",
                                listed_bytes, i + 1, order.size(), budget_.available()));
      out[i].weights.reserve(weights.size());
      for (const size_t number : weights) out[i].weights.push_back({number, weights_->bytes(number)});
      for (const std::string_view value : used.values)
        if (model_inputs_.contains(value)) last_user[value] = i;
    }
    // Inputs of the model are there from the start.
    std::vector<uint64_t> last_used(order.size());
    for (const auto& [value, user] : last_user)
      if (const auto type = types_.values.find(std::string(value)); type != types_.values.end())
        add(bytes_of(type->second), last_used[user]);
    uint64_t still_used = 0;
    for (size_t i = order.size(); i-- > 0;) {
      add(last_used[i], still_used);
      add(still_used, out[i].activation_bytes);
    }
    for (const SeamValue& value : units_.graph.values) {
      size_t last = place[value.producer];
      for (const size_t user : value.users) last = std::max(last, place[user]);
      for (size_t i = place[value.producer] + 1; i <= last; ++i) {
        add(value.bytes, out[i].activation_bytes);
        add(value.bytes, out[i].seam_bytes);
      }
    }
    return out;
  }

  struct Used {
    std::vector<std::string_view> values;
    std::vector<size_t> nodes;  // those in question, and constant ones
  };

  // All values that nodes use, and those that constant nodes in front of them use. Each is visited once: the number of
  // ways to a value may grow exponentially.
  Used used_by(const std::vector<size_t>& nodes) const {
    Used out{{}, nodes};
    std::vector<std::string_view> open;
    std::unordered_set<std::string_view> seen;
    std::unordered_set<size_t> copied;
    for (const size_t node : nodes) {
      add_values_used(out_.model.graph.nodes[node], open);
      while (!open.empty()) {
        const std::string_view value = open.back();
        open.pop_back();
        if (!seen.insert(value).second) continue;
        out.values.push_back(value);
        const auto maker = maker_.find(value);
        if (maker == maker_.end() || units_.unit[maker->second] != kNoUnit || !copied.insert(maker->second).second)
          continue;
        out.nodes.push_back(maker->second);
        add_values_used(out_.model.graph.nodes[maker->second], open);
      }
    }
    return out;
  }

  // Numbers of weights, each once. The last piece also makes the outputs that are initializers.
  std::set<size_t> weights_of(const Used& used, bool is_last) const {
    std::set<size_t> out;
    if (is_last)
      for (const ValueInfo& info : out_.model.graph.outputs)
        if (const auto number = weights_->of_value(info.name)) out.insert(*number);
    for (const std::string_view value : used.values)
      if (const auto number = weights_->of_value(value)) out.insert(*number);
    for (const size_t node : used.nodes) out.insert(weights_->of_node(node).begin(), weights_->of_node(node).end());
    return out;
  }

  void find_borders() {
    std::vector<std::set<std::string>> outputs(out_.pieces.size());
    for (size_t i = 0; i < out_.pieces.size(); ++i) {
      ModelPiece& piece = out_.pieces[i];
      const Used used = used_by(piece.nodes);
      for (const size_t number : weights_of(used, i + 1 == out_.pieces.size()))
        add(weights_->bytes(number), piece.weight_bytes);
      for (const std::string_view value : used.values) {
        const auto maker = maker_.find(value);
        const size_t from = maker == maker_.end() ? kNoPiece : piece_of_[maker->second];
        if (from == i || (from == kNoPiece && !model_inputs_.contains(value))) continue;
        piece.inputs.emplace_back(value);
        if (from != kNoPiece) outputs[from].emplace(value);
      }
    }
    // Initializers that are outputs are made by the last piece.
    for (const ValueInfo& info : graph().outputs) {
      if (model_inputs_.contains(info.name)) continue;
      const auto maker = maker_.find(info.name);
      const bool is_made = maker != maker_.end() && piece_of_[maker->second] != kNoPiece;
      outputs[is_made ? piece_of_[maker->second] : out_.pieces.size() - 1].insert(info.name);
    }
    for (size_t i = 0; i < out_.pieces.size(); ++i) order_outputs(outputs[i], out_.pieces[i]);
  }

  // The model's outputs first, in the model's order; then others in the order in which they are made.
  void order_outputs(std::set<std::string>& names, ModelPiece& piece) {
    for (const ValueInfo& info : graph().outputs)
      if (names.erase(info.name) > 0) piece.outputs.push_back(info.name);
    for (const size_t node : piece.nodes)
      for (const std::string& name : graph().nodes[node].outputs)
        if (names.erase(name) > 0) piece.outputs.push_back(name);
  }

  // ---- Converting ----

  bool all_convert() {
    bool all = true;
    for (const ModelPiece& piece : out_.pieces) {
      if (piece.runtime != PieceRuntime::kTarget || done_.contains(piece.nodes)) continue;
      const bool stays = !refuse_inside(piece) && (options_.takes_onnx || convert(piece));
      if (stays) done_.insert(piece.nodes);
      all = all && stays;
    }
    return all;
  }

  bool refuse_inside(const ModelPiece& piece) {
    if (!options_.refuse_in_piece) return false;
    std::vector<Refusal> refused;
    for (const auto& [node, reason] : options_.refuse_in_piece(out_.model, piece, types_))
      refused.push_back({node, reason});
    add_refusals(refused, piece.nodes, reasons_);
    return !refused.empty();
  }

  bool convert(const ModelPiece& piece) {
    std::vector<Refusal> refused;
    try {
      for (const stream::Unsupported& node : options_.convert(piece_model(out_, piece, true)))
        refused.push_back(refusal(node.where(), node.reason(), reasons_.size()));
    } catch (const Error& error) {
      if (error.code() != Code::kUnsupported && error.code() != Code::kMalformed) throw;
      refused.push_back(refusal(error.where(), error.text(), reasons_.size()));
    }
    add_refusals(refused, piece.nodes, reasons_);
    return refused.empty();
  }

  // ---- The number of pieces ----

  // How many pieces a limit allows, and how many there are and have to be.
  struct PieceCount {
    size_t most, found, least;
    size_t surplus() const { return found > most ? found - most : 0; }
  };

  // False: a division into fewer pieces is to be tried, because cuts for memory made too many. Whether the target can
  // run nodes is known by then: those that it cannot run need no pieces there.
  bool are_few_pieces() {
    const PieceLimits limits = piece_limits();
    const auto in_target = std::count_if(out_.pieces.begin(), out_.pieces.end(), [](const ModelPiece& piece) {
      return piece.runtime == PieceRuntime::kTarget;
    });
    const PieceCount all{limits.pieces, out_.pieces.size(), out_.fewest};
    const PieceCount inside{limits.in_target, static_cast<size_t>(in_target), fewest_in_target_};
    if (all.surplus() == 0 && inside.surplus() == 0) return true;
    const std::string limit = all.surplus() > 0 ? fmt::format("--max-pieces {}", all.most)
                                                : fmt::format("max_pieces {} of the target", inside.most);
    const PieceCount& count = all.surplus() > 0 ? all : inside;
    if (options_.prefer == Prefer::kCheap && leave_out(std::max(all.surplus(), inside.surplus()), limit)) return false;
    const std::string_view others =
        options_.prefer == Prefer::kCheap ? "" : "; --prefer cheap leaves to ONNX what the target can run";
    if (options_.prefer != Prefer::kCheap && count.least > count.most)
      throw Error(Code::kUsage,
                  fmt::format("{}: at least {} {} are needed when everything that the target can run is in it{}", limit,
                              count.least, all.surplus() > 0 ? "pieces" : "of its pieces", others));
    throw Error(Code::kUsage,
                fmt::format("{}: no division into so few pieces was found that keeps the limit of bytes; the last one "
                            "had {} pieces{}{}",
                            limit, count.found, all.surplus() > 0 ? "" : " in the target", others));
  }

  // Leaves pieces of the target to ONNX, those of the least work first. More at once each time, as each time costs a
  // division, and at last all: then every piece is as large as its limit lets it. False: none is left.
  bool leave_out(size_t surplus, const std::string& limit) {
    std::vector<std::pair<uint64_t, size_t>> inside;  // work, piece
    for (size_t i = 0; i < out_.pieces.size(); ++i) {
      if (out_.pieces[i].runtime != PieceRuntime::kTarget) continue;
      inside.emplace_back(0, i);
      std::set<size_t> units;
      for (const size_t node : out_.pieces[i].nodes) units.insert(units_.unit[node]);
      for (const size_t unit : units) add(units_.graph.units[unit].in(PieceRuntime::kOnnx), inside.back().first);
    }
    std::sort(inside.begin(), inside.end());
    const size_t count = std::max(surplus / 2, size_t{1} << std::min<size_t>(times_left_out_, 20));
    inside.resize(std::min(inside.size(), count));
    for (const auto& [work, piece] : inside)
      for (const size_t node : out_.pieces[piece].nodes)
        left_out_[node] = fmt::format("with it in the target there would be more pieces than {} allows", limit);
    ++times_left_out_;
    return !inside.empty();
  }

  // ---- The result ----

  void tell() {
    for (size_t i = 0; i < out_.nodes.size(); ++i) {
      NodePlace& place = out_.nodes[i];
      place.piece = piece_of_[i];
      place.reason = reasons_[i];
      if (!units_.is_used[i])
        place.reason = is_known_[i] ? "its result is known at conversion" : "no output of the model needs it";
      else if (place.piece == kNoPiece)
        place.reason = "it is computed from constants: each piece that uses it has a copy";
      else if (place.reason.empty() && out_.pieces[place.piece].runtime == PieceRuntime::kOnnx)
        place.reason = unit_reason(i);
    }
    const uint64_t inside = total(units_.graph, division_, PieceRuntime::kTarget);
    const uint64_t outside = total(units_.graph, division_, PieceRuntime::kOnnx);
    out_.work_in_target =
        inside + outside > 0 ? static_cast<double>(inside) / static_cast<double>(inside + outside) : 0;
    std::set<std::string> names;
    for (const ModelPiece& piece : out_.pieces) {
      names.insert(piece.inputs.begin(), piece.inputs.end());
      names.insert(piece.outputs.begin(), piece.outputs.end());
    }
    for (const std::string& name : names)
      if (const auto type = types_.values.find(name); type != types_.values.end()) out_.values.emplace(*type);
  }

  std::string unit_reason(size_t node) const {
    for (const size_t other : units_.nodes[units_.unit[node]])
      if (!reasons_[other].empty()) return fmt::format("it stays with node '{}'", out_.nodes[other].name);
    if (!left_out_[node].empty()) return left_out_[node];
    return "in the target it would cost more than it saves";
  }

  const DivideOptions& options_;
  stream::Budget& budget_;
  ModelTypes types_;
  std::vector<std::string> reasons_;  // of each node: why it is not in the target
  std::vector<bool> is_known_;        // of each node: a result of it became an initializer
  std::unordered_map<std::string_view, size_t> maker_;
  std::optional<PieceWeights> weights_;
  std::unordered_set<std::string_view> model_inputs_;  // without initializers that are listed there
  ModelUnits units_;
  Division division_;
  std::vector<size_t> piece_of_;  // of each node
  std::set<std::vector<size_t>> done_;
  std::vector<std::string> left_out_;  // of each node: why it is left to ONNX, though the target could run it
  size_t times_left_out_ = 0;
  size_t fewest_in_target_ = 0;
  DividedModel out_;
};

}  // namespace

DividedModel divide_model(onnx::Model model, const DivideOptions& options, stream::Budget& budget) {
  return Divider(std::move(model), options, budget).divide();
}

namespace {

// The ends are no options of a user here: what can be done is another thing than with sub_model alone.
onnx::Model model_between(const onnx::Model& model, const PartEnds& ends) {
  try {
    return sub_model(model, ends);
  } catch (const UndeclaredEnd& error) {
    const std::string& name = error.value();
    if (error.is_sequence()) refuse_end(name, true, model);  // others stay inside of a piece
    const std::vector<ValueInfo>& inputs = model.graph.inputs;
    const bool is_for_model =
        std::any_of(inputs.begin(), inputs.end(), [&](const ValueInfo& info) { return info.name == name; });
    const std::string hint =
        is_for_model ? "declare it in the model" : fmt::format("give it as --value '{}=f32[1,3,?]'", name);
    throw Error(Code::kUsage, fmt::format("the type of '{}' is not known, which the pieces need: {}", name, hint),
                {.file = model.path});
  }
}

}  // namespace

onnx::Model piece_model(const DividedModel& divided, const ModelPiece& piece, bool with_marks) {
  const PartEnds ends{piece.inputs, piece.outputs, {}};
  onnx::Model out = model_between(divided.model, ends);
  if (!with_marks) return out;
  std::unordered_map<std::string_view, size_t> numbers;  // by a value that a node makes
  for (size_t i = 0; i < divided.model.graph.nodes.size(); ++i)
    for (const std::string& name : divided.model.graph.nodes[i].outputs)
      if (!name.empty()) numbers.emplace(name, i);
  for (onnx::Node& node : out.graph.nodes)
    for (const std::string& name : node.outputs)
      if (const auto number = numbers.find(name); number != numbers.end()) {
        node = marked(node, number->second);
        break;
      }
  return out;
}

}  // namespace lowtide::layout
