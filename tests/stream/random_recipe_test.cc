// SPDX-License-Identifier: Apache-2.0
// Random recipes against plain index arithmetic on whole arrays. The values are small whole numbers, so that every type
// holds them exactly and the order of a sum does not matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "stream/file/file.h"
#include "stream/recipe/magnitude.h"
#include "stream/recipe/recipe.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/recipe/step_reader.h"
#include "tests/stream/recipe/tiles.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;

struct Array {
  Shape dims;
  std::vector<double> values;
};

struct Sample {
  RecipeRef recipe;
  Array array;
};

class RandomRecipes {
 public:
  explicit RandomRecipes(uint32_t seed) : random_(seed) {}
  // A recipe of at most `steps` steps above its leaves.
  Sample next(int steps);
  int64_t below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }

 private:
  Shape shape(int rank);
  Sample leaf(const Shape& dims);
  Sample step(Sample input);
  Sample permute(Sample input);
  Sample reshape(Sample input);
  Sample cast(Sample input);
  Sample slice(Sample input);
  Sample concat(Sample input);
  Sample broadcast(Sample input);
  Sample pad(Sample input);
  Sample gather(Sample input);
  Sample unary(Sample input);
  Sample binary(Sample input);
  Sample select(Sample input);
  Sample scale(Sample input);
  Sample reduce(Sample input);

  std::mt19937 random_;
};

int64_t product(const Shape& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Shape coordinates(int64_t flat, const Shape& dims) {
  Shape at(dims.size());
  for (size_t i = dims.size(); i-- > 0; flat /= dims[i]) at[i] = flat % dims[i];
  return at;
}

int64_t flat(const Shape& at, const Shape& dims) {
  int64_t index = 0;
  for (size_t i = 0; i < dims.size(); ++i) index = index * dims[i] + at[i];
  return index;
}

// The array of shape `dims` whose element at a position is value(position).
template <typename Value>
Array build(const Shape& dims, Value value) {
  Array out{dims, std::vector<double>(static_cast<size_t>(product(dims)))};
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = value(coordinates(static_cast<int64_t>(i), dims));
  return out;
}

double get(const Array& array, const Shape& at) { return array.values[static_cast<size_t>(flat(at, array.dims))]; }

double get_broadcast(const Array& array, const Shape& at) {
  Shape own(at.end() - static_cast<int64_t>(array.dims.size()), at.end());
  for (size_t i = 0; i < own.size(); ++i)
    if (array.dims[i] == 1) own[i] = 0;
  return get(array, own);
}

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  bytes.resize(bytes.size() + sizeof(T));
  std::memcpy(bytes.data() + bytes.size() - sizeof(T), &value, sizeof(T));
}

void append_varint(std::vector<std::byte>& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::byte>(value | 0x80));
  bytes.push_back(static_cast<std::byte>(value));
}

std::vector<std::byte> lane(double value, DType dtype) {
  std::vector<std::byte> out;
  switch (dtype) {
    case DType::kFloat32:
      append(out, static_cast<float>(value));
      break;
    case DType::kFloat64:
      append(out, value);
      break;
    case DType::kInt32:
      append(out, static_cast<int32_t>(value));
      break;
    case DType::kInt64:
      append(out, static_cast<int64_t>(value));
      break;
    case DType::kInt16:
      append(out, static_cast<int16_t>(value));
      break;
    default:
      append(out, static_cast<int8_t>(value));
  }
  return out;
}

double largest(const Array& array) {
  double most = 0;
  for (double value : array.values) most = std::max(most, std::abs(value));
  return most;
}

// Lanes as numbers.
std::vector<double> numbers(const std::vector<std::byte>& lanes, DType dtype) {
  std::vector<double> out;
  auto read = [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < lanes.size(); i += sizeof(T)) {
      T value;
      std::memcpy(&value, lanes.data() + i, sizeof(T));
      out.push_back(static_cast<double>(value));
    }
  };
  switch (dtype) {
    case DType::kFloat32:
      read(float{});
      break;
    case DType::kFloat64:
      read(double{});
      break;
    case DType::kInt32:
      read(int32_t{});
      break;
    case DType::kInt64:
      read(int64_t{});
      break;
    case DType::kInt16:
      read(int16_t{});
      break;
    default:
      read(int8_t{});
  }
  return out;
}

