// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/transpose.h"

#include <cstring>

#include "stream/error.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lowtide::stream {
namespace {

struct Lane16 {
  uint64_t low, high;
};

// Calls visit(T{}) with the unsigned type of `lane` bytes.
template <typename Visit>
void with_lane(int lane, Visit&& visit) {
  switch (lane) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    case 8:
      return visit(uint64_t{});
    case 16:
      return visit(Lane16{});
    default:
      throw Error(Code::kInternal, "elements of this size cannot be copied");
  }
}

// Elements at any address.
template <typename T>
class Unaligned {
 public:
  explicit Unaligned(const std::byte* data) : data_(data) {}
  T operator[](int64_t i) const {
    T element;
    std::memcpy(&element, bytes(i), sizeof(T));
    return element;
  }
  const std::byte* bytes(int64_t i) const { return data_ + i * int64_t{sizeof(T)}; }
  Unaligned operator+(int64_t elements) const { return Unaligned(bytes(elements)); }

 private:
  const std::byte* data_;
};

template <typename T>
void plane(Unaligned<T> src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) dst[j * dst_stride + i] = src[i * src_stride + j];
}

constexpr int64_t kBlock = 8;

#if defined(__x86_64__)
// A mapped source is in memory and not in a cache. Where rows are short, as those of filters, a block is a run of it,
// and the processor's own prefetching ends at each page: so what comes a page later is asked for.
constexpr int64_t kShortRow = 128, kPrefetchAhead = 4096, kCacheLine = 64;
void prefetch_rows(const std::byte* src, int64_t src_stride) {
  if (src_stride > kShortRow) return;
  for (int64_t at = 0; at < kBlock * src_stride; at += kCacheLine) __builtin_prefetch(src + kPrefetchAhead + at);
}

// One 8x8 block each. Strides in bytes.
void block8(const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride, uint8_t) {
  __m128i r[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + i * src_stride));
  __m128i a[4], b[4];
  for (int i = 0; i < 4; ++i) a[i] = _mm_unpacklo_epi8(r[2 * i], r[2 * i + 1]);
  for (int i = 0; i < 2; ++i) {
    b[2 * i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    __m128i low = _mm_unpacklo_epi32(b[i], b[i + 2]), high = _mm_unpackhi_epi32(b[i], b[i + 2]);
    std::byte* to = dst + 4 * i * dst_stride;
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), low);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + dst_stride), _mm_unpackhi_epi64(low, low));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2 * dst_stride), high);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 3 * dst_stride), _mm_unpackhi_epi64(high, high));
  }
}

void block8(const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride, uint16_t) {
  __m128i r[8], a[8], b[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i * src_stride));
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    a[i + 4] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
  for (int half = 0; half < 2; ++half) {
    const __m128i* from = a + 4 * half;
    b[4 * half] = _mm_unpacklo_epi32(from[0], from[1]);
    b[4 * half + 1] = _mm_unpackhi_epi32(from[0], from[1]);
    b[4 * half + 2] = _mm_unpacklo_epi32(from[2], from[3]);
    b[4 * half + 3] = _mm_unpackhi_epi32(from[2], from[3]);
  }
  auto store = [&](int row, __m128i value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + row * dst_stride), value);
  };
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 2; ++i) {
      store(4 * half + 2 * i, _mm_unpacklo_epi64(b[4 * half + i], b[4 * half + i + 2]));
      store(4 * half + 2 * i + 1, _mm_unpackhi_epi64(b[4 * half + i], b[4 * half + i + 2]));
    }
}

