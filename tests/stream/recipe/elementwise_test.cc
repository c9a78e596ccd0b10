// SPDX-License-Identifier: Apache-2.0
// Expected numbers are those of ONNX Runtime 1.31 on x86-64 and of numpy 2, unless a line says otherwise.
#include "stream/recipe/elementwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "stream/error.h"

namespace lowtide::stream::elementwise {
namespace {

using testing::ElementsAre;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

template <typename To, typename From>
std::vector<To> casted(DType from, DType to, const std::vector<From>& in) {
  std::vector<To> out(in.size());
  cast(from, to, reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()), in.size());
  return out;
}

template <typename T>
std::vector<T> run(Unary op, DType dtype, std::vector<T> values) {
  auto* data = reinterpret_cast<std::byte*>(values.data());
  unary(op, dtype, data, data, values.size());
  return values;
}

template <typename R, typename T>
std::vector<R> run(Binary op, DType dtype, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<R> out(a.size());
  Shape size = {static_cast<Dim>(a.size())}, other = {static_cast<Dim>(b.size())};
  binary(op, dtype, size, {reinterpret_cast<const std::byte*>(a.data()), size},
         {reinterpret_cast<const std::byte*>(b.data()), other}, reinterpret_cast<std::byte*>(out.data()));
  return out;
}
std::vector<float> floats(Binary op, const std::vector<float>& a, const std::vector<float>& b) {
  return run<float>(op, DType::kFloat32, a, b);
}
std::vector<int32_t> ints(Binary op, const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return run<int32_t>(op, DType::kInt32, a, b);
}

TEST(Elementwise, CastsOfFloatsToIntegersMatchX86) {
  std::vector<float> x = {1.5f, -1.5f, 300.7f, -300.7f, 3e9f, -3e9f, 5e9f, 2e19f, kInf, -kInf, kNan, 40000, -128.9f};
  auto from = DType::kFloat32;
  EXPECT_THAT(casted<int8_t>(from, DType::kInt8, x), ElementsAre(1, -1, 44, -44, 0, 0, 0, 0, 0, 0, 0, 64, -128));
  EXPECT_THAT(casted<uint8_t>(from, DType::kUint8, x), ElementsAre(1, 255, 44, 212, 0, 0, 0, 0, 0, 0, 0, 64, 128));
  EXPECT_THAT(casted<int16_t>(from, DType::kInt16, x),
              ElementsAre(1, -1, 300, -300, 0, 0, 0, 0, 0, 0, 0, -25536, -128));
  EXPECT_THAT(casted<uint16_t>(from, DType::kUint16, x),
              ElementsAre(1, 65535, 300, 65236, 0, 0, 0, 0, 0, 0, 0, 40000, 65408));
  constexpr int32_t kMin32 = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(casted<int32_t>(from, DType::kInt32, x),
              ElementsAre(1, -1, 300, -300, kMin32, kMin32, kMin32, kMin32, kMin32, kMin32, kMin32, 40000, -128));
  EXPECT_THAT(casted<uint32_t>(from, DType::kUint32, x),
              ElementsAre(1, 4294967295, 300, 4294966996, 3000000000, 2147483648, 0, 0, 0, 2147483648, 2147483648,
                          40000, 4294967168));
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(
      casted<int64_t>(from, DType::kInt64, x),
      ElementsAre(1, -1, 300, -300, 3000000000, -3000000000, 5000000000, kMin64, kMin64, kMin64, kMin64, 40000, -128));
  EXPECT_THAT(casted<uint64_t>(from, DType::kUint64, x),
              ElementsAre(1, ~0ull, 300, 18446744073709551316ull, 3000000000, 18446744070709551616ull, 5000000000, 0, 0,
                          1ull << 63, 1ull << 63, 40000, 18446744073709551488ull));
  EXPECT_THAT(casted<uint8_t>(from, DType::kBool, std::vector<float>{0, -0.0f, 0.4f, kNan}), ElementsAre(0, 0, 1, 1));
  std::vector<double> wide(x.begin(), x.end());
  EXPECT_EQ(casted<uint32_t>(DType::kFloat64, DType::kUint32, wide), casted<uint32_t>(from, DType::kUint32, x));
  EXPECT_EQ(casted<int64_t>(DType::kFloat64, DType::kInt64, wide), casted<int64_t>(from, DType::kInt64, x));
}

TEST(Elementwise, CastsOfIntegersKeepTheLowBits) {
  std::vector<int32_t> x = {1, -1, 7, 8, 9, 15, 16, 17, -8, -9, 100, -100};
  EXPECT_THAT(casted<int8_t>(DType::kInt32, DType::kInt4, x), ElementsAre(1, -1, 7, -8, -7, -1, 0, 1, -8, 7, 4, -4));
  EXPECT_THAT(casted<uint8_t>(DType::kInt32, DType::kUint4, x), ElementsAre(1, 15, 7, 8, 9, 15, 0, 1, 8, 7, 4, 12));
  EXPECT_THAT(casted<int8_t>(DType::kInt32, DType::kInt2, std::vector<int32_t>{0, 1, 2, 3, 4, -3}),
              ElementsAre(0, 1, -2, -1, 0, 1));
  EXPECT_THAT(casted<float>(DType::kBool, DType::kFloat32, std::vector<uint8_t>{1, 0}), ElementsAre(1, 0));
  EXPECT_THAT(casted<float>(DType::kUint64, DType::kFloat32, std::vector<uint64_t>{~0ull}), ElementsAre(0x1p64f));
}

TEST(Elementwise, HalvesRoundToEven) {
  std::vector<float> x = {2049, 2051, 65519, 65520, 1e-8f, 6e-8f, -3.0000001e-8f, 1.00048828125f, kNan, 70000};
  EXPECT_THAT(casted<uint16_t>(DType::kFloat32, DType::kFloat16, x),
              ElementsAre(26624, 26626, 31743, 31744, 0, 1, 32769, 15360, 32256, 31744));
  std::vector<double> wide = {1.00048828125 + 0x1p-40, 65519.999999};
  EXPECT_THAT(casted<uint16_t>(DType::kFloat64, DType::kFloat16, wide), ElementsAre(15360, 31744));
  EXPECT_THAT(casted<uint16_t>(DType::kInt32, DType::kFloat16, std::vector<int32_t>{2147483647, 2049, -5, 65520}),
              ElementsAre(31744, 26624, 50432, 31744));
  // bfloat16 is the upper half of a float: 1 + 2^-8 is halfway between two of them, and so on.
  EXPECT_THAT(casted<uint16_t>(DType::kFloat32, DType::kBFloat16,
                               std::vector<float>{1.00390625f, 1.01171875f, 1.005f, 3.4e38f, -kInf}),
              ElementsAre(0x3f80, 0x3f82, 0x3f81, 0x7f80, 0xff80));
  EXPECT_THAT(casted<float>(DType::kFloat16, DType::kFloat32, std::vector<uint16_t>{0x3c01, 0x0001, 0x7c00, 0x8000}),
              ElementsAre(1.0009765625f, 0x1p-24f, kInf, -0.0f));
  EXPECT_THAT(casted<int32_t>(DType::kBFloat16, DType::kInt32, std::vector<uint16_t>{0x40a0, 0xc0b0}),
              ElementsAre(5, -5));
}

TEST(Elementwise, EveryHalfRoundTripsThroughFloat) {
  for (DType half : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<uint16_t> all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<float> floats = casted<float>(half, DType::kFloat32, all);
    std::vector<uint16_t> back = casted<uint16_t>(DType::kFloat32, half, floats);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_TRUE(std::isnan(floats[i]) || all[i] == back[i]) << i;
      const float expected = half == DType::kFloat16
                                 ? static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(all[i]))
                                 : static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(all[i]));
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(floats[i]) : floats[i] == expected) << i;
    }
  }
}

