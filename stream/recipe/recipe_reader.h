// SPDX-License-Identifier: Apache-2.0
// Runs recipes tile by tile: the only place where the bytes of a weight come into being.
//
// Exactness: the bytes do not depend on the tile size, the budget, or the number of threads. Computation is in the
// recipe's own dtype; f16 and bf16 compute in f32 and round once, half to even, at each step, as ONNX Runtime does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stream/file/budget.h"
#include "stream/recipe/box.h"
#include "stream/recipe/recipe.h"

namespace lowtide::stream {

// Reads ranges of a recipe's flat, row-major elements. Takes its scratch tiles from the budget.
class RecipeReader {
 public:
  RecipeReader(const RecipeRef& recipe, Budget& budget);
  ~RecipeReader();
  RecipeReader(const RecipeReader&) = delete;
  RecipeReader& operator=(const RecipeReader&) = delete;

  // Elements [first, first + count) into `lanes` (count * lane_bytes(dtype) bytes), in any order of calls. Slower, and
  // with a further tile, when `lanes` is not aligned to the lane. One thread at a time.
  void read(uint64_t first, uint64_t count, std::byte* lanes);
  // The same in the form of the file: 4-bit types packed (`first` even for those).
  void read_file_bytes(uint64_t first, uint64_t count, std::byte* out);
  // How many elements one call should ask for so that it stays near `bytes` and little is read twice: whole inner axes,
  // and whole bytes of packed types. A transpose of a large matrix reads rows of bytes / rows(input) each, so there
  // larger `bytes` are faster.
  uint64_t good_count(uint64_t bytes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads boxes of a recipe's dims, not empty, as dense lanes; `lanes` is aligned to the lane. One thread at a time.
class BoxReader {
 public:
  BoxReader(RecipeRef recipe, Budget& budget);
  ~BoxReader();
  BoxReader(const BoxReader&) = delete;
  BoxReader& operator=(const BoxReader&) = delete;

  void read(const Box& box, std::byte* lanes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The least that a reader of this recipe takes from its budget.
uint64_t least_scratch(const Recipe& recipe);

bool is_small(const Recipe& recipe);  // at most kSmallElements
// A small recipe at once: its lanes. Throws Error(kInternal) when it is not small (callers ask first).
std::vector<std::byte> evaluate(const RecipeRef& recipe, Budget& budget);
std::vector<int64_t> evaluate_ints(const RecipeRef& recipe, Budget& budget);    // integers and bool
std::vector<double> evaluate_doubles(const RecipeRef& recipe, Budget& budget);  // any numeric type

}  // namespace lowtide::stream
