// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/transpose.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "stream/error.h"

namespace lowtide::stream {
namespace {

std::vector<std::byte> distinct(size_t bytes) {
  std::vector<std::byte> out(bytes);
  uint32_t state = 12345;
  for (std::byte& byte : out) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  return out;
}

TEST(Transpose, EveryKernelMatchesTheScalarLoop) {
  for (int lane : {1, 2, 4, 8, 16})
    for (int64_t rows : {1, 3, 8, 9, 15, 16, 31, 64})
      for (int64_t columns : {1, 2, 7, 8, 10, 17, 24, 40}) {
        int64_t src_stride = columns + 3, dst_stride = rows + 5;
        auto src = distinct(static_cast<size_t>(rows * src_stride * lane));
        std::vector<std::byte> fast(static_cast<size_t>(columns * dst_stride * lane)), slow = fast;
        transpose_plane(lane, src.data(), src_stride, fast.data(), dst_stride, rows, columns);
        transpose_plane_scalar(lane, src.data(), src_stride, slow.data(), dst_stride, rows, columns);
        ASSERT_EQ(fast, slow) << lane << " " << rows << "x" << columns;
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j)
            ASSERT_EQ(0,
                      std::memcmp(&slow[static_cast<size_t>((j * dst_stride + i) * lane)],
                                  &src[static_cast<size_t>((i * src_stride + j) * lane)], static_cast<size_t>(lane)));
      }
}

TEST(Transpose, LoopNestsCopyEveryElementOnce) {
  Shape dims = {3, 10, 2, 17};
  std::vector<uint32_t> src(3 * 10 * 2 * 17);
  std::iota(src.begin(), src.end(), 1u);
  Perm perm = {0, 1, 2, 3};
  do {
    Shape size = permuted(dims, perm), from(4), to = dense_strides(size), strides = dense_strides(dims);
    for (size_t i = 0; i < 4; ++i) from[i] = strides[static_cast<size_t>(perm[i])];
    std::vector<uint32_t> dst(src.size());
    copy_nest(4, {size, {to, from, {}, {}}}, reinterpret_cast<const std::byte*>(src.data()),
              reinterpret_cast<std::byte*>(dst.data()));
    Shape at(4, 0);
    size_t i = 0;
    do {
      int64_t place = 0;
      for (size_t k = 0; k < 4; ++k) place += at[k] * from[k];
      ASSERT_EQ(dst[i++], src[static_cast<size_t>(place)]);
    } while (advance(at, size, 4));
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(Transpose, StridesMayBeZeroOrNegative) {
  std::vector<uint16_t> src = {1, 2, 3, 4, 5, 6}, dst(12);
  auto* from = reinterpret_cast<const std::byte*>(src.data());
  auto* to = reinterpret_cast<std::byte*>(dst.data());
  copy_nest(2, {{2, 6}, {Shape{6, 1}, Shape{0, -1}, {}, {}}}, from + 10, to);
  EXPECT_EQ(dst, (std::vector<uint16_t>{6, 5, 4, 3, 2, 1, 6, 5, 4, 3, 2, 1}));
  copy_nest(2, {{3, 4}, {Shape{4, 1}, Shape{2, 0}, {}, {}}}, from, to);
  EXPECT_EQ(dst, (std::vector<uint16_t>{1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5}));
  EXPECT_THROW(copy_nest(3, {{2}, {Shape{1}, Shape{1}, {}, {}}}, from, to), Error);
}

TEST(Box, FlatRangesAreAFewBoxes) {
  Shape dims = {3, 5, 2, 7};
  for (uint64_t first = 0; first < 210; first += 3)
    for (uint64_t count = 1; first + count <= 210; count += 4) {
      uint64_t next = 0;
      int boxes = 0;
      for_each_box(dims, first, count, [&](const Box& box, uint64_t offset) {
        ASSERT_EQ(offset, next);
        int runs = 0;
        for_each_run(box, dims, [&](uint64_t run, uint64_t length) {
          ASSERT_EQ(run, first + next);
          next += length;
          ++runs;
        });
        ASSERT_EQ(runs, 1);
        ++boxes;
      });
      ASSERT_EQ(next, count);
      ASSERT_LE(boxes, 7);
    }
}

TEST(Box, PiecesCoverTheBoxInOrder) {
  Box box{{1, 0, 2, 3}, {3, 4, 1, 6}};
  for (uint64_t most : {1u, 5u, 6u, 7u, 12u, 30u, 72u, 100u}) {
    uint64_t next = 0;
    for_each_piece(box, most, [&](const Box& piece, uint64_t offset) {
      ASSERT_EQ(offset, next);
      ASSERT_LE(piece.elements(), most);
      for (size_t i = 0; i < 4; ++i) {
        ASSERT_GE(piece.begin[i], box.begin[i]);
        ASSERT_LE(piece.begin[i] + piece.size[i], box.begin[i] + box.size[i]);
      }
      next += piece.elements();
    });
    ASSERT_EQ(next, box.elements());
  }
}

}  // namespace
}  // namespace lowtide::stream
