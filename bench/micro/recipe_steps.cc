// SPDX-License-Identifier: Apache-2.0
// Every step of a recipe by itself, over weights of 16 MiB in memory, read as the writer does.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "bench/micro/against_memcpy.h"
#include "bench/uniform.h"
#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/recipe/recipe.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::bench {
namespace {

namespace recipe = stream::recipe;
using stream::DType;
using stream::RecipeRef;

constexpr uint64_t kAtOnce = uint64_t{4} << 20;
constexpr int64_t kRows = 1024, kColumns = 4096;

RecipeRef weights() {
  static const RecipeRef stored = [] {
    std::vector<float> values(kRows * kColumns);
    Uniform(7, "weights", 0.01f, 2).fill(0, values);
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const uint64_t size = bytes.size();
    return recipe::stored(stream::memory_source(std::move(bytes), "weights"),
                          {{.bytes = size, .elements = values.size()}}, DType::kFloat32, {kRows, kColumns});
  }();
  return stored;
}

RecipeRef per_row() { return recipe::slice(weights(), {0, 0}, {kRows, 1}, {1, 1}); }

// Ratios are by the bytes that come out.
void run_recipe(benchmark::State& state, const std::function<RecipeRef()>& make) {
  RecipeRef made = make();
  stream::Budget budget(uint64_t{64} << 20);
  stream::RecipeReader reader(made, budget);
  std::vector<std::byte> out(kAtOnce + 64);
  const uint64_t elements = made->elements(), step = reader.good_count(kAtOnce);
  against_memcpy(state, made->bytes(), [&] {
    for (uint64_t first = 0; first < elements; first += step)
      reader.read_file_bytes(first, std::min(step, elements - first), out.data());
  });
}

struct Case {
  const char* name;
  std::function<RecipeRef()> make;
};

const std::vector<float>& scales() {
  static const std::vector<float> values(kRows, 0.01f);
  return values;
}

const Case kCases[] = {
    {"stored", weights},
    {"fill",
     [] {
       return recipe::fill_value(1, DType::kFloat32, {kRows, kColumns});
     }},
    {"cast f32->f16", [] { return recipe::cast(weights(), DType::kFloat16); }},
    {"cast f32->f64->f32", [] { return recipe::cast(recipe::cast(weights(), DType::kFloat64), DType::kFloat32); }},
    {"cast f16->f32", [] { return recipe::cast(recipe::cast(weights(), DType::kFloat16), DType::kFloat32); }},
    {"cast bf16->f32", [] { return recipe::cast(recipe::cast(weights(), DType::kBFloat16), DType::kFloat32); }},
    {"cast f32->i32", [] { return recipe::cast(weights(), DType::kInt32); }},
    {"slice",
     [] {
       return recipe::slice(weights(), {1, 3}, {kRows - 2, kColumns - 7}, {1, 1});
     }},
    {"slice reversed",
     [] {
       return recipe::slice(weights(), {0, kColumns - 1}, {kRows, kColumns}, {1, -1});
     }},
    {"concat",
     [] {
       return recipe::concat({weights(), weights()}, 1);
     }},
    {"broadcast",
     [] {
       return recipe::broadcast(per_row(), {kRows, kColumns});
     }},
    {"pad",
     [] {
       return recipe::pad(weights(), {1, 2}, {3, 5}, std::vector<std::byte>(4));
     }},
    {"gather",
     [] {
       return recipe::gather(weights(), 0, {5, 3, 900, 17, 64, 65, 66, 1});
     }},
    {"mul per channel", [] { return recipe::binary(stream::Binary::kMul, weights(), per_row()); }},
    {"add", [] { return recipe::binary(stream::Binary::kAdd, weights(), weights()); }},
    {"rsqrt", [] { return recipe::unary(stream::Unary::kRsqrt, weights()); }},
    {"exp", [] { return recipe::unary(stream::Unary::kExp, weights()); }},
    {"quantize int8 per row",
     [] { return recipe::quantize(weights(), DType::kInt8, scales(), std::vector<int64_t>(kRows), 0); }},
    {"quantize int4 per row",
     [] { return recipe::quantize(weights(), DType::kInt4, scales(), std::vector<int64_t>(kRows), 0); }},
    {"dequantize int8 per row",
     [] {
       auto small = recipe::quantize(weights(), DType::kInt8, scales(), std::vector<int64_t>(kRows), 0);
       return recipe::dequantize(small, scales(), std::vector<int64_t>(kRows), 0);
     }},
};

// Reductions read everything and write next to nothing: by the bytes that go in.
void reduce(benchmark::State& state, stream::Reduction op, int axis) {
  RecipeRef made = recipe::reduce(op, weights(), {axis});
  std::vector<std::byte> out(made->bytes());
  against_memcpy(state, weights()->bytes(), [&] {
    stream::Budget budget(uint64_t{64} << 20);
    stream::RecipeReader(made, budget).read(0, made->elements(), out.data());
  });
}

[[maybe_unused]] const bool registered = [] {
  for (const Case& c : kCases)
    benchmark::RegisterBenchmark(fmt::format("step/{}", c.name).c_str(), [&c](benchmark::State& state) {
      run_recipe(state, c.make);
    })->UseManualTime();
  for (auto [name, op] : {std::pair{"sum", stream::Reduction::kSum}, std::pair{"max", stream::Reduction::kMax}})
    for (int axis : {0, 1})
      benchmark::RegisterBenchmark(fmt::format("step/reduce {} over axis {}", name, axis).c_str(),
                                   [=](benchmark::State& state) { reduce(state, op, axis); })
          ->UseManualTime();
  return true;
}();

}  // namespace
}  // namespace lowtide::bench
