// A TFLite file: the verifier, every index in it, options, and its listing.
#include "emit/listing.h"
#include "stream/pour.h"
#include "stream/tflite_reader.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

constexpr uint64_t kPoured = 1024;

void pour(const tfl::Tensor& tensor) {
  if (!tensor.data) return;
  stream::Budget budget(fuzz::kBudget);
  const uint64_t count = std::min(tensor.data->elements(), kPoured);
  std::vector<std::byte> lanes(count * stream::lane_bytes(tensor.dtype));
  fuzz::only_errors([&] { stream::Pourer(tensor.data, budget).read(0, count, lanes.data()); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::MemoryFile file(fuzz::bytes_of(data, size));
  fuzz::only_errors([&] {
    tfl::Model model = stream::read_tflite(file.path());
    emit::Listing listing = emit::listing(model);
    emit::listing_text(listing);
    emit::listing_json(listing);
    for (const auto& subgraph : model.subgraphs)
      for (const auto& tensor : subgraph.tensors) pour(tensor);
  });
  return 0;
}