TEST(Elementwise, HalvesRoundLikeEigen) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    auto pattern = static_cast<uint32_t>(bits);
    x.emplace_back();
    std::memcpy(&x.back(), &pattern, sizeof(pattern));
  }
  std::vector<uint16_t> half = casted<uint16_t>(DType::kFloat32, DType::kFloat16, x);
  std::vector<uint16_t> brain = casted<uint16_t>(DType::kFloat32, DType::kBFloat16, x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(half[i], Eigen::numext::bit_cast<uint16_t>(Eigen::half(x[i]))) << x[i];
    ASSERT_EQ(brain[i], Eigen::numext::bit_cast<uint16_t>(Eigen::bfloat16(x[i]))) << x[i];
  }
}

TEST(Elementwise, UnaryEdges) {
  auto f32 = DType::kFloat32;
  EXPECT_THAT(run<float>(Unary::kRound, f32, {0.5f, 1.5f, 2.5f, -1.5f, -0.5f}), ElementsAre(0, 2, 2, -2, -0.0f));
  std::vector<float> signs = run<float>(Unary::kSign, f32, {kNan, -3, 0.25f, -0.0f});
  EXPECT_TRUE(std::isnan(signs[0]));
  EXPECT_THAT(std::vector<float>(signs.begin() + 1, signs.end()), ElementsAre(-1, 1, 0));
  std::vector<float> relu = run<float>(Unary::kRelu, f32, {kNan, -3, 4});
  EXPECT_TRUE(std::isnan(relu[0]));
  EXPECT_EQ(relu[1], 0);
  EXPECT_THAT(run<float>(Unary::kLogistic, f32, {0, -200, 200}), ElementsAre(0.5f, 0, 1));
  EXPECT_THAT(run<int8_t>(Unary::kNeg, DType::kInt8, {-128, 5}), ElementsAre(-128, -5));
  EXPECT_THAT(run<int8_t>(Unary::kAbs, DType::kInt8, {-128, -5}), ElementsAre(-128, 5));
  EXPECT_THAT(run<int8_t>(Unary::kNeg, DType::kInt4, {-8, 5}), ElementsAre(-8, -5));
  EXPECT_THAT(run<uint8_t>(Unary::kNot, DType::kUint4, {0, 5}), ElementsAre(15, 10));
  EXPECT_THAT(run<uint8_t>(Unary::kNot, DType::kBool, {0, 1}), ElementsAre(1, 0));
  EXPECT_THAT(run<int16_t>(Unary::kSquare, DType::kInt16, {300, -3}), ElementsAre(24464, 9));
  EXPECT_THAT(run<double>(Unary::kReciprocal, DType::kFloat64, {3, 0}), ElementsAre(1.0 / 3, HUGE_VAL));
}