Shape RandomRecipes::shape(int rank) {
  static constexpr int kExtents[] = {1, 2, 3, 5, 7, 11, 13, 17};
  Shape dims;
  for (int64_t room = 3000; rank > 0; --rank) {
    int64_t extent = kExtents[below(8)];
    if (extent > room) extent = 1;
    room /= extent;
    dims.push_back(extent);
  }
  return dims;
}

Sample RandomRecipes::next(int steps) {
  Sample sample = leaf(shape(static_cast<int>(below(6))));
  for (; steps > 0; --steps) sample = step(std::move(sample));
  return sample;
}

Sample RandomRecipes::leaf(const Shape& dims) {
  static constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64,
                                     DType::kInt16,   DType::kInt8,    DType::kInt4};
  DType dtype = kTypes[below(7)];
  int64_t count = product(dims);
  Array array = build(dims, [&](const Shape&) { return static_cast<double>(below(15) - 7); });
  std::vector<std::byte> lanes;
  for (double value : array.values) {
    std::vector<std::byte> one = lane(value, dtype);
    lanes.insert(lanes.end(), one.begin(), one.end());
  }
  int64_t kind = below(8);
  if (kind == 0) return {recipe::inline_lanes(lanes, dtype, dims), array};
  if (kind == 1) {
    std::fill(array.values.begin(), array.values.end(), array.values[0]);
    return {recipe::fill(lane(array.values[0], dtype), dtype, dims), array};
  }
  if (kind == 2 && dtype == DType::kInt32) {
    std::iota(array.values.begin(), array.values.end(), -4);
    return {recipe::reshape(recipe::iota(-4, 1, dtype, count), dims), array};
  }
  // A file of one to three runs, each in its own encoding, with other bytes between them.
  std::vector<std::byte> bytes(static_cast<size_t>(below(5)), std::byte{0xee});
  std::vector<FileRun> file_runs;
  for (int64_t first = 0; first < count;) {
    int64_t part = file_runs.size() == 2 ? count - first : 1 + below(count - first);
    FileRun file_run{bytes.size(), 0, static_cast<uint64_t>(part), Encoding::kRaw, 0};
    bool is_float = dtype == DType::kFloat32 || dtype == DType::kFloat64;
    if (int64_t form = below(4); form == 1 && !is_float) {
      file_run.encoding = Encoding::kVarint;
    } else if (form == 2) {
      file_run.encoding = Encoding::kTagged;
      file_run.width = is_float || below(2) ? static_cast<uint8_t>(dtype == DType::kFloat32 ? 4 : 8) : 0;
    }
    int64_t per_word = dtype == DType::kInt4 ? 2 : 1;
    for (int64_t i = first; i < first + part; i += per_word) {
      auto word = static_cast<int64_t>(array.values[static_cast<size_t>(i)]);
      if (per_word == 2) {
        int64_t high = i + 1 < first + part ? static_cast<int64_t>(array.values[static_cast<size_t>(i) + 1]) : 0;
        word = (word & 15) | (high & 15) << 4;
      }
      if (file_run.encoding == Encoding::kTagged) bytes.push_back(std::byte{0x2a});
      if (file_run.encoding != Encoding::kRaw && file_run.width == 0) {
        append_varint(bytes, static_cast<uint64_t>(word));
      } else if (per_word == 2) {
        if (file_run.encoding == Encoding::kRaw) append(bytes, static_cast<int8_t>(word));
        if (file_run.encoding == Encoding::kTagged) append(bytes, word);
      } else if (file_run.encoding == Encoding::kTagged && !is_float) {
        append(bytes, word);
      } else {
        std::vector<std::byte> one = lane(array.values[static_cast<size_t>(i)], dtype);
        bytes.insert(bytes.end(), one.begin(), one.end());
      }
    }
    file_run.bytes = bytes.size() - file_run.offset;
    file_runs.push_back(file_run);
    bytes.resize(bytes.size() + static_cast<size_t>(below(3)), std::byte{0xee});
    first += part;
  }
  return {recipe::stored(memory_source(bytes, "weights"), file_runs, dtype, dims), array};
}

