// SPDX-License-Identifier: Apache-2.0
#include "emit/verify.h"

#include <gtest/gtest.h>

#include "tests/emit/models.h"

namespace lowtide::emit {
namespace {

// A tall matrix is compared in blocks; the report names the first byte that differs all the same.
TEST(Verify, NamesTheFirstDifferenceOfATallMatrix) {
  const int64_t rows = 20011, columns = 61;
  const auto count = static_cast<size_t>(rows * columns);
  const std::vector<float> input = ramp(count, 1, 1e-3F);
  std::vector<float> output(count);
  for (size_t i = 0; i < count; ++i) output[i % columns * rows + i / columns] = input[i];
  const auto expected = stream::recipe::permute(stored(input, {rows, columns}), {1, 0});
  stream::Budget budget(1 << 20);
  const VerifiedTensor equal = compare_constants(expected, stored(output, {columns, rows}), budget, nullptr);
  EXPECT_FALSE(equal.difference);
  for (size_t wrong : {count - 1, size_t{700001}, size_t{20010}}) {
    output[wrong] = -1;
    const VerifiedTensor found = compare_constants(expected, stored(output, {columns, rows}), budget, nullptr);
    ASSERT_TRUE(found.difference);
    EXPECT_EQ(*found.difference / sizeof(float), wrong);
    EXPECT_NE(found.digest, equal.digest);
  }
}

}  // namespace
}  // namespace lowtide::emit
