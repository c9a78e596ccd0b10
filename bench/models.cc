// SPDX-License-Identifier: Apache-2.0
#include "bench/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>

#include "bench/networks.h"
#include "bench/onnx_stream.h"
#include "stream/error.h"

namespace lowtide::bench {
namespace {

using Network = Graph (*)(int64_t width, int64_t input_size);
using Weights = Graph (*)(uint64_t bytes, bool plain, int64_t input_size);
using Nodes = Graph (*)(uint64_t nodes, int64_t input_size);
using Maker = std::variant<Network, Weights, Nodes>;

constexpr std::array kKinds = {
    ModelKind{"duc", "ResNet101-DUC: dilated segmentation network with dense upsampling", 800},
    ModelKind{"deeplab", "DeepLabV3+ on ResNet-101: pyramid pooling, resizes, decoder", 513},
    ModelKind{"unet", "U-Net: transposed convolutions and skip connections", 512},
    ModelKind{"conv-stack", "plain convolutions, as many as the size asks for", 8},
    ModelKind{"one-tensor", "one convolution, its weights of the size that is asked for", 8},
    ModelKind{"matmul-stack", "products with large matrices, as many as the size asks for", 8},
    ModelKind{"many-nodes", "small convolutions and elementwise operators, as many as --nodes asks for", 8},
};
constexpr std::array<Maker, 7> kMakers = {duc,        deeplab,      unet,      conv_stack,
                                          one_tensor, matmul_stack, many_nodes};  // of kKinds
static_assert(kKinds.size() == kMakers.size());

constexpr int64_t kPublishedWidth = 64;
constexpr int64_t kNarrowest = 2;
constexpr uint64_t kDefaultBytes = uint64_t{256} << 20;  // where only the weights matter
constexpr uint64_t kDefaultNodes = 1000;
constexpr uint64_t kMostNodes = uint64_t{10} << 20;
constexpr uint64_t kMostFiles = 100000;
constexpr uint64_t kLargest = uint64_t{4} << 40;  // the nodes of a conv-stack of this size still fit in memory
constexpr int kLargestInput = 16384;

[[noreturn]] void refuse(std::string text) { throw stream::Error(stream::Code::kUsage, std::move(text)); }

uint64_t distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

/// The network whose weights come nearest to `bytes`: they grow with the width, so bisection finds it.
Graph network_of_size(Network network, uint64_t bytes, int64_t input_size) {
  if (bytes == 0) return network(kPublishedWidth, input_size);
  int64_t low = kNarrowest;
  int64_t high = 2 * kNarrowest;
  while (network(high, input_size).weight_bytes() < bytes) low = std::exchange(high, 2 * high);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (network(middle, input_size).weight_bytes() < bytes ? low : high) = middle;
  }
  Graph narrow = network(low, input_size);
  Graph wide = network(high, input_size);
  const bool take_narrow = distance(narrow.weight_bytes(), bytes) < distance(wide.weight_bytes(), bytes);
  return take_narrow ? std::move(narrow) : std::move(wide);
}

size_t kind_index(const std::string& name) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].name == name) return i;
  }
  std::string names;
  for (const ModelKind& kind : kKinds) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  refuse(fmt::format("no kind of model is called '{}'; there are {}", name, names));
}

Graph make_graph(const ModelSpec& spec) {
  const size_t kind = kind_index(spec.kind);
  const int input_size = spec.input_size.value_or(kKinds[kind].input_size);
  if (input_size < 1 || input_size > kLargestInput) {
    refuse(fmt::format("an input size of {} is not between 1 and {}", input_size, kLargestInput));
  }
  if (spec.nodes && (*spec.nodes < 1 || *spec.nodes > kMostNodes))
    refuse(fmt::format("{} nodes are not between 1 and {}", *spec.nodes, kMostNodes));
  if (spec.files < 1 || spec.files > kMostFiles)
    refuse(fmt::format("{} files are not between 1 and {}", spec.files, kMostFiles));
  if (spec.size_bytes > kLargest)
    refuse(fmt::format("{} bytes are more than the {} there may be", spec.size_bytes, kLargest));
  const Maker& maker = kMakers[kind];
  const bool has_kernels = maker == Maker(conv_stack) || maker == Maker(one_tensor);
  if (spec.plain_kernels && !has_kernels) refuse("only a conv-stack or a one-tensor can have plain kernels");
  if (spec.nodes && !std::holds_alternative<Nodes>(maker)) refuse("only many-nodes can have a number of nodes");
  if (const auto* network = std::get_if<Network>(&maker)) return network_of_size(*network, spec.size_bytes, input_size);
  if (const auto* weights = std::get_if<Weights>(&maker))
    return (*weights)(spec.size_bytes > 0 ? spec.size_bytes : kDefaultBytes, spec.plain_kernels, input_size);
  if (spec.size_bytes > 0) refuse("many-nodes has a number of nodes (--nodes) and no size");
  return std::get<Nodes>(maker)(spec.nodes.value_or(kDefaultNodes), input_size);
}

}  // namespace

std::span<const ModelKind> model_kinds() { return kKinds; }

MadeModel make_model(const ModelSpec& spec, const std::filesystem::path& out, const Progress& progress) {
  if (spec.opset < kOldestOpset || spec.opset > kNewestOpset) {
    refuse(fmt::format("opset {} is not between {} and {}", spec.opset, kOldestOpset, kNewestOpset));
  }
  const Graph graph = make_graph(spec);
  const uint64_t bytes = graph.weight_bytes();
  if (spec.size_bytes > 0 && distance(bytes, spec.size_bytes) > spec.size_bytes / 4) {
    refuse(fmt::format("no {} has {} bytes of weights; the nearest has {}", spec.kind, spec.size_bytes, bytes));
  }
  return write_onnx(graph, out,
                    {spec.seed, spec.opset, spec.external || spec.files > 1, spec.sparse, spec.files, progress});
}

}  // namespace lowtide::bench