TEST(Elementwise, FloatArithmetic) {
  EXPECT_THAT(floats(Binary::kAdd, {1, 2, 3}, {0.1f}), ElementsAre(1.1f, 2.1f, 3.1f));
  EXPECT_THAT(floats(Binary::kDiv, {1, -1, 2}, {0, 0, 3}), ElementsAre(kInf, -kInf, 2.0f / 3));
  for (Binary op : {Binary::kMin, Binary::kMax}) {
    std::vector<float> out = floats(op, {kNan, 1, 2}, {1, kNan, 3});
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_EQ(out[2], op == Binary::kMin ? 2 : 3);
  }
  EXPECT_THAT(floats(Binary::kFloorMod, {5, -5, 5, -5}, {3, 3, -3, -3}), ElementsAre(2, 1, -1, -2));
  EXPECT_THAT(floats(Binary::kTruncMod, {5, -5, 5, -5}, {3, 3, -3, -3}), ElementsAre(2, -2, 2, -2));
  EXPECT_THAT(floats(Binary::kFloorDiv, {5, -5, 7.5f}, {3, 3, -2}), ElementsAre(1, -2, -4));
  EXPECT_THAT(floats(Binary::kPow, {2, 9}, {-1, 0.5f}), ElementsAre(0.5f, 3));
  EXPECT_THAT((run<uint8_t, float>(Binary::kLess, DType::kFloat32, {1, 2, kNan}, {2, 2, 2})), ElementsAre(1, 0, 0));
  // f16 rounds after each step: 2048 + 1 is 2048.
  EXPECT_THAT((run<uint16_t, uint16_t>(Binary::kAdd, DType::kFloat16, {0x6800, 0x3c00}, {0x3c00, 0x3c00})),
              ElementsAre(0x6800, 0x4000));
}

