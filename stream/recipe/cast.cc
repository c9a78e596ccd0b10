// SPDX-License-Identifier: Apache-2.0
// Conversions between element types; elementwise.h states what each does at the edges.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "stream/error.h"
#include "stream/recipe/elementwise.h"
#include "stream/recipe/lanes.h"
#include "stream/recipe/small_floats.h"

namespace lowtide::stream::elementwise {
namespace {

// Signed truncation with x86's answer for what does not fit: the smallest value.
template <typename I, typename F>
I truncated(F x) {
  constexpr F kHalf = static_cast<F>(uint64_t{1} << (8 * sizeof(I) - 1));
  return x >= -kHalf && x < kHalf ? static_cast<I>(x) : std::numeric_limits<I>::min();
}

template <typename I, typename F>
I float_to_int(F x) {
  if constexpr (sizeof(I) < 4 || std::is_same_v<I, int32_t>) {
    return static_cast<I>(truncated<int32_t>(x));
  } else if constexpr (std::is_signed_v<I>) {
    return truncated<I>(x);
  } else {
    using S = std::make_signed_t<I>;
    constexpr I kTop = I{1} << (8 * sizeof(I) - 1);
    if (x >= static_cast<F>(kTop)) return static_cast<I>(truncated<S>(x - static_cast<F>(kTop))) ^ kTop;
    return static_cast<I>(truncated<S>(x));
  }
}

template <typename To, typename From>
To convert(From x) {
  if constexpr (kIsHalf<From>) {
    return convert<To>(computed(x));
  } else if constexpr (kIsHalf<To>) {
    return stored<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return float_to_int<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// Largest and smallest value of an integer type of up to 32 bits.
struct Range {
  int64_t low, high;
};
Range range_of(DType dtype) {
  int width = bits(dtype);
  if (is_signed_int(dtype)) return {-(int64_t{1} << (width - 1)), (int64_t{1} << (width - 1)) - 1};
  return {0, (int64_t{1} << width) - 1};
}

// Adding and taking away 1.5 * 2^23 rounds a float below 2^22 half to even, and vectorises everywhere. The comparisons
// send NaN to the lower limit. `scale(i)` is the scale of element i.
template <typename T, typename Scale>
void quantize_narrow(DType to, const float* in, T* out, uint64_t count, Scale scale, int32_t zero) {
  constexpr float kRounder = 12582912.0f;
  auto low = static_cast<float>(range_of(to).low - zero), high = static_cast<float>(range_of(to).high - zero);
  for (uint64_t i = 0; i < count; ++i) {
    float x = in[i] / scale(i);
    x = x > low ? x : low;
    x = x < high ? x : high;
    out[i] = static_cast<T>(static_cast<int32_t>((x + kRounder) - kRounder) + zero);
  }
}

template <typename T, typename Scale>
void quantize_wide(DType to, const float* in, T* out, uint64_t count, Scale scale, int64_t zero) {
  auto low = static_cast<double>(range_of(to).low), high = static_cast<double>(range_of(to).high);
  for (uint64_t i = 0; i < count; ++i) {
    double x = static_cast<double>(std::nearbyint(in[i] / scale(i))) + static_cast<double>(zero);
    x = x > low ? x : low;
    out[i] = static_cast<T>(x < high ? x : high);
  }
}

template <typename Scale>
void quantize_floats(DType to, Scale scale, int64_t zero, const float* in, std::byte* out, uint64_t count) {
  with_lanes(to, [&](auto lane) {
    using T = decltype(lane);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 2) {
      quantize_narrow(to, in, reinterpret_cast<T*>(out), count, scale, static_cast<int32_t>(zero));
    } else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) {
      quantize_wide(to, in, reinterpret_cast<T*>(out), count, scale, zero);
    }
  });
}

constexpr uint64_t kChunk = 1024;  // floats converted at a time, on the stack

}  // namespace

bool castable(DType dtype) {
  return is_float(dtype) || is_integer(dtype) || dtype == DType::kBool || is_small_float(dtype);
}
bool quantizable(DType dtype) { return is_integer(dtype) && bits(dtype) <= 32; }

namespace {

// `numbers` is given the floats of `count` elements, part by part, to make or to use.
template <typename Part>
void by_floats(uint64_t count, Part part) {
  float numbers[kChunk];
  for (uint64_t first = 0; first < count; first += kChunk) part(first, std::min(kChunk, count - first), numbers);
}

void cast_from_small(DType from, DType to, const std::byte* in, std::byte* out, uint64_t count) {
  const std::vector<float> values = small_float_values(from);
  by_floats(count, [&](uint64_t first, uint64_t part, float* numbers) {
    for (uint64_t i = 0; i < part; ++i) numbers[i] = values[static_cast<uint8_t>(in[first + i]) % values.size()];
    cast(DType::kFloat32, to, reinterpret_cast<const std::byte*>(numbers),
         out + first * static_cast<uint64_t>(lane_bytes(to)), part);
  });
}

void cast_to_small(DType from, DType to, const std::byte* in, std::byte* out, uint64_t count) {
  by_floats(count, [&](uint64_t first, uint64_t part, float* numbers) {
    cast(from, DType::kFloat32, in + first * static_cast<uint64_t>(lane_bytes(from)),
         reinterpret_cast<std::byte*>(numbers), part);
    for (uint64_t i = 0; i < part; ++i) out[first + i] = static_cast<std::byte>(small_float_bits(to, numbers[i]));
  });
}

}  // namespace

void cast(DType from, DType to, const std::byte* in_data, std::byte* out_data, uint64_t count) {
  if (is_small_float(from)) return cast_from_small(from, to, in_data, out_data, count);
  if (is_small_float(to)) return cast_to_small(from, to, in_data, out_data, count);
  int width = bits(to);
  with_lanes(from, [&](auto source) {
    using From = decltype(source);
    with_lanes(to, [&](auto target) {
      using To = decltype(target);
      auto* in = reinterpret_cast<const From*>(in_data);
      auto* out = reinterpret_cast<To*>(out_data);
      for (uint64_t i = 0; i < count; ++i) out[i] = convert<To>(in[i]);
      if constexpr (sizeof(To) == 1 && !std::is_same_v<To, bool>) {
        if (width < 8)
          for (uint64_t i = 0; i < count; ++i) out[i] = wrapped(out[i], width);
      }
    });
  });
}

namespace {

// `scale_from(i)` gives the scales from element i on.
template <typename ScaleFrom>
void quantize_any(DType from, DType to, ScaleFrom scale_from, int64_t zero, const std::byte* in, std::byte* out,
                  uint64_t count) {
  if (from == DType::kFloat32)
    return quantize_floats(to, scale_from(0), zero, reinterpret_cast<const float*>(in), out, count);
  float chunk[kChunk];
  for (uint64_t i = 0; i < count; i += kChunk) {
    uint64_t part = std::min(kChunk, count - i);
    cast(from, DType::kFloat32, in + i * static_cast<uint64_t>(lane_bytes(from)), reinterpret_cast<std::byte*>(chunk),
         part);
    quantize_floats(to, scale_from(i), zero, chunk, out + i * static_cast<uint64_t>(lane_bytes(to)), part);
  }
}

}  // namespace

void quantize(DType from, DType to, float scale, int64_t zero, const std::byte* in, std::byte* out, uint64_t count) {
  auto one = [scale](uint64_t) { return scale; };
  quantize_any(
      from, to, [&](uint64_t) { return one; }, zero, in, out, count);
}

void quantize_each(DType from, DType to, const float* scale, int64_t zero, const std::byte* in, std::byte* out,
                   uint64_t count) {
  auto from_element = [scale](uint64_t first) { return [at = scale + first](uint64_t i) { return at[i]; }; };
  quantize_any(from, to, from_element, zero, in, out, count);
}

void dequantize(DType from, float scale, int64_t zero, const std::byte* in_data, std::byte* out_data, uint64_t count) {
  with_lanes(from, [&](auto lane) {
    using T = decltype(lane);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      using Wide = std::conditional_t<sizeof(T) <= 2, int32_t, int64_t>;
      auto* in = reinterpret_cast<const T*>(in_data);
      auto* out = reinterpret_cast<float*>(out_data);
      auto offset = static_cast<Wide>(zero);
      for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<float>(static_cast<Wide>(in[i]) - offset) * scale;
    }
  });
}

