// SPDX-License-Identifier: Apache-2.0
#include "emit/graph_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emit/json_text.h"
#include "emit/tensor_names.h"

namespace lowtide::emit {
namespace {

using Indices = std::vector<int64_t>;

// ---- Rows ----

void append_key(std::string& row, std::string_view key) {
  row += row.ends_with('{') ? "\"" : ",\"";
  row += key;
  row += "\":";
}
void append_text(std::string& row, std::string_view key, std::string_view text) {
  append_key(row, key);
  append_json_string(row, text);
}
void append_indices(std::string& row, std::string_view key, const Indices& indices) {
  append_key(row, key);
  row += fmt::format("[{}]", fmt::join(indices, ","));
}

void append_shape(std::string& row, const std::vector<ListedExtent>& shape) {
  append_key(row, "shape");
  row += '[';
  for (const ListedExtent& extent : shape) {
    if (!row.ends_with('[')) row += ',';
    if (extent.is_number)
      row += extent.text;
    else
      append_json_string(row, extent.text);
  }
  row += ']';
}

std::string tensor_row(std::string_view name, std::string_view dtype, const std::vector<ListedExtent>& shape) {
  std::string row = "{";
  append_text(row, "name", name);
  append_text(row, "type", dtype);
  append_shape(row, shape);
  return row;
}

// "key":[ row, row ], one row on each line.
class RowList {
 public:
  RowList(PackedText& out, std::string_view key) : out_(out) { out_.add(fmt::format(",\n\"{}\":[", key)); }
  // `row` lacks its last brace.
  void add(std::string row) {
    row += '}';
    out_.add(is_first_ ? "\n" : ",\n");
    out_.add(row);
    is_first_ = false;
  }
  void end() { out_.add("]"); }

 private:
  PackedText& out_;
  bool is_first_ = true;
};

void begin_graph(PackedText& out, std::string_view name, const Indices& inputs, const Indices& outputs, bool is_first) {
  std::string row = is_first ? "\n{" : ",\n{";
  append_text(row, "name", name);
  append_indices(row, "inputs", inputs);
  append_indices(row, "outputs", outputs);
  out.add(row);
}

// ---- Of a converted model ----

class CoreRows {
 public:
  CoreRows(const core::Model& model, const core::Graph& graph, const core::OriginTrace& trace, PackedText& out)
      : model_(model), graph_(graph), origins_(trace.result(graph)), out_(out), tensor_of_(graph.values.size(), -1) {}

  void add(bool is_first) {
    const std::vector<core::ValueId> order = tensor_order(graph_);
    for (size_t i = 0; i < order.size(); ++i) tensor_of_[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    begin_graph(out_, graph_.name.empty() ? "main" : graph_.name, tensors(graph_.inputs), tensors(graph_.outputs),
                is_first);
    add_tensors(order);
    add_operators();
    add_nodes();
    out_.add("}");
  }

 private:
  Indices tensors(const std::vector<core::ValueId>& ids) const {
    Indices out;
    for (core::ValueId id : ids) out.push_back(id == core::kAbsent ? -1 : tensor_of_[static_cast<size_t>(id)]);
    return out;
  }

  void add_tensors(const std::vector<core::ValueId>& order) {
    const std::vector<std::string> names = tensor_names(graph_);
    std::unordered_map<const stream::Recipe*, size_t> first_with;
    RowList rows(out_, "tensors");
    for (size_t i = 0; i < order.size(); ++i) {
      const core::Value& value = graph_.at(order[i]);
      std::vector<ListedExtent> shape;
      for (core::Dim dim : value.shape)
        shape.push_back(dim < 0 ? ListedExtent(graph_.symbols.to_string(dim)) : ListedExtent(dim));
      std::string row = tensor_row(names[static_cast<size_t>(order[i])], stream::dtype_name(value.dtype), shape);
      if (value.is_constant()) {
        const auto [it, fresh] = first_with.try_emplace(value.constant.get(), i);
        append_key(row, fresh ? "bytes" : "same_bytes_as");
        row += std::to_string(fresh ? value.constant->bytes() : it->second);
      }
      rows.add(std::move(row));
    }
    rows.end();
  }

  void add_operators() {
    RowList rows(out_, "operators");
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const core::Op& op = graph_.ops[i];
      std::string row = "{";
      append_text(row, "op", core::kind_name(op.kind));
      append_indices(row, "inputs", tensors(op.inputs));
      append_indices(row, "outputs", tensors(op.outputs));
      Indices nodes;
      for (uint32_t at = origins_.first[i]; at < origins_.first[i + 1]; ++at)
        nodes.push_back(static_cast<int64_t>(origins_.nodes[at]) - 1);
      append_indices(row, "nodes", nodes);
      rows.add(std::move(row));
    }
    rows.end();
  }

  // Origin 0 is no node.
  void add_nodes() {
    using Fate = core::OriginResult::Fate;
    RowList rows(out_, "nodes");
    for (uint32_t i = 1; i < graph_.origins.size(); ++i) {
      std::string row = "{";
      append_text(row, "name", graph_.origins[i]);
      append_text(row, "operator", model_.onnx_operators[graph_.origin_operator(i)]);
      if (origins_.fates[i] != Fate::kOps)
        append_text(row, "became", origins_.fates[i] == Fate::kFolded ? "folded" : "removed");
      rows.add(std::move(row));
    }
    rows.end();
  }

