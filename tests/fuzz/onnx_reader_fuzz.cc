// SPDX-License-Identifier: Apache-2.0
// An ONNX file: the walk over protobuf's wire format, the graph as plain data, its listing, and the elements of every
// tensor in it, in any encoding.
#include "emit/listing.h"
#include "stream/onnx/reader.h"
#include "stream/recipe/recipe_reader.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

constexpr uint64_t kReadAtOnce = 16 * 1024;  // of each end of a large tensor

void read_all(const onnx::Tensor& tensor, stream::Budget& budget) {
  if (!tensor.data) return;
  const uint64_t elements = tensor.data->elements();
  std::vector<std::byte> lanes(kReadAtOnce * stream::lane_bytes(tensor.dtype));
  fuzz::only_errors([&] {
    if (elements <= kReadAtOnce) {
      stream::evaluate(tensor.data, budget);
      return;
    }
    stream::RecipeReader reader(tensor.data, budget);
    reader.read(elements - kReadAtOnce, kReadAtOnce, lanes.data());
    reader.read_file_bytes(0, kReadAtOnce, lanes.data());
  });
}
void read_all(const onnx::SparseTensor& tensor, stream::Budget& budget) {
  read_all(tensor.values, budget);
  read_all(tensor.indices, budget);
}

void read_all(const onnx::Graph& graph, stream::Budget& budget);
void read_all(const onnx::Attribute& attribute, stream::Budget& budget) {
  for (const auto& tensor : attribute.tensors) read_all(tensor, budget);
  for (const auto& tensor : attribute.sparse) read_all(tensor, budget);
  for (const auto& graph : attribute.graphs) read_all(*graph, budget);
}
void read_all(const std::vector<onnx::Node>& nodes, stream::Budget& budget) {
  for (const auto& node : nodes)
    for (const auto& attribute : node.attributes) read_all(attribute, budget);
}
void read_all(const onnx::Graph& graph, stream::Budget& budget) {
  for (const auto& tensor : graph.initializers) read_all(tensor, budget);
  for (const auto& tensor : graph.sparse_initializers) read_all(tensor, budget);
  read_all(graph.nodes, budget);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    onnx::Model model = stream::read_onnx(stream::memory_source(fuzz::bytes_of(data, size), "fuzz.onnx"), {}, budget);
    emit::Listing listing = emit::listing(model);
    emit::listing_text(listing);
    emit::listing_json(listing);
    read_all(model.graph, budget);
    for (const auto& function : model.functions) {
      read_all(function.nodes, budget);
      for (const auto& attribute : function.attribute_defaults) read_all(attribute, budget);
    }
  });
  return 0;
}