TEST(Elementwise, IntegerArithmetic) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min(), kMax = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(ints(Binary::kAdd, {kMax, 1}, {1, 2}), ElementsAre(kMin, 3));
  EXPECT_THAT(ints(Binary::kMul, {65536, -3}, {65536, 7}), ElementsAre(0, -21));
  EXPECT_THAT(ints(Binary::kDiv, {7, -7, kMin}, {2, 2, -1}), ElementsAre(3, -3, kMin));
  EXPECT_THAT(ints(Binary::kFloorDiv, {7, -7, 7, -6}, {2, 2, -2, 3}), ElementsAre(3, -4, -4, -2));
  EXPECT_THAT(ints(Binary::kFloorMod, {5, -5, 5, -5}, {3, 3, -3, -3}), ElementsAre(2, 1, -1, -2));
  EXPECT_THAT(ints(Binary::kTruncMod, {5, -5, 5, kMin}, {3, 3, -3, -1}), ElementsAre(2, -2, 2, 0));
  EXPECT_THAT(ints(Binary::kPow, {2, 3, -2, 7, 1, -1, 5}, {10, 3, 3, 0, -5, -5, -1}),
              ElementsAre(1024, 27, -8, 1, 1, -1, 0));
  EXPECT_THAT(ints(Binary::kShiftRight, {-8, 8, -1, 1}, {1, 1, 40, 40}), ElementsAre(-4, 4, -1, 0));
  EXPECT_THAT((run<uint8_t, uint8_t>(Binary::kShiftLeft, DType::kUint8, {1, 3, 255}, {7, 8, 1})),
              ElementsAre(128, 0, 254));
  EXPECT_THAT((run<int8_t, int8_t>(Binary::kAdd, DType::kInt4, {7, -8}, {1, -1})), ElementsAre(-8, 7));
  EXPECT_THAT((run<uint16_t, uint16_t>(Binary::kMul, DType::kUint16, {65535}, {65535})), ElementsAre(1));
  EXPECT_THAT((run<uint8_t, uint8_t>(Binary::kXor, DType::kBool, {1, 1, 0}, {1, 0, 0})), ElementsAre(0, 1, 0));
  for (Binary op : {Binary::kDiv, Binary::kFloorDiv, Binary::kFloorMod, Binary::kTruncMod})
    EXPECT_THROW(ints(op, {1}, {0}), Error);
  EXPECT_THROW(ints(Binary::kPow, {0}, {-1}), Error);
}

TEST(Elementwise, BroadcastsWithoutCopies) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {10, 20, 30}, out(18);  // [2,1,3] - [3,1]
  binary(Binary::kSub, DType::kFloat32, Shape{2, 3, 3}, {reinterpret_cast<const std::byte*>(a.data()), Shape{2, 1, 3}},
         {reinterpret_cast<const std::byte*>(b.data()), Shape{1, 3, 1}}, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_THAT(out, ElementsAre(-9, -8, -7, -19, -18, -17, -29, -28, -27, -6, -5, -4, -16, -15, -14, -26, -25, -24));
}

