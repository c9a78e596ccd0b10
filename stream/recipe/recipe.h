// SPDX-License-Identifier: Apache-2.0
// A constant tensor as a recipe: where its bytes are and what is still to be done to them (docs/architecture.md).
//
// What changes each element by itself stands below a permutation: so the permutation is run last, on the large
// ranges that are written, and a matrix is read in few strips.
//
// Recipes are immutable and shared; a step costs a few hundred bytes however large the tensor is. Nothing here reads
// data: recipe_reader.h runs recipes. Every function returns the simplest equal recipe (an identity permutation returns
// its argument, two permutations become one, a cast to the same type vanishes, a fill stays a fill).
//
//     stored(file) -- permute {0,2,3,1} -- binary * -- cast f16        a folded convolution weight may look like this
//                                            |
//                     inline scale -- reshape
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "stream/dtype.h"
#include "stream/shape.h"

namespace lowtide::stream {

class Source;  // file.h: random access to the bytes of one file
struct Recipe;
using RecipeRef = std::shared_ptr<const Recipe>;

// How the elements of a run of a file are written down.
enum class Encoding : uint8_t {
  kRaw,     // little-endian elements, one after the other; 4-bit types packed
  kVarint,  // protobuf varints, one after the other (packed int32_data, int64_data, uint64_data)
  kTagged,  // protobuf, not packed: each element stands behind a one-byte tag
};
// A run of bytes of a file. `width`, of kTagged only, is the wire size of one element: 0 for a varint, 4 or 8 for words
// of fixed width. In int32_data and uint64_data narrow types stand as whole numbers: the element is the low bits of
// what is read. Only 2-bit and 4-bit types are packed there too: one word holds a byte of them. (`elements` always
// counts elements.)
struct FileRun {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t elements = 0;
  Encoding encoding = Encoding::kRaw;
  uint8_t width = 0;
};

enum class Unary : uint8_t {
  kNeg,
  kAbs,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kLog,
  kFloor,
  kCeil,
  kRound,
  kSign,
  kNot,
  kSquare,
  kSin,
  kCos,
  kTanh,
  kErf,
  kLogistic,
  kRelu,
};
// Integer kDiv truncates, kFloorDiv floors; kFloorMod takes the divisor's sign, kTruncMod the dividend's.
enum class Binary : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kFloorMod,
  kTruncMod,
  kPow,
  kMin,
  kMax,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kXor,
  kShiftLeft,
  kShiftRight,
  kAtan2,
};
enum class Reduction : uint8_t { kSum, kProd, kMin, kMax };

namespace step {
struct Stored {
  std::shared_ptr<Source> source;
  std::vector<FileRun> file_runs;
};  // together they hold all elements
struct Inline {
  std::vector<std::byte> lanes;
};  // one lane an element
struct Fill {
  std::vector<std::byte> lane;
};  // every element is this one
struct Iota {
  int64_t start, delta;
};  // integer element i of the flat tensor: start + i * delta
struct Permute {
  Perm perm;
};
struct Reshape {};
struct Cast {};  // as ONNX Cast: float -> int truncates, to bool: != 0
struct Slice {
  std::vector<int64_t> begin, stride;
};  // a stride may be negative; dims say how many
struct Concat {
  int axis;
};
struct Broadcast {};  // numpy's rules, to dims
struct Pad {
  std::vector<int64_t> before;
  std::vector<std::byte> lane;
};  // constant; dims say how much comes after
struct Gather {
  int axis;
  std::vector<int64_t> indices;
};  // along one axis, by a small list
struct Unary {
  stream::Unary op;
};
struct Binary {
  stream::Binary op;
};                 // operands of one dtype, broadcast; comparisons give bool
struct Select {};  // bool condition, then, else; broadcast
struct Quantize {
  std::vector<float> scale;
  std::vector<int64_t> zero;  // empty: zeros
  int axis;
};  // saturating, half to even
struct Dequantize {
  std::vector<float> scale;
  std::vector<int64_t> zero;  // empty: zeros
  int axis;
};  // (q - zero) * scale, to f32
struct Reduce {
  stream::Reduction op;
  std::vector<int> axes;
};  // keeps the axes, as extent 1
}  // namespace step

using Step = std::variant<step::Stored, step::Inline, step::Fill, step::Iota, step::Permute, step::Reshape, step::Cast,
                          step::Slice, step::Concat, step::Broadcast, step::Pad, step::Gather, step::Unary,
                          step::Binary, step::Select, step::Quantize, step::Dequantize, step::Reduce>;

