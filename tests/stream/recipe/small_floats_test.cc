// SPDX-License-Identifier: Apache-2.0
// Numbers are those of ml_dtypes 0.5 and of ONNX's tables.
#include "stream/recipe/small_floats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "stream/error.h"

namespace lowtide::stream {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kSigned[] = {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ,
                             DType::kFloat4E2M1};

TEST(SmallFloats, HaveTheNumbersOfTheirFormats) {
  const auto e4m3 = small_float_values(DType::kFloat8E4M3FN), e5m2 = small_float_values(DType::kFloat8E5M2);
  EXPECT_EQ(e4m3.size(), 256u);
  EXPECT_EQ(e4m3[1], 0.001953125f);
  EXPECT_EQ(e4m3[0x7e], 448);
  EXPECT_TRUE(std::isnan(e4m3[0x7f]) && std::isnan(e4m3[0xff]));
  EXPECT_TRUE(std::signbit(e4m3[0x80]));
  EXPECT_EQ(e5m2[0x7b], 57344);
  EXPECT_EQ(e5m2[0x7c], kInf);
  EXPECT_EQ(e5m2[0xfc], -kInf);
  EXPECT_TRUE(std::isnan(e5m2[0x7d]));
  EXPECT_EQ(small_float_values(DType::kFloat8E4M3FNUZ)[0x7f], 240);
  EXPECT_TRUE(std::isnan(small_float_values(DType::kFloat8E4M3FNUZ)[0x80]));
  EXPECT_EQ(small_float_values(DType::kFloat8E5M2FNUZ)[0xff], -57344);
  EXPECT_THAT(small_float_values(DType::kFloat4E2M1),
              testing::ElementsAre(0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6));
  const auto powers = small_float_values(DType::kFloat8E8M0);
  EXPECT_EQ(powers[0], std::ldexp(1.0f, -127));
  EXPECT_EQ(powers[127], 1);
  EXPECT_EQ(powers[254], std::ldexp(1.0f, 127));
  EXPECT_TRUE(std::isnan(powers[255]));
}

TEST(SmallFloats, EachNumberKeepsItsBits) {
  for (const DType dtype : kSigned) {
    const auto values = small_float_values(dtype);
    for (size_t bits = 0; bits < values.size(); ++bits) {
      if (!std::isfinite(values[bits])) continue;
      EXPECT_EQ(small_float_bits(dtype, values[bits]), bits) << dtype_name(dtype);
    }
  }
}

TEST(SmallFloats, PowersOfTwoAreExactOrAnError) {
  const auto powers = small_float_values(DType::kFloat8E8M0);
  for (size_t bits = 0; bits < powers.size(); ++bits)
    EXPECT_EQ(small_float_bits(DType::kFloat8E8M0, powers[bits]), bits);
  for (const float other : {0.0f, -1.0f, 3.0f, kInf, std::ldexp(1.0f, -128)})
    EXPECT_THROW(small_float_bits(DType::kFloat8E8M0, other), Error) << other;
}

// Between neighbours: the nearer one, of two equally near ones the even one.
TEST(SmallFloats, RoundHalfToEven) {
  for (const DType dtype : kSigned) {
    const auto values = small_float_values(dtype);
    for (size_t bits = 0; bits + 1 < values.size() / 2 && values[bits + 1] < kInf; ++bits) {
      const float middle = (values[bits] + values[bits + 1]) / 2;
      const size_t even = bits % 2 == 0 ? bits : bits + 1;
      EXPECT_EQ(small_float_bits(dtype, middle), even) << dtype_name(dtype) << " " << middle;
      EXPECT_EQ(small_float_bits(dtype, std::nextafter(middle, 0.0f)), bits) << dtype_name(dtype) << " " << middle;
      EXPECT_EQ(small_float_bits(dtype, std::nextafter(middle, kInf)), bits + 1) << dtype_name(dtype) << " " << middle;
    }
  }
}

TEST(SmallFloats, Saturate) {
  EXPECT_EQ(small_float_bits(DType::kFloat8E4M3FN, 1e30f), 0x7e);
  EXPECT_EQ(small_float_bits(DType::kFloat8E4M3FN, -kInf), 0xfe);
  EXPECT_EQ(small_float_bits(DType::kFloat8E5M2, kInf), 0x7b);
  EXPECT_EQ(small_float_bits(DType::kFloat8E5M2FNUZ, -kInf), 0xff);
  EXPECT_EQ(small_float_bits(DType::kFloat4E2M1, 7), 0x7);
}

TEST(SmallFloats, ZerosAndNan) {
  EXPECT_EQ(small_float_bits(DType::kFloat8E4M3FN, -0.0f), 0x80);
  EXPECT_EQ(small_float_bits(DType::kFloat8E4M3FN, -1e-9f), 0x80);
  EXPECT_EQ(small_float_bits(DType::kFloat8E4M3FNUZ, -0.0f), 0);
  EXPECT_EQ(small_float_bits(DType::kFloat8E4M3FNUZ, -1e-9f), 0);
  EXPECT_EQ(small_float_bits(DType::kFloat8E4M3FN, kNan), 0x7f);
  EXPECT_EQ(small_float_bits(DType::kFloat8E5M2, -kNan), 0xfe);
  EXPECT_EQ(small_float_bits(DType::kFloat8E5M2FNUZ, kNan), 0x80);
  EXPECT_EQ(small_float_bits(DType::kFloat4E2M1, kNan), 0x8);
}

// All f32 but for the lowest bits of the mantissa, against arithmetic in double.
TEST(SmallFloats, AreTheNearestToEachFloat) {
  for (const DType dtype : kSigned) {
    const SmallFloat& format = small_float(dtype);
    const auto values = small_float_values(dtype);
    for (uint64_t pattern = 0; pattern < (uint64_t{1} << 32); pattern += 4099) {
      const auto x = std::bit_cast<float>(static_cast<uint32_t>(pattern));
      if (std::isnan(x) || x == 0) continue;
      const double kept = std::fmin(std::fabs(static_cast<double>(x)), format.largest);
      const int exponent = std::max(std::ilogb(kept), format.smallest_exponent) - format.mantissa_bits;
      const double want = std::ldexp(std::nearbyint(std::ldexp(kept, -exponent)), exponent);
      ASSERT_EQ(values[small_float_bits(dtype, x)], x < 0 ? -want : want) << dtype_name(dtype) << " " << x;
    }
  }
}

}  // namespace
}  // namespace lowtide::stream