Sample RandomRecipes::step(Sample input) {
  switch (below(16)) {
    case 0:
    case 1:
    case 2:
      return permute(std::move(input));
    case 3:
      return reshape(std::move(input));
    case 4:
      return cast(std::move(input));
    case 5:
    case 6:
      return slice(std::move(input));
    case 7:
      return concat(std::move(input));
    case 8:
      return broadcast(std::move(input));
    case 9:
      return pad(std::move(input));
    case 10:
      return gather(std::move(input));
    case 11:
      return unary(std::move(input));
    case 12:
      return binary(std::move(input));
    case 13:
      return select(std::move(input));
    case 14:
      return scale(std::move(input));
    default:
      return reduce(std::move(input));
  }
}

Sample RandomRecipes::permute(Sample input) {
  Perm perm(input.array.dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::shuffle(perm.begin(), perm.end(), random_);
  Shape dims;
  for (int axis : perm) dims.push_back(input.array.dims[static_cast<size_t>(axis)]);
  Array array = build(dims, [&](const Shape& at) {
    Shape from(at.size());
    for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(perm[i])] = at[i];
    return get(input.array, from);
  });
  return {recipe::permute(input.recipe, perm), array};
}

Sample RandomRecipes::reshape(Sample input) {
  // Random divisors of what is left, then what is left.
  int64_t rest = product(input.array.dims);
  Shape dims;
  for (int64_t axes = below(4); axes > 0; --axes) {
    int64_t divisor = 1 + below(rest);
    while (rest % divisor) --divisor;
    dims.push_back(divisor);
    rest /= divisor;
  }
  if (rest != 1 || below(2)) dims.push_back(rest);
  return {recipe::reshape(input.recipe, dims), {dims, input.array.values}};
}

Sample RandomRecipes::cast(Sample input) {
  static constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64};
  return {recipe::cast(input.recipe, kTypes[below(4)]), input.array};
}

Sample RandomRecipes::slice(Sample input) {
  const Shape& from = input.array.dims;
  std::vector<int64_t> begin(from.size()), size(from.size()), stride(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    stride[i] = 1 + (below(2) ? below(3) : 0);
    size[i] = below(3) ? (from[i] - 1) / stride[i] + 1 : 1 + below((from[i] - 1) / stride[i] + 1);
    begin[i] = below(from[i] - (size[i] - 1) * stride[i]);
    if (below(3) == 0) {
      begin[i] += (size[i] - 1) * stride[i];
      stride[i] = -stride[i];
    }
  }
  Array array = build(size, [&](const Shape& at) {
    Shape place(at.size());
    for (size_t i = 0; i < at.size(); ++i) place[i] = begin[i] + at[i] * stride[i];
    return get(input.array, place);
  });
  return {recipe::slice(input.recipe, begin, size, stride), array};
}

Sample RandomRecipes::concat(Sample input) {
  if (input.array.dims.empty() || input.array.values.size() > 3000) return input;
  auto axis = static_cast<size_t>(below(static_cast<int64_t>(input.array.dims.size())));
  std::vector<Sample> parts{input};
  Shape dims = input.array.dims;
  for (int64_t more = below(3); more > 0; --more) {
    Shape own = input.array.dims;
    own[axis] = below(4);
    dims[axis] += own[axis];
    Sample part = own[axis] ? leaf(own) : Sample{recipe::fill_value(0, DType::kFloat32, own), {own, {}}};
    part.recipe = recipe::cast(part.recipe, input.recipe->dtype);
    parts.push_back(part);
  }
  std::vector<RecipeRef> recipes;
  for (const Sample& part : parts) recipes.push_back(part.recipe);
  Array array = build(dims, [&](Shape at) {
    size_t part = 0;
    for (; at[axis] >= parts[part].array.dims[axis]; ++part) at[axis] -= parts[part].array.dims[axis];
    return get(parts[part].array, at);
  });
  return {recipe::concat(recipes, static_cast<int>(axis)), array};
}