// What is done to run a recipe, counted in elements of its steps; it saturates.
struct Cost {
  uint64_t once = 0;    // what readers work out once and keep
  uint64_t each = 1;    // for an element among its neighbours, besides
  uint64_t alone = 1;   // for an element by itself
  uint64_t stored = 0;  // bytes: of the largest run of bytes that is read
};

struct Recipe {
  DType dtype;
  Shape dims;  // always static
  Step step;
  std::vector<RecipeRef> from;
  // What is done for one element, each operand's share counted: x + x takes twice what x takes, and one more. Bounded,
  // because recipes are run by recursion, and nothing is kept of what is asked for twice.
  int steps = 1;
  Cost cost = {};

  uint64_t elements() const { return element_count(dims); }
  uint64_t bytes() const { return file_bytes(dtype, elements()); }
};

// A tensor of at most this many elements may be evaluated while passes run, because they read shapes and axes.
inline constexpr uint64_t kSmallElements = 64 * 1024;
// Constructors throw Error(kUnsupported) beyond these steps.
inline constexpr int kMaxSteps = 256;

namespace recipe {

// The steps of what several recipes make together: concatenated ones give elements of one of them each.
int steps_of(std::span<const RecipeRef> from, bool concatenated);
// What it takes to run the recipe once, counted in elements of its steps.
uint64_t work(const Recipe& recipe);

// Throws Error(kMalformed) when the runs do not hold exactly the elements of dims.
RecipeRef stored(std::shared_ptr<Source> source, std::vector<FileRun> file_runs, DType dtype, Shape dims);
RecipeRef inline_lanes(std::vector<std::byte> lanes, DType dtype, Shape dims);
template <typename T>
RecipeRef values(std::span<const T> elements, DType dtype, Shape dims) {
  auto bytes = std::as_bytes(elements);
  return inline_lanes({bytes.begin(), bytes.end()}, dtype, std::move(dims));
}
RecipeRef floats(std::span<const float> elements, Shape dims);
// Any integer dtype or bool; throws Error(kMalformed) when a value does not fit.
RecipeRef ints(std::span<const int64_t> elements, DType dtype, Shape dims);
RecipeRef fill(std::vector<std::byte> lane, DType dtype, Shape dims);
RecipeRef fill_value(double value, DType dtype, Shape dims);  // any numeric dtype; integers must be exact in a double
RecipeRef iota(int64_t start, int64_t delta, DType dtype, int64_t count);

RecipeRef permute(RecipeRef input, const Perm& perm);
RecipeRef reshape(RecipeRef input, Shape dims);
RecipeRef cast(RecipeRef input, DType to);
// Element i of axis a of the result is element begin[a] + i * stride[a] of the input.
RecipeRef slice(RecipeRef input, std::vector<int64_t> begin, std::vector<int64_t> size, std::vector<int64_t> stride);
RecipeRef concat(std::vector<RecipeRef> inputs, int axis);
RecipeRef broadcast(RecipeRef input, Shape dims);
RecipeRef pad(RecipeRef input, std::vector<int64_t> before, const std::vector<int64_t>& after,
              std::vector<std::byte> lane);
RecipeRef gather(RecipeRef input, int axis, std::vector<int64_t> indices);  // indices already non-negative and in range
RecipeRef unary(Unary op, RecipeRef input);
RecipeRef binary(Binary op, RecipeRef a, RecipeRef b);
RecipeRef select(RecipeRef condition, RecipeRef yes, RecipeRef no);
// axis -1: one scale for the whole tensor.
RecipeRef quantize(RecipeRef input, DType to, std::vector<float> scale, std::vector<int64_t> zero, int axis);
RecipeRef dequantize(RecipeRef input, std::vector<float> scale, std::vector<int64_t> zero, int axis);
RecipeRef reduce(Reduction op, RecipeRef input, std::vector<int> axes);

// numpy's two-way broadcasting of two static shapes; throws Error(kMalformed) when they do not fit.
Shape broadcast_shape(std::span<const Dim> a, std::span<const Dim> b);

// Non-null when the tensor's bytes are one raw run of a file with no step to do: it can be copied or named in
// place.
const step::Stored* plain_stored(const Recipe& recipe);
// Whether all that it reads of files are raw bytes that seem to be in the page cache: the ends and the middle are.
bool is_cached(const Recipe& recipe);

}  // namespace recipe
}  // namespace lowtide::stream
