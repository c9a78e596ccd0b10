// SPDX-License-Identifier: Apache-2.0
// An ONNX model as plain data, independent of operators. Weights are recipes; names and attributes are in memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stream/file/source.h"
#include "stream/recipe/recipe.h"

namespace lowtide::onnx {

using stream::DType;
using stream::RecipeRef;
using stream::Shape;

struct Tensor {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape dims;
  RecipeRef data;                    // null for strings
  std::vector<std::string> strings;  // dtype kString
};

// A sparse tensor in ONNX's form; the lowering makes it dense.
struct SparseTensor {
  Tensor values;   // [NNZ]; its name is the tensor's name
  Tensor indices;  // i64 [NNZ] (flat) or [NNZ, rank]
  Shape dims;
};

struct Dimension {
  int64_t value = -1;  // >= 0 when known
  std::string symbol;  // dim_param, may be empty

  // Axes with one name have one extent. Exporters write "None" (older Keras) and "?" for any axis without a number:
  // these are no names.
  bool has_name() const { return !symbol.empty() && symbol != "?" && symbol != "None"; }
};

struct ValueInfo {
  enum class Type { kNone, kTensor, kSparseTensor, kSequence, kMap, kOptional, kOpaque };
  std::string name;
  Type type = Type::kNone;
  DType dtype = DType::kUndefined;
  bool has_shape = false;
  std::vector<Dimension> dims;
  // Of its message in the model's file, Model::sources[0]: a writer copies it from there, so whoever changes the value
  // info clears this. The same for nodes and functions.
  stream::Range place = {};
};

struct Graph;

struct Attribute {
  // The numbers are AttributeProto.AttributeType's.
  enum class Type {
    kUndefined = 0,
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
    kSparseTensor = 11,
    kSparseTensors = 12,
    kTypeProto = 13,
    kTypeProtos = 14,
  };
  std::string name;
  Type type = Type::kUndefined;
  std::string reference;  // ref_attr_name: inside a function, the caller's attribute of this name
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;                 // kTensor: one; kTensors
  std::vector<SparseTensor> sparse;            // kSparseTensor: one; kSparseTensors
  std::vector<std::shared_ptr<Graph>> graphs;  // kGraph: one; kGraphs
  std::vector<ValueInfo> types;                // kTypeProto: one; kTypeProtos
};

struct Node {
  std::string name;
  std::string op_type;
  std::string domain;  // "" is ai.onnx (the reader turns "ai.onnx" into "")
  std::string overload;
  std::vector<std::string> inputs;   // "" = absent
  std::vector<std::string> outputs;  // "" = not used
  std::vector<Attribute> attributes;
  uint64_t offset = 0;  // byte offset of the NodeProto in the file
  stream::Range place = {};
  int64_t opset = 0;  // of its domain, for a node from a function or one that was added; 0: the model's
  // Made of a call by layout/stateful_calls.h, which has checked everything that it says. No file has such a node.
  bool is_stateful_builtin = false;

  const Attribute* find(std::string_view attribute) const;
  // The name for messages: its own, or its first output when it has none.
  const std::string& label() const;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<ValueInfo> inputs, outputs, value_info;
  std::vector<Tensor> initializers;
  std::vector<SparseTensor> sparse_initializers;
};

struct Function {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<Attribute> attribute_defaults;
  std::vector<Node> nodes;
  std::map<std::string, int64_t> opsets;
  stream::Range place = {};
};

struct Model {
  std::string path;  // as the user gave it
  int64_t ir_version = 0;
  std::string producer_name, producer_version, domain, doc_string;
  int64_t model_version = 0;
  std::map<std::string, int64_t> opsets;  // domain ("" for ai.onnx) -> version
  std::map<std::string, std::string> metadata;
  std::vector<std::string> notes;  // for the user: what the file says that was read in one of several ways
  Graph graph;
  std::vector<Function> functions;
  uint64_t file_bytes = 0;                               // of the .onnx itself (decompressed)
  uint64_t external_bytes = 0;                           // of tensors in external files
  std::vector<std::shared_ptr<stream::Source>> sources;  // every file the model reads from; the .onnx itself first
};

}  // namespace lowtide::onnx