__attribute__((target("avx2"))) void block8(const std::byte* src, int64_t src_stride, std::byte* dst,
                                            int64_t dst_stride, uint32_t) {
  __m256 r[8], a[8], b[8];
  // Halves of rows i and i + 4 side by side, so that no lane crossing is left for the end.
  for (int i = 0; i < 4; ++i) {
    auto* top = reinterpret_cast<const float*>(src + i * src_stride);
    auto* bottom = reinterpret_cast<const float*>(src + (i + 4) * src_stride);
    r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(top)), _mm_loadu_ps(bottom), 1);
    r[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(top + 4)), _mm_loadu_ps(bottom + 4), 1);
  }
  for (int half = 0; half < 8; half += 4) {
    a[half] = _mm256_unpacklo_ps(r[half], r[half + 1]);
    a[half + 1] = _mm256_unpackhi_ps(r[half], r[half + 1]);
    a[half + 2] = _mm256_unpacklo_ps(r[half + 2], r[half + 3]);
    a[half + 3] = _mm256_unpackhi_ps(r[half + 2], r[half + 3]);
    b[half] = _mm256_shuffle_ps(a[half], a[half + 2], 0x44);
    b[half + 1] = _mm256_shuffle_ps(a[half], a[half + 2], 0xee);
    b[half + 2] = _mm256_shuffle_ps(a[half + 1], a[half + 3], 0x44);
    b[half + 3] = _mm256_shuffle_ps(a[half + 1], a[half + 3], 0xee);
  }
  for (int i = 0; i < 8; ++i) _mm256_storeu_ps(reinterpret_cast<float*>(dst + i * dst_stride), b[i]);
}

__attribute__((target("avx2"))) void block8(const std::byte* src, int64_t src_stride, std::byte* dst,
                                            int64_t dst_stride, uint64_t) {
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 8; j += 4) {
      __m256i r[4];
      for (int k = 0; k < 4; ++k)
        r[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + (i + k) * src_stride + j * 8));
      __m256i a = _mm256_unpacklo_epi64(r[0], r[1]), b = _mm256_unpackhi_epi64(r[0], r[1]);
      __m256i c = _mm256_unpacklo_epi64(r[2], r[3]), d = _mm256_unpackhi_epi64(r[2], r[3]);
      __m256i out[4] = {_mm256_permute2x128_si256(a, c, 0x20), _mm256_permute2x128_si256(b, d, 0x20),
                        _mm256_permute2x128_si256(a, c, 0x31), _mm256_permute2x128_si256(b, d, 0x31)};
      for (int k = 0; k < 4; ++k)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + (j + k) * dst_stride + i * 8), out[k]);
    }
}

template <typename T>
__attribute__((target("avx2"))) void blocks_avx2(Unaligned<T> src, int64_t src_stride, T* dst, int64_t dst_stride,
                                                 int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; j += kBlock)
    for (int64_t i = 0; i < rows; i += kBlock) {
      if (j == 0) prefetch_rows(src.bytes(i * src_stride), src_stride * int64_t{sizeof(T)});
      block8(src.bytes(i * src_stride + j), src_stride * int64_t{sizeof(T)},
             reinterpret_cast<std::byte*>(dst + j * dst_stride + i), dst_stride * int64_t{sizeof(T)}, T{});
    }
}

template <typename T>
void blocks_sse2(Unaligned<T> src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; j += kBlock)
    for (int64_t i = 0; i < rows; i += kBlock) {
      if (j == 0) prefetch_rows(src.bytes(i * src_stride), src_stride * int64_t{sizeof(T)});
      block8(src.bytes(i * src_stride + j), src_stride * int64_t{sizeof(T)},
             reinterpret_cast<std::byte*>(dst + j * dst_stride + i), dst_stride * int64_t{sizeof(T)}, T{});
    }
}
#endif

// Whole 8x8 blocks; false when this machine has no kernel for the type.
template <typename T>
bool blocks(Unaligned<T> src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t columns) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if constexpr (sizeof(T) <= 2) {
    blocks_sse2(src, src_stride, dst, dst_stride, rows, columns);
    return true;
  } else if constexpr (sizeof(T) <= 8) {
    if (avx2) blocks_avx2(src, src_stride, dst, dst_stride, rows, columns);
    return avx2;
  }
