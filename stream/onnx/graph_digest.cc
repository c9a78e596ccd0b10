// SPDX-License-Identifier: Apache-2.0
#include "stream/onnx/graph_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace lowtide::onnx {
namespace {

// A field is its bytes and a zero byte.
class Digest {
 public:
  void add(std::string_view field) {
    for (const char c : field) mix(static_cast<unsigned char>(c));
    mix(0);
  }
  void add(uint64_t number) { add(std::to_string(number)); }
  void add(const std::vector<std::string>& names) {
    add(names.size());
    for (const std::string& name : names) add(name);
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  void mix(unsigned char byte) { state_ = (state_ ^ byte) * 0x100000001b3; }
  uint64_t state_ = 0xcbf29ce484222325;
};

// TensorProto.DataType has fewer than these.
constexpr int64_t kMostTypes = 64;

uint64_t type_number(DType dtype) {
  for (int64_t number = 1; number < kMostTypes; ++number)
    if (stream::onnx_dtype(number) == dtype) return static_cast<uint64_t>(number);
  return 0;
}

std::vector<std::string> names_of(const std::vector<ValueInfo>& values) {
  std::vector<std::string> out;
  for (const ValueInfo& value : values) out.push_back(value.name);
  return out;
}

}  // namespace

std::string graph_digest(const Graph& graph) {
  Digest digest;
  for (const Node& node : graph.nodes) {
    digest.add("N");
    digest.add(node.name);
    digest.add(node.domain);
    digest.add(node.op_type);
    digest.add(node.inputs);
    digest.add(node.outputs);
  }
  std::vector<const Tensor*> weights;
  std::unordered_set<std::string_view> constant;
  for (const Tensor& tensor : graph.initializers) {
    weights.push_back(&tensor);
    constant.insert(tensor.name);
  }
  for (const SparseTensor& sparse : graph.sparse_initializers) constant.insert(sparse.values.name);
  std::sort(weights.begin(), weights.end(), [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
  for (const Tensor* tensor : weights) {
    digest.add("W");
    digest.add(tensor->name);
    digest.add(type_number(tensor->dtype));
    digest.add(tensor->dims.size());
    for (const stream::Dim dim : tensor->dims) digest.add(static_cast<uint64_t>(dim));
  }
  std::vector<std::string> inputs = names_of(graph.inputs);
  std::erase_if(inputs, [&](const std::string& name) { return constant.contains(name); });
  digest.add("I");
  digest.add(inputs);
  digest.add("O");
  digest.add(names_of(graph.outputs));
  return digest.text();
}

}  // namespace lowtide::onnx
