// SPDX-License-Identifier: Apache-2.0
// The transposes that weights need: OIHW -> OHWI of a convolution, a big matrix, 5-D kernels; through the recipe, as
// the writer runs them, from memory.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>

#include "bench/micro/against_memcpy.h"
#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/recipe/recipe.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/recipe/transpose.h"

namespace lowtide::bench {
namespace {

using stream::DType;
using stream::RecipeRef;

constexpr uint64_t kAtOnce = uint64_t{4} << 20;  // what the writer asks for at a time
constexpr uint64_t kBudget = uint64_t{64} << 20;

void transposed(benchmark::State& state, DType dtype, const stream::Shape& dims, const stream::Perm& perm) {
  const uint64_t elements = stream::element_count(dims), bytes = stream::file_bytes(dtype, elements);
  auto source = stream::memory_source(std::vector<std::byte>(bytes, std::byte{3}), "weights");
  RecipeRef stored = stream::recipe::stored(source, {{.bytes = bytes, .elements = elements}}, dtype, dims);
  stream::Budget budget(kBudget);
  stream::RecipeReader reader(stream::recipe::permute(stored, perm), budget);
  std::vector<std::byte> out(kAtOnce + 64);
  const uint64_t step = reader.good_count(kAtOnce);
  against_memcpy(state, bytes, [&] {
    for (uint64_t first = 0; first < elements; first += step)
      reader.read_file_bytes(first, std::min(step, elements - first), out.data());
  });
}

void plane(benchmark::State& state, int lane, bool vectors) {
  constexpr int64_t kRows = 2048, kColumns = 2304;
  const size_t bytes = static_cast<size_t>(kRows * kColumns * lane);
  std::vector<std::byte> from(bytes), to(bytes);
  auto run = vectors ? stream::transpose_plane : stream::transpose_plane_scalar;
  against_memcpy(state, bytes, [&] { run(lane, from.data(), kColumns, to.data(), kRows, kRows, kColumns); });
}

[[maybe_unused]] const bool registered = [] {
  struct Case {
    const char* name;
    stream::Shape dims;
    stream::Perm perm;
  };
  const Case cases[] = {
      {"OIHW->OHWI 512x384x3x3", {512, 384, 3, 3}, {0, 2, 3, 1}},
      {"OIHW->OHWI 256x192x7x5", {256, 192, 7, 5}, {0, 2, 3, 1}},
      {"IOHW->OHWI 384x256x4x4", {384, 256, 4, 4}, {1, 2, 3, 0}},
      {"KN->NK 4096x3072", {4096, 3072}, {1, 0}},
      {"KN->NK 12288x3072", {12288, 3072}, {1, 0}},
      {"OIDHW->DHWIO 128x96x3x5x7", {128, 96, 3, 5, 7}, {2, 3, 4, 1, 0}},
  };
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt8})
    for (const Case& c : cases)
      benchmark::RegisterBenchmark(fmt::format("transpose/{}/{}", stream::dtype_name(dtype), c.name).c_str(),
                                   [=](benchmark::State& state) { transposed(state, dtype, c.dims, c.perm); })
          ->UseManualTime();
  for (int lane : {1, 2, 4, 8})
    for (bool vectors : {true, false})
      benchmark::RegisterBenchmark(fmt::format("plane/{} byte lanes/{}", lane, vectors ? "vectors" : "scalar").c_str(),
                                   [=](benchmark::State& state) { plane(state, lane, vectors); })
          ->UseManualTime();
  return true;
}();

}  // namespace
}  // namespace lowtide::bench
