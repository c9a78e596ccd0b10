// SPDX-License-Identifier: Apache-2.0
// The parser behind read_onnx: one function for each message of schemas/onnx.proto. Field numbers are the generated
// ones.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stream/file/budget.h"
#include "stream/file/external_data.h"
#include "stream/file/file.h"
#include "stream/onnx/model.h"
#include "stream/onnx/wire.h"

namespace lowtide::stream {

class OnnxParser {
 public:
  // `files` resolves external data; null when the model has no folder.
  OnnxParser(std::shared_ptr<Source> source, ExternalFiles* files, Budget& budget)
      : source_(std::move(source)), files_(files), wire_(*source_, budget) {}

  onnx::Model model();
  // Throws Error(kIo) when the file could not be read: to be called at the end, also when model() threw.
  void check() const { wire_.check(); }

 private:
  struct TensorFields;  // tensor.cc: where the elements of a tensor are, in each of the forms

  // reader.cc
  // Of a model, a domain that is imported again replaces the version and is noted, as ONNX Runtime does it; of a
  // function (no `notes`) that is an error.
  void opset(Range body, std::map<std::string, int64_t>& opsets, std::vector<std::string>* notes);
  std::pair<std::string, std::string> key_value(Range body);
  onnx::Function function(Range body);
  void check_functions(const std::vector<onnx::Function>& functions);

  // graph.cc
  void graph(Range body, onnx::Graph& graph);
  void reserve(Range body, onnx::Graph& graph);
  void check_names(const onnx::Graph& graph, uint64_t offset);
  onnx::Node node(Range body);
  void node_fields(Range body, onnx::Node& node);
  onnx::Attribute attribute(Range body);
  unsigned attribute_fields(Range body, onnx::Attribute& attribute, std::vector<FileRun>* list);
  bool is_list_of_constant(Range attribute);
  bool is_in_constant();
  void resolve_type(onnx::Attribute& attribute, unsigned seen, uint64_t offset);
  onnx::ValueInfo value_info(Range body);
  void type(Range body, onnx::ValueInfo& value, bool outermost);
  void tensor_type(Range body, onnx::ValueInfo& value);
  void shape(Range body, onnx::ValueInfo& value);

  // tensor.cc
  onnx::Tensor tensor(Range body, std::string_view role);
  std::string tensor_name(Range body);
  onnx::SparseTensor sparse_tensor(Range body, std::string_view role);
  void tensor_fields(Range body, onnx::Tensor& tensor, TensorFields& fields);
  void add_run(Message& field, uint8_t width, std::vector<FileRun>& runs);
  void typed_data(Message& field, TensorFields& fields);
  onnx::Tensor listed_tensor(std::vector<FileRun> runs, DType dtype);
  void external_entry(Range body, TensorFields& fields);
  void set_data(onnx::Tensor& tensor, TensorFields& fields, uint64_t offset);
  void set_external(onnx::Tensor& tensor, const TensorFields& fields, uint64_t offset);
  void set_typed(onnx::Tensor& tensor, TensorFields& fields, uint64_t offset);

  std::shared_ptr<Source> source_;
  ExternalFiles* files_;
  Wire wire_;
  uint64_t external_bytes_ = 0;
  bool in_function_ = false;
  struct NodeInWork {
    Range body = {};
    std::optional<bool> is_constant = std::nullopt;  // once it was asked
  };
  NodeInWork node_;  // the innermost one that is read
};

// Converts a TensorProto.DataType. Throws Error(kMalformed) with the offset when it is unknown.
DType onnx_dtype(int64_t number, const Wire& wire, uint64_t offset);
// "ai.onnx" -> "": the standard domain has two spellings.
std::string canonical_domain(std::string domain);

}  // namespace lowtide::stream
