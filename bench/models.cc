#include "bench/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "bench/networks.h"
#include "bench/onnx_stream.h"
#include "stream/error.h"

namespace lowtide::bench {
namespace {

using Network = Graph (*)(int64_t width, int64_t input_size);
constexpr Network kNoWidth = nullptr;  // conv-stack: its size is its depth

constexpr std::array kKinds = {
    ModelKind{"duc", "ResNet101-DUC: dilated segmentation network with dense upsampling", 800},
    ModelKind{"deeplab", "DeepLabV3+ on ResNet-101: pyramid pooling, resizes, decoder", 513},
    ModelKind{"unet", "U-Net: transposed convolutions and skip connections", 512},
    ModelKind{"conv-stack", "plain convolutions, as many as the size asks for", 8},
};
constexpr std::array kNetworks = {&duc, &deeplab, &unet, kNoWidth};  // one for each of kKinds
static_assert(kKinds.size() == kNetworks.size());

constexpr int64_t kPublishedWidth = 64;
constexpr int64_t kNarrowest = 2;
constexpr uint64_t kDefaultStackBytes = uint64_t{256} << 20;
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
  if (spec.size_bytes > kLargest)
    refuse(fmt::format("{} bytes are more than the {} there may be", spec.size_bytes, kLargest));
  if (kNetworks[kind] != kNoWidth) {
    if (spec.plain_kernels) refuse("only a conv-stack can have plain kernels");
    return network_of_size(kNetworks[kind], spec.size_bytes, input_size);
  }
  return conv_stack(spec.size_bytes > 0 ? spec.size_bytes : kDefaultStackBytes, spec.plain_kernels, input_size);
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
  return write_onnx(graph, out, {spec.seed, spec.opset, spec.external, spec.sparse, progress});
}

}  // namespace lowtide::bench