Sample RandomRecipes::broadcast(Sample input) {
  if (input.array.values.size() > 1500) return input;
  Shape dims = input.array.dims;
  for (Dim& dim : dims)
    if (dim == 1 && product(dims) < 1500) dim = 1 + below(4);
  if (dims.size() < 5 && below(2)) dims.insert(dims.begin(), 1 + below(3));
  Array array = build(dims, [&](const Shape& at) { return get_broadcast(input.array, at); });
  return {recipe::broadcast(input.recipe, dims), array};
}

Sample RandomRecipes::pad(Sample input) {
  if (input.array.values.size() > 1500) return input;
  std::vector<int64_t> before, after;
  Shape dims = input.array.dims;
  for (Dim& dim : dims) {
    before.push_back(below(3) - (dim > 2 ? 1 : 0));
    after.push_back(below(3) - (dim > 2 ? 1 : 0));
    dim += before.back() + after.back();
  }
  Array array = build(dims, [&](const Shape& at) {
    Shape from(at.size());
    for (size_t i = 0; i < at.size(); ++i) {
      from[i] = at[i] - before[i];
      if (from[i] < 0 || from[i] >= input.array.dims[i]) return 3.0;
    }
    return get(input.array, from);
  });
  return {recipe::pad(input.recipe, before, after, lane(3, input.recipe->dtype)), array};
}

Sample RandomRecipes::gather(Sample input) {
  if (input.array.dims.empty() || input.array.values.size() > 3000) return input;
  auto axis = static_cast<size_t>(below(static_cast<int64_t>(input.array.dims.size())));
  Shape dims = input.array.dims;
  std::vector<int64_t> indices(static_cast<size_t>(1 + below(6)));
  for (int64_t& index : indices) index = below(dims[axis]);
  dims[axis] = static_cast<int64_t>(indices.size());
  Array array = build(dims, [&](Shape at) {
    at[axis] = indices[static_cast<size_t>(at[axis])];
    return get(input.array, at);
  });
  return {recipe::gather(input.recipe, static_cast<int>(axis), indices), array};
}

Sample RandomRecipes::unary(Sample input) {
  static constexpr Unary kOps[] = {Unary::kNeg, Unary::kAbs, Unary::kSign, Unary::kRelu};
  Unary op = kOps[below(4)];
  if (op == Unary::kNeg && largest(input.array) > 7 && input.recipe->dtype == DType::kInt4) return input;
  Array array = input.array;
  for (double& x : array.values) {
    x = op == Unary::kNeg    ? -x
        : op == Unary::kAbs  ? std::abs(x)
        : op == Unary::kRelu ? std::max(x, 0.0)
                             : (x > 0) - (x < 0);
  }
  return {recipe::unary(op, input.recipe), array};
}

Sample RandomRecipes::binary(Sample input) {
  static constexpr Binary kOps[] = {Binary::kMin, Binary::kMax, Binary::kAdd, Binary::kSub, Binary::kMul};
  Shape own = input.array.dims;
  for (Dim& dim : own)
    if (below(2)) dim = 1;
  while (!own.empty() && own[0] == 1 && below(2)) own.erase(own.begin());
  Sample other = leaf(own);
  other.recipe = recipe::cast(other.recipe, input.recipe->dtype);
  bool grows = bits(input.recipe->dtype) >= 32 && largest(input.array) < 1e4;
  Binary op = kOps[below(grows ? 5 : 2)];
  Array array = build(input.array.dims, [&](const Shape& at) {
    double a = get(input.array, at), b = get_broadcast(other.array, at);
    switch (op) {
      case Binary::kAdd:
        return a + b;
      case Binary::kSub:
        return a - b;
      case Binary::kMul:
        return a * b;
      case Binary::kMin:
        return std::min(a, b);
      default:
        return std::max(a, b);
    }
  });
  return {recipe::binary(op, input.recipe, other.recipe), array};
}