#endif
  return false;
}

template <typename T>
void blocked_plane(Unaligned<T> src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t columns) {
  int64_t block_rows = rows / kBlock * kBlock, block_columns = columns / kBlock * kBlock;
  if (block_rows == 0 || block_columns == 0 || !blocks(src, src_stride, dst, dst_stride, block_rows, block_columns)) {
    plane(src, src_stride, dst, dst_stride, rows, columns);
    return;
  }
  plane(src + block_rows * src_stride, src_stride, dst + block_rows, dst_stride, rows - block_rows, block_columns);
  plane(src + block_columns, src_stride, dst + block_columns * dst_stride, dst_stride, rows, columns - block_columns);
}

// The last axis of `nest` becomes a copy of rows (both strides 1) or a strided loop.
template <typename T>
void copy_rows(const Nest& nest, Unaligned<T> src, T* dst) {
  if (nest.size.empty()) {
    *dst = src[0];
    return;
  }
  int64_t count = nest.size.back(), to = nest.strides[0].back(), from = nest.strides[1].back();
  bool dense = to == 1 && from == 1;
  for_each_outer(nest, 1, [&](const auto& offset) {
    T* out = dst + offset[0];
    const Unaligned<T> in = src + offset[1];
    if (dense && count >= 16) {
      std::memcpy(out, in.bytes(0), static_cast<size_t>(count) * sizeof(T));
    } else if (to == 1 && from == 0) {
      std::fill_n(out, count, in[0]);
    } else {
      for (int64_t i = 0; i < count; ++i) out[i * to] = in[i * from];
    }
  });
}

int unit_axis(const Shape& strides) {
  for (size_t i = strides.size(); i-- > 0;)
    if (strides[i] == 1) return static_cast<int>(i);
  return -1;
}

void move_axis_last(Nest& nest, int axis) {
  auto rotate = [&](Shape& values) { std::rotate(values.begin() + axis, values.begin() + axis + 1, values.end()); };
  rotate(nest.size);
  rotate(nest.strides[0]);
  rotate(nest.strides[1]);
}

template <typename T>
void copy_typed(Nest& nest, Unaligned<T> src, T* dst) {
  int rows = unit_axis(nest.strides[0]), columns = unit_axis(nest.strides[1]);
  if (rows < 0 || columns < 0 || rows == columns) {
    if (rows >= 0) move_axis_last(nest, rows);
    copy_rows(nest, src, dst);
    return;
  }
  move_axis_last(nest, columns);
  move_axis_last(nest, rows < columns ? rows : rows - 1);
  size_t axes = nest.size.size();  // now ..., columns, rows
  int64_t src_stride = nest.strides[1][axes - 1], dst_stride = nest.strides[0][axes - 2];
  for_each_outer(nest, 2, [&](const auto& offset) {
    blocked_plane(src + offset[1], src_stride, dst + offset[0], dst_stride, nest.size[axes - 1], nest.size[axes - 2]);
  });
}

}  // namespace

void copy_nest(int lane, Nest nest, const std::byte* src, std::byte* dst) {
  nest.collapse(2);
  with_lane(lane, [&](auto type) {
    using T = decltype(type);
    copy_typed(nest, Unaligned<T>(src), reinterpret_cast<T*>(dst));
  });
}

void transpose_plane(int lane, const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride,
                     int64_t rows, int64_t columns) {
  with_lane(lane, [&](auto type) {
    using T = decltype(type);
    blocked_plane(Unaligned<T>(src), src_stride, reinterpret_cast<T*>(dst), dst_stride, rows, columns);
  });
}

void transpose_plane_scalar(int lane, const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride,
                            int64_t rows, int64_t columns) {
  with_lane(lane, [&](auto type) {
    using T = decltype(type);
    plane(Unaligned<T>(src), src_stride, reinterpret_cast<T*>(dst), dst_stride, rows, columns);
  });
}

}  // namespace lowtide::stream
