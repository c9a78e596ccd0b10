// SPDX-License-Identifier: Apache-2.0
// Copies between arrays whose axes lie in different order: the kernel below permutations, slices, concatenations and
// paddings. Works in cache-sized planes with 8x8 register blocks; all variants give the same bytes.
#pragma once

#include <cstddef>

#include "stream/recipe/box.h"

namespace lowtide::stream {

// nest.strides[0] belongs to dst, nest.strides[1] to src, in elements of `lane` bytes (1, 2, 4, 8 or 16). dst is
// aligned to the lane (16: to 8); src need not be, because it may be a mapped file, where a tensor begins at any byte.
// They do not overlap, and no element of dst is visited twice.
void copy_nest(int lane, Nest nest, const std::byte* src, std::byte* dst);

// dst[j * dst_stride + i] = src[i * src_stride + j] for i < rows, j < columns; strides in elements.
void transpose_plane(int lane, const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride,
                     int64_t rows, int64_t columns);
// The same without vector instructions: the reference for tests, and the fallback.
void transpose_plane_scalar(int lane, const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride,
                            int64_t rows, int64_t columns);

}  // namespace lowtide::stream
