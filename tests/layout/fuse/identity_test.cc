// SPDX-License-Identifier: Apache-2.0
// Look-ups in tables of equal numbers. What is computed is judged by running it (tests/oracle).
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

struct EqualNumbers : Fusing {
  Val table(const std::vector<int64_t>& numbers, DType dtype = DType::kInt64) {
    return b.constant(stream::recipe::ints(numbers, dtype, {static_cast<core::Dim>(numbers.size())}));
  }
  const Kinds stays{{Kind::kGather, 1}};
};

TEST_F(EqualNumbers, AreThereWhateverTheIndices) {
  EXPECT_EQ(fused(b.gather(table({5, 5}), input({3, 7}, DType::kInt32), 0)), Kinds{});
  EXPECT_EQ(numbers(graph.outputs[0]), std::vector<double>(21, 5));
}

TEST_F(EqualNumbers, OthersStay) {
  constexpr int64_t kLarge = int64_t{1} << 53;
  const Val x = input({3, 7}, DType::kInt32);
  EXPECT_EQ(fused(b.gather(table({5, 6}), x, 0)), stays);
  EXPECT_EQ(fused(b.gather(table({kLarge, kLarge + 1}), x, 0)), stays);
  EXPECT_EQ(fused(b.gather(table({kLarge + 1, kLarge + 1}), x, 0)), stays);
}

TEST_F(EqualNumbers, SmallFloatsHaveTwoZeros) {
  const std::vector<std::byte> zeros{std::byte{0}, std::byte{0x80}};
  const Val of = b.constant(stream::recipe::inline_lanes(zeros, DType::kFloat8E4M3FN, {2}));
  EXPECT_EQ(fused(b.gather(of, input({3, 7}, DType::kInt32), 0)), stays);
}

TEST_F(EqualNumbers, ManyOfThemStayALookUp) {
  EXPECT_EQ(fused(b.gather(table({5, 5}), input({1 << 17, 1 << 17}, DType::kInt32), 0)), stays);
}

}  // namespace
}  // namespace lowtide::layout