Sample RandomRecipes::select(Sample input) {
  Shape own = input.array.dims;
  for (Dim& dim : own)
    if (below(2)) dim = 1;
  Sample other = leaf(own);
  other.recipe = recipe::cast(other.recipe, input.recipe->dtype);
  Array array = build(input.array.dims, [&](const Shape& at) {
    double a = get(input.array, at), b = get_broadcast(other.array, at);
    return a <= b ? a : b;
  });
  RecipeRef condition = recipe::binary(Binary::kLessEqual, input.recipe, other.recipe);
  return {recipe::select(condition, input.recipe, other.recipe), array};
}

// Quantization by powers of two to i8, and back.
Sample RandomRecipes::scale(Sample input) {
  if (input.recipe->dtype != DType::kFloat32) return input;
  auto rank = static_cast<int64_t>(input.array.dims.size());
  auto axis = static_cast<int>(below(rank + 1)) - 1;
  size_t channels = axis < 0 ? 1 : static_cast<size_t>(input.array.dims[static_cast<size_t>(axis)]);
  std::vector<float> scales(channels);
  std::vector<int64_t> zeros(channels);
  for (float& s : scales) s = std::exp2(static_cast<float>(below(4)) - 1);
  for (int64_t& zero : zeros) zero = below(9) - 4;
  if (below(2)) std::fill(zeros.begin(), zeros.end(), zeros.empty() ? 0 : zeros[0]);
  auto quantized = [&](const Shape& at) {
    size_t channel = axis < 0 ? 0 : static_cast<size_t>(at[static_cast<size_t>(axis)]);
    double q = std::nearbyint(get(input.array, at) / scales[channel]) + static_cast<double>(zeros[channel]);
    return std::clamp(q, -128.0, 127.0);
  };
  RecipeRef q = recipe::quantize(input.recipe, DType::kInt8, scales, zeros, axis);
  if (below(2)) return {q, build(input.array.dims, quantized)};
  Array array = build(input.array.dims, [&](const Shape& at) {
    size_t channel = axis < 0 ? 0 : static_cast<size_t>(at[static_cast<size_t>(axis)]);
    return (quantized(at) - static_cast<double>(zeros[channel])) * scales[channel];
  });
  // Halves stay exact in f32 and f64 only.
  return {recipe::cast(recipe::unary(Unary::kRound, recipe::dequantize(q, scales, zeros, axis)), DType::kFloat32), [&] {
            for (double& x : array.values) x = std::nearbyint(x);
            return array;
          }()};
}

Sample RandomRecipes::reduce(Sample input) {
  static constexpr Reduction kOps[] = {Reduction::kMin, Reduction::kMax, Reduction::kSum};
  if (below(2)) return input;  // a reduction leaves little to do for the others
  bool wide = bits(input.recipe->dtype) >= 32 && largest(input.array) < 1e3;
  Reduction op = kOps[below(wide ? 3 : 2)];
  std::vector<int> axes;
  Shape dims = input.array.dims;
  for (size_t i = 0; i < dims.size(); ++i)
    if (below(3) == 0) {
      axes.push_back(static_cast<int>(i));
      dims[i] = 1;
    }
  double first = op == Reduction::kMin ? 1e30 : op == Reduction::kMax ? -1e30 : 0;
  Array array{dims, std::vector<double>(static_cast<size_t>(product(dims)), first)};
  for (size_t i = 0; i < input.array.values.size(); ++i) {
    Shape at = coordinates(static_cast<int64_t>(i), input.array.dims);
    for (int axis : axes) at[static_cast<size_t>(axis)] = 0;
    double& sum = array.values[static_cast<size_t>(flat(at, dims))];
    double x = input.array.values[i];
    sum = op == Reduction::kSum ? sum + x : op == Reduction::kMin ? std::min(sum, x) : std::max(sum, x);
  }
  return {recipe::reduce(op, input.recipe, axes), array};
}

