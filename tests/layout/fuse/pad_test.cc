// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

using Amounts = std::vector<int64_t>;

struct PadRules : Fusing {
  Val x = input({1, 7, 9, 3});
  Val padded(Amounts before, Amounts after, double value = 0) { return b.pad(x, before, after, value); }
  Val pool(Val v) { return b.max_pool_2d(v, {.padding = core::Padding::kValid, .filter_h = 3, .filter_w = 3}); }
  const Kinds conv_only{{Kind::kConv2d, 1}}, conv_and_pad{{Kind::kPad, 1}, {Kind::kConv2d, 1}};
};

TEST_F(PadRules, PadsEqualToSameAreRemoved) {
  EXPECT_EQ(fused(conv(padded({0, 1, 1, 0}, {0, 1, 1, 0}), 4, 3)), conv_only);
  EXPECT_EQ(std::get<core::Conv2dOptions>(only(Kind::kConv2d).options).padding, core::Padding::kSame);
}

TEST_F(PadRules, OtherAmountsAxesAndValuesStay) {
  EXPECT_EQ(fused(conv(padded({0, 2, 0, 0}, {0, 0, 2, 0}), 4, 3)), conv_and_pad);
  EXPECT_EQ(fused(conv(padded({0, 1, 1, 1}, {0, 1, 1, 0}), 4, 3)), conv_and_pad);
  EXPECT_EQ(fused(conv(padded({1, 1, 1, 0}, {0, 1, 1, 0}), 4, 3)), conv_and_pad);
  EXPECT_EQ(fused(conv(padded({0, 1, 1, 0}, {0, 1, 1, 0}, 0.5), 4, 3)), (Kinds{{Kind::kPadv2, 1}, {Kind::kConv2d, 1}}));
  Val p = padded({0, 1, 1, 0}, {0, 1, 1, 0});
  EXPECT_EQ(fused({conv(p, 4, 3), p}), conv_and_pad);
}

TEST_F(PadRules, AnEvenSizeWithAStrideIsPaddedAtTheEndOnly) {
  Val even = input({1, 8, 10, 3});
  core::Conv2dOptions strided{.padding = core::Padding::kValid, .stride_h = 2, .stride_w = 2};
  const Amounts none{0, 0, 0, 0}, behind{0, 1, 1, 0};
  EXPECT_EQ(fused(conv(b.pad(even, none, behind, 0), 4, 3, strided)), conv_only);
  EXPECT_EQ(fused(conv(b.pad(even, behind, behind, 0), 4, 3, strided)), conv_and_pad);
}

TEST_F(PadRules, ADynamicSizeIsNotKnownToBeSame) {
  Val dynamic = input({1, symbols.named("H"), 9, 3});
  const Amounts around{0, 1, 1, 0};
  EXPECT_EQ(fused(conv(b.pad(dynamic, around, around, 0), 4, 3)), conv_and_pad);
}

TEST_F(PadRules, MaxPoolFoldsOnlyMinusInfinity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(fused(pool(padded({0, 1, 1, 0}, {0, 1, 1, 0}, -kInfinity))), (Kinds{{Kind::kMaxPool2d, 1}}));
  for (double value : {0.0, 1.0, kInfinity, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(fused(pool(padded({0, 1, 1, 0}, {0, 1, 1, 0}, value)))[Kind::kMaxPool2d], 1);
  EXPECT_EQ(graph.ops.size(), 2u);  // the last one: NaN
}

TEST_F(PadRules, AveragePoolFoldsNoPads) {
  Val mean = b.average_pool_2d(padded({0, 1, 1, 0}, {0, 1, 1, 0}),
                               {.padding = core::Padding::kValid, .filter_h = 3, .filter_w = 3});
  EXPECT_EQ(fused(mean), (Kinds{{Kind::kPad, 1}, {Kind::kAveragePool2d, 1}}));
}

TEST_F(PadRules, TwoInARowMergeIfTheirValuesAreEqual) {
  const Amounts one{0, 1, 0, 2}, two{1, 0, 3, 1}, none{0, 0, 0, 0};
  EXPECT_EQ(fused(b.pad(b.pad(x, one, none, 0), two, one, 0)), (Kinds{{Kind::kPad, 1}}));
  EXPECT_EQ(*graph.ints(only(Kind::kPad).inputs[1]), (Amounts{1, 0, 1, 1, 3, 0, 3, 2}));
  EXPECT_EQ(fused(b.pad(b.pad(x, one, none, 2), two, one, 0)), (Kinds{{Kind::kPadv2, 1}, {Kind::kPad, 1}}));
}

TEST_F(PadRules, TwoWhoseSumExceeds32BitsStay) {
  const Amounts most{0, std::numeric_limits<int32_t>::max(), 0, 0}, none{0, 0, 0, 0};
  EXPECT_EQ(fused(b.pad(b.pad(x, most, none, 0), most, none, 0)), (Kinds{{Kind::kPad, 2}}));
}

}  // namespace
}  // namespace lowtide::layout
