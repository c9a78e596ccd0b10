// SPDX-License-Identifier: Apache-2.0
// An ONNX file: the walk over protobuf's wire format, the graph as plain data, its listing, and the elements of every
// tensor in it, in any encoding.
#include "emit/listing.h"
#include "stream/onnx/reader.h"
#include "stream/recipe/pour.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

constexpr uint64_t kPoured = 16 * 1024;  // of each end of a large tensor

void pour(const onnx::Tensor& tensor, stream::Budget& budget) {
  if (!tensor.data) return;
  const uint64_t elements = tensor.data->elements();
  std::vector<std::byte> lanes(kPoured * stream::lane_bytes(tensor.dtype));
  fuzz::only_errors([&] {
    if (elements <= kPoured) {
      stream::evaluate(tensor.data, budget);
      return;
    }
    stream::Pourer pourer(tensor.data, budget);
    pourer.read(elements - kPoured, kPoured, lanes.data());
    pourer.read_file_bytes(0, kPoured, lanes.data());
  });
}
void pour(const onnx::SparseTensor& tensor, stream::Budget& budget) {
  pour(tensor.values, budget);
  pour(tensor.indices, budget);
}

void pour(const onnx::Graph& graph, stream::Budget& budget);
void pour(const onnx::Attribute& attribute, stream::Budget& budget) {
  for (const auto& tensor : attribute.tensors) pour(tensor, budget);
  for (const auto& tensor : attribute.sparse) pour(tensor, budget);
  for (const auto& graph : attribute.graphs) pour(*graph, budget);
}
void pour(const std::vector<onnx::Node>& nodes, stream::Budget& budget) {
  for (const auto& node : nodes)
    for (const auto& attribute : node.attributes) pour(attribute, budget);
}
void pour(const onnx::Graph& graph, stream::Budget& budget) {
  for (const auto& tensor : graph.initializers) pour(tensor, budget);
  for (const auto& tensor : graph.sparse_initializers) pour(tensor, budget);
  pour(graph.nodes, budget);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    onnx::Model model = stream::read_onnx(stream::memory_source(fuzz::bytes_of(data, size), "fuzz.onnx"), {}, budget);
    emit::Listing listing = emit::listing(model);
    emit::listing_text(listing);
    emit::listing_json(listing);
    pour(model.graph, budget);
    for (const auto& function : model.functions) {
      pour(function.nodes, budget);
      for (const auto& attribute : function.attribute_defaults) pour(attribute, budget);
    }
  });
  return 0;
}
