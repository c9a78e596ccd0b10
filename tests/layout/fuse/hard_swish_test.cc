// SPDX-License-Identifier: Apache-2.0
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

struct HardSwish : Fusing {
  Val x = input({2, 3, 5});

  bool found(Val y) { return fused(y) == Kinds{{Kind::kHardSwish, 1}}; }
};

TEST_F(HardSwish, FactorsInAnyOrder) {
  EXPECT_TRUE(found(b.mul(x, b.div(b.relu6(b.add(x, 3)), 6))));
  EXPECT_TRUE(found(b.div(b.mul(b.relu6(b.add(x, 3)), x), 6)));
  EXPECT_TRUE(found(b.mul(b.mul(x, b.relu6(b.add(x, 3))), 1.0 / 6)));
  EXPECT_TRUE(found(b.mul(b.relu_0_to_1(b.add(b.mul(x, 1.0 / 6), 0.5)), x)));
}

TEST_F(HardSwish, OtherConstantsAreNotHardSwish) {
  EXPECT_FALSE(found(b.mul(x, b.div(b.relu6(b.add(x, 2)), 6))));
  EXPECT_FALSE(found(b.mul(x, b.div(b.relu6(b.add(x, 3)), 5))));
  EXPECT_FALSE(found(b.mul(x, b.div(b.relu(b.add(x, 3)), 6))));
  EXPECT_FALSE(found(b.mul(x, b.relu_0_to_1(b.add(b.mul(x, 0.2), 0.5)))));
  Val other = b.tanh(x);
  EXPECT_FALSE(found(b.mul(other, b.div(b.relu6(b.add(x, 3)), 6))));
}

}  // namespace
}  // namespace lowtide::layout
