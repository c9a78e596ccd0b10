// SPDX-License-Identifier: Apache-2.0
#include "layout/core/kernel_limits.h"

#include <gtest/gtest.h>

namespace lowtide::core {
namespace {

using stream::DType;

// The numbers themselves are judged by the runtime (test_kernel_limits.py); here: the table is read as it is written.
TEST(KernelLimits, RowsAreFoundByKind) {
  const KernelLimits* add = kernel_limits(Kind::kAdd);
  ASSERT_NE(add, nullptr);
  EXPECT_TRUE(add->takes(DType::kFloat32));
  EXPECT_FALSE(add->takes(DType::kInt8));
  EXPECT_GE(add->broadcast_rank, 4);

  const KernelLimits* conv = kernel_limits(Kind::kConv2d);
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->min_rank, 4);
  EXPECT_EQ(conv->max_rank, 4);
  EXPECT_EQ(conv->broadcast_rank, 0);

  EXPECT_TRUE(kernel_takes(Kind::kBitwiseXor, DType::kUint32));
  EXPECT_FALSE(kernel_takes(Kind::kBitwiseXor, DType::kFloat32));
}

TEST(KernelLimits, QuantizedTypesAreSeparateFromPlainOnes) {
  const auto bit = [](DType dtype) { return uint32_t{1} << static_cast<unsigned>(dtype); };
  const KernelLimits* add = kernel_limits(Kind::kAdd);
  EXPECT_NE(add->quantized & bit(DType::kInt8), 0U);
  const KernelLimits* maximum = kernel_limits(Kind::kMaximum);
  EXPECT_EQ(maximum->quantized & bit(DType::kInt8), 0U);  // wrong unless the scales are equal
  EXPECT_NE(maximum->one_scale & bit(DType::kInt8), 0U);
}

TEST(KernelLimits, NullWhereNothingWasMeasured) {
  EXPECT_EQ(kernel_limits(Kind::kWhile), nullptr);
  EXPECT_EQ(kernel_limits(Kind::kTensorList), nullptr);
  EXPECT_EQ(kernel_limits(Kind::kDead), nullptr);
  EXPECT_FALSE(kernel_takes(Kind::kTensorList, DType::kFloat32));
}

}  // namespace
}  // namespace lowtide::core