std::vector<std::byte> read_all(const RecipeRef& recipe, uint64_t limit, uint64_t bytes) {
  Budget budget(limit);
  RecipeReader reader(recipe, budget);
  auto lane = static_cast<uint64_t>(lane_bytes(recipe->dtype));
  std::vector<std::byte> out(recipe->elements() * lane);
  for (uint64_t first = 0; first < recipe->elements();) {
    uint64_t count = std::min(reader.good_count(bytes), recipe->elements() - first);
    EXPECT_GT(count, 0u);
    reader.read(first, count, out.data() + first * lane);
    first += count;
  }
  return out;
}

TEST(RecipeReader, RandomRecipesMatchIndexArithmetic) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    RandomRecipes random(seed);
    Sample sample = random.next(1 + static_cast<int>(seed % 7));
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_EQ(sample.recipe->dims, sample.array.dims);
    std::vector<std::byte> lanes = read_with_tiles(sample.recipe, 64 * 1024);
    ASSERT_EQ(numbers(lanes, sample.recipe->dtype), sample.array.values);
    for (uint64_t tile : {64u, 192u, 1024u}) ASSERT_EQ(read_with_tiles(sample.recipe, tile), lanes) << tile;
    ASSERT_EQ(read_all(sample.recipe, kMiB, 100), lanes);
    ASSERT_EQ(read_all(sample.recipe, 64 * kMiB, kMiB), lanes);
    constexpr uint64_t kFilePage = 4096;
    ASSERT_EQ(read_all(sample.recipe, (least_scratch(*sample.recipe) + kFilePage - 1) / kFilePage * kFilePage, 100),
              lanes);
    // Any range, in any order.
    Budget budget(kMiB);
    RecipeReader reader(sample.recipe, budget);
    auto lane = static_cast<uint64_t>(lane_bytes(sample.recipe->dtype)), elements = sample.recipe->elements();
    for (int i = 0; i < 4; ++i) {
      auto first = static_cast<uint64_t>(random.below(static_cast<int64_t>(elements)));
      auto count = static_cast<uint64_t>(random.below(static_cast<int64_t>(elements - first + 1)));
      std::vector<std::byte> part(count * lane);
      reader.read(first, count, part.data());
      ASSERT_TRUE(std::equal(part.begin(), part.end(), lanes.data() + first * lane)) << first << " " << count;
    }
  }
}

TEST(Measure, FindsTheLargestMagnitudeOfRandomRecipes) {
  std::vector<Magnitude> all;
  std::vector<std::vector<float>> expected;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomRecipes random(seed);
    Sample sample = random.next(1 + static_cast<int>(seed % 7));
    if (sample.recipe->elements() == 0) continue;
    const auto rank = static_cast<int64_t>(sample.array.dims.size());
    const auto axis = static_cast<int>(random.below(rank + 1)) - 1;
    std::vector<float> most(axis < 0 ? 1 : static_cast<size_t>(sample.array.dims[static_cast<size_t>(axis)]), 0);
    for (size_t i = 0; i < sample.array.values.size(); ++i) {
      const Shape at = coordinates(static_cast<int64_t>(i), sample.array.dims);
      float& found = most[axis < 0 ? 0 : static_cast<size_t>(at[static_cast<size_t>(axis)])];
      found = std::max(found, std::abs(static_cast<float>(sample.array.values[i])));
    }
    all.push_back({.input = recipe::cast(sample.recipe, DType::kFloat32), .axis = axis});
    expected.push_back(most);
  }
  for (int threads : {1, 3}) {
    Budget budget(16 * kMiB);
    measure(all, budget, threads, nullptr);
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].found, expected[i]) << i;
  }
}

}  // namespace
}  // namespace lowtide::stream