void unpack(DType dtype, const std::byte* packed, uint64_t skip, std::byte* lanes, uint64_t count) {
  auto width = static_cast<unsigned>(bits(dtype)), per_byte = 8 / width;
  auto* bytes = reinterpret_cast<const uint8_t*>(packed);
  auto* out = reinterpret_cast<uint8_t*>(lanes);
  // Adding and taking away the sign bit extends it.
  auto mask = static_cast<uint8_t>((1u << width) - 1);
  auto sign = static_cast<uint8_t>(is_signed_int(dtype) ? 1u << (width - 1) : 0);
  auto element = [&](uint8_t byte, unsigned place) {
    return static_cast<uint8_t>((((byte >> (place * width)) & mask) ^ sign) - sign);
  };
  uint64_t done = 0;
  for (; done < count && (done + skip) % per_byte != 0; ++done)
    out[done] = element(bytes[(done + skip) / per_byte], static_cast<unsigned>((done + skip) % per_byte));
  const uint8_t* next = bytes + (done + skip) / per_byte;
  for (uint64_t byte = 0, whole = (count - done) / per_byte; byte < whole; ++byte)
    for (unsigned place = 0; place < per_byte; ++place, ++done) out[done] = element(next[byte], place);
  for (; done < count; ++done)
    out[done] = element(bytes[(done + skip) / per_byte], static_cast<unsigned>((done + skip) % per_byte));
}

void pack(DType dtype, const std::byte* lanes, std::byte* packed, uint64_t count) {
  auto width = static_cast<uint64_t>(bits(dtype)), per_byte = 8 / width;
  auto mask = static_cast<uint8_t>((1u << width) - 1);
  auto* in = reinterpret_cast<const uint8_t*>(lanes);
  auto* out = reinterpret_cast<uint8_t*>(packed);
  for (uint64_t i = 0; i < count; i += per_byte) {
    uint8_t value = 0;
    for (uint64_t k = 0; k < per_byte && i + k < count; ++k)
      value = static_cast<uint8_t>(value | (in[i + k] & mask) << (k * width));
    out[i / per_byte] = value;
  }
}

}  // namespace lowtide::stream::elementwise