  const core::Model& model_;
  const core::Graph& graph_;
  const core::OriginResult origins_;
  PackedText& out_;
  std::vector<int32_t> tensor_of_;  // by value
};

// ---- Of a listing, in which tensors have names only ----

class ListedRows {
 public:
  ListedRows(const ListedGraph& graph, PackedText& out) : graph_(graph), out_(out) {}

  void add(bool is_first) {
    for (const ListedTensor& tensor : graph_.inputs) known(tensor, false);
    for (const ListedTensor& tensor : graph_.constants) known(tensor, true);
    for (const ListedOp& op : graph_.ops)
      for (size_t i = 0; i < op.outputs.size(); ++i)
        if (!op.outputs[i].empty())
          i < op.results.size() ? known(op.results[i], false) : known({op.outputs[i], "", {}, 0}, false);
    for (const ListedTensor& tensor : graph_.outputs) known(tensor, false);
    for (const ListedOp& op : graph_.ops)
      for (const std::string& name : op.inputs)  // of the graph around this one
        if (!name.empty()) known({name, "", {}, 0}, false);
    Indices inputs, outputs;
    for (const ListedTensor& tensor : graph_.inputs) inputs.push_back(index(tensor.name));
    for (const ListedTensor& tensor : graph_.outputs) outputs.push_back(index(tensor.name));
    begin_graph(out_, graph_.name.empty() ? "main" : graph_.name, inputs, outputs, is_first);
    RowList rows(out_, "tensors");
    for (const auto& [tensor, is_constant] : tensors_) {
      std::string row = tensor_row(tensor.name, tensor.dtype, tensor.shape);
      if (is_constant) {
        append_key(row, "bytes");
        row += std::to_string(tensor.bytes);
      }
      rows.add(std::move(row));
    }
    rows.end();
    add_operators();
    out_.add("}");
  }

 private:
  // Of two tensors of one name the one that has a type is kept.
  void known(const ListedTensor& tensor, bool is_constant) {
    const auto [it, fresh] = index_.try_emplace(tensor.name, tensors_.size());
    if (fresh)
      tensors_.emplace_back(tensor, is_constant);
    else if (tensors_[it->second].first.dtype.empty() && !tensor.dtype.empty())
      tensors_[it->second].first = tensor;
  }
  int64_t index(const std::string& name) const {
    auto it = index_.find(name);
    return it == index_.end() ? -1 : static_cast<int64_t>(it->second);
  }
  Indices indices(const std::vector<std::string>& names) const {
    Indices out;
    for (const std::string& name : names) out.push_back(name.empty() ? -1 : index(name));
    return out;
  }

  void add_operators() {
    RowList rows(out_, "operators");
    for (const ListedOp& op : graph_.ops) {
      std::string row = "{";
      append_text(row, "op", op.op);
      if (!op.name.empty()) append_text(row, "name", op.name);
      append_indices(row, "inputs", indices(op.inputs));
      append_indices(row, "outputs", indices(op.outputs));
      if (!op.attributes.empty()) {
        std::string attributes = "{";
        std::set<std::string_view> names;
        for (const auto& [name, value] : op.attributes)
          if (names.insert(name).second) {
            if (!attributes.ends_with('{')) attributes += ',';
            append_json_string(attributes, name);
            attributes += ':';
            append_json_string(attributes, value.text);
          }
        append_key(row, "attributes");
        row += attributes + "}";
      }
      rows.add(std::move(row));
    }
    rows.end();
  }

  const ListedGraph& graph_;
  PackedText& out_;
  std::vector<std::pair<ListedTensor, bool>> tensors_;  // and whether it is a constant
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace

void add_graph_rows(const core::Model& model, const core::OriginTrace& trace, PackedText& out) {
  out.add("[");
  for (const auto& graph : model.graphs) CoreRows(model, *graph, trace, out).add(graph == model.graphs[0]);
  out.add("]");
}

void add_graph_rows(const Listing& listing, PackedText& out) {
  out.add("[");
  for (const ListedGraph& graph : listing.graphs) ListedRows(graph, out).add(&graph == listing.graphs.data());
  out.add("]");
}

void add_node_data(const core::Model& model, PackedText& out) {
  out.add("{");
  std::unordered_set<std::string> graphs;
  for (const auto& graph : model.graphs) {
    std::string name = "\n";
    append_json_string(name, graph->name.empty() ? "main" : graph->name);
    if (!graphs.insert(name).second) continue;  // keys of JSON are unique
    out.add(graphs.size() > 1 ? "," : "");
    out.add(name + ":{\"results\":{");
    const std::vector<std::string> names = tensor_names(*graph);
    // Names are unique, but bytes that are not UTF-8 become one character.
    std::unordered_set<std::string> replaced;
    bool is_first = true;
    for (const core::Op& op : graph->ops) {
      uint64_t bytes = 0;
      for (core::ValueId id : op.inputs)
        if (id != core::kAbsent && graph->at(id).is_constant()) bytes += graph->at(id).constant->bytes();
      for (core::ValueId id : op.outputs) {
        if (id == core::kAbsent) continue;
        std::string row;
        append_json_string(row, names[static_cast<size_t>(id)]);
        if (row.find("\xef\xbf\xbd") != row.npos && !replaced.insert(row).second) continue;
        out.add(is_first ? "\n" : ",\n");
        out.add(row + fmt::format(":{{\"value\":{}}}", bytes));
        is_first = false;
      }
    }
    out.add("}}");
  }
  out.add("}\n");
}

}  // namespace lowtide::emit