TEST(Elementwise, QuantizesLikeOnnxRuntime) {
  std::vector<float> x = {kNan, kInf, -kInf, 0.5f, 1.5f, 2.5f, 1e30f, -0.5f, -1.5f, 0.26f, 126.6f, 127.4f, -130};
  auto* in = reinterpret_cast<const std::byte*>(x.data());
  std::vector<uint8_t> u8(13);
  quantize(DType::kFloat32, DType::kUint8, 1, 3, in, reinterpret_cast<std::byte*>(u8.data()), 13);
  EXPECT_THAT(u8, ElementsAre(0, 255, 0, 3, 5, 5, 255, 3, 1, 3, 130, 130, 0));
  std::vector<int8_t> i8(13);
  quantize(DType::kFloat32, DType::kInt8, 0.3f, 3, in, reinterpret_cast<std::byte*>(i8.data()), 13);
  EXPECT_THAT(i8, ElementsAre(-128, 127, -128, 5, 8, 11, 127, 1, -2, 4, 127, 127, -128));
  std::vector<int16_t> i16(13);
  quantize(DType::kFloat32, DType::kInt16, 0.3f, 3, in, reinterpret_cast<std::byte*>(i16.data()), 13);
  EXPECT_THAT(i16, ElementsAre(-32768, 32767, -32768, 5, 8, 11, 32767, 1, -2, 4, 425, 428, -430));
  std::vector<int32_t> i32(13);
  quantize(DType::kFloat32, DType::kInt32, 1e-7f, 0, in, reinterpret_cast<std::byte*>(i32.data()), 13);
  EXPECT_THAT(i32, ElementsAre(std::numeric_limits<int32_t>::min(), 2147483647, std::numeric_limits<int32_t>::min(),
                               5000000, 15000000, 25000000, 2147483647, -5000000, -15000000, 2600000, 1266000000,
                               1274000000, -1300000000));
  quantize(DType::kFloat32, DType::kInt4, 1, 0, in, reinterpret_cast<std::byte*>(i8.data()), 13);
  EXPECT_THAT(i8, ElementsAre(-8, 7, -8, 0, 2, 2, 7, 0, -2, 0, 7, 7, -8));
  std::vector<float> scales = {1, 1, 1, 0.5f, 0.25f, 1, 1, 1, 0.5f, 0.1f, 1, 2, 10};
  quantize_each(DType::kFloat32, DType::kInt8, scales.data(), 3, in, reinterpret_cast<std::byte*>(i8.data()), 13);
  EXPECT_THAT(i8, ElementsAre(-128, 127, -128, 4, 9, 5, 127, 3, 0, 6, 127, 67, -10));
  std::vector<float> back(3);
  std::vector<uint8_t> q = {0, 128, 255};
  dequantize(DType::kUint8, 0.1f, 128, reinterpret_cast<const std::byte*>(q.data()),
             reinterpret_cast<std::byte*>(back.data()), 3);
  EXPECT_THAT(back, ElementsAre(-128 * 0.1f, 0, 127 * 0.1f));
}

TEST(Elementwise, TypesWithoutArithmeticAreErrors) {
  EXPECT_FALSE(takes(Binary::kAdd, DType::kBool));
  EXPECT_FALSE(takes(Binary::kAnd, DType::kFloat32));
  EXPECT_FALSE(takes(Binary::kAdd, DType::kFloat8E4M3FN));
  EXPECT_FALSE(takes(Unary::kSqrt, DType::kInt32));
  EXPECT_FALSE(takes(Reduction::kSum, DType::kBool));
  EXPECT_FALSE(castable(DType::kString));
  std::byte lanes[16] = {};
  EXPECT_THROW(cast(DType::kComplex64, DType::kFloat32, lanes, lanes + 8, 1), Error);
}

}  // namespace
}  // namespace lowtide::stream::elementwise
