// SPDX-License-Identifier: Apache-2.0
// A TFLite file: the verifier, every index in it, options, and its listing. What we accept, flatbuffers' own
// verifier accepts too.
#include "emit/listing.h"
#include "schemas/tflite_generated.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/tflite/reader.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

constexpr uint64_t kReadAtOnce = 1024;

void read_all(const tfl::Tensor& tensor) {
  if (!tensor.data) return;
  stream::Budget budget(fuzz::kBudget);
  const uint64_t count = std::min(tensor.data->elements(), kReadAtOnce);
  std::vector<std::byte> lanes(count * stream::lane_bytes(tensor.dtype));
  fuzz::only_errors([&] { stream::RecipeReader(tensor.data, budget).read(0, count, lanes.data()); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bool done = fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    const tfl::Model model =
        stream::read_tflite(stream::memory_source(fuzz::bytes_of(data, size), "fuzz.tflite"), budget);
    const emit::Listing listing = emit::listing(model);
    emit::listing_text(listing);
    emit::listing_json(listing);
    for (const auto& subgraph : model.subgraphs)
      for (const auto& tensor : subgraph.tensors) read_all(tensor);
  });
  if (!done) return 0;
  // Aligned, as the verifier requires.
  std::vector<uint64_t> aligned((size + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  std::copy_n(data, size, reinterpret_cast<uint8_t*>(aligned.data()));
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(aligned.data()), size);
  if (!tflite::VerifyModelBuffer(verifier)) fuzz::finding("flatbuffers refuses what we took");
  return 0;
}
