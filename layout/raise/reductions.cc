// SPDX-License-Identifier: Apache-2.0
// Reductions, ARG_MAX, CUMSUM, SOFTMAX, TOPK_V2.
//
// The traps: an empty list of axes reduces nothing in TFLite and everything in ONNX; up to opset 17 all reductions but
// ReduceSum have their axes as an attribute.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kOpsetOfAxesAsInput = 18;

std::vector<int64_t> reduced_axes(Raising& r) {
  const int rank = r.in(0).rank();
  // LiteRT does not look at the axes of a scalar.
  if (rank == 0) return {};
  std::set<int64_t> axes;
  for (int64_t axis : r.need_ints(1, "axes")) axes.insert(axis < 0 ? axis + rank : axis);
  return {axes.begin(), axes.end()};
}

std::string reduced_along(Raising& r, std::string_view type, const std::string& x, const std::vector<int64_t>& axes) {
  Names inputs = {x};
  Attributes attributes = {attribute("keepdims", int64_t{r.options<core::ReduceOptions>().keep_dims})};
  if (type == "ReduceSum" || r.onnx.opset >= kOpsetOfAxesAsInput)
    inputs.push_back(r.int64_list(axes));
  else
    attributes.push_back(attribute("axes", axes));
  return r.node(type, std::move(inputs), std::move(attributes));
}

// Axes that the model computes; an empty list reduces nothing.
std::string reduced_along_computed(Raising& r, std::string_view type, const std::string& x) {
  return r.node(type, {x, r.int64_input(1)},
                {attribute("keepdims", int64_t{r.options<core::ReduceOptions>().keep_dims}),
                 attribute("noop_with_empty_axes", int64_t{1})});
}

// The mean of integers, which LiteRT sums in 64 bits and rounds towards zero, as ONNX's Div does.
void raise_mean_of_integers(Raising& r) {
  constexpr int kLeastBits = 32;
  if (stream::bits(r.in(0).dtype) < kLeastBits)
    r.unsupported(fmt::format("the mean of {} without a scale, by which LiteRT's kernel multiplies",
                              stream::dtype_name(r.in(0).dtype)));
  const std::vector<int64_t> axes = reduced_axes(r);
  if (axes.empty()) return r.give_stored(r.node("Identity", {r.stored(0)}));
  std::vector<int64_t> places(axes.begin(), axes.end());
  const std::string x = r.cast(r.stored(0), DType::kInt64);
  const std::string sizes = r.node("Gather", {r.node("Shape", {x}), r.int64_list(places)});
  const std::string count = r.node("ReduceProd", {sizes}, {attribute("keepdims", int64_t{0})});
  r.give_stored(r.cast(r.node("Div", {reduced_along(r, "ReduceSum", x, axes), count}), r.out().dtype));
}

// ONNX Runtime's sum of i32 saturates, LiteRT's wraps, as a Cast of one of i64 does. (That of i64 is a sum of doubles:
// exact up to 2^53.)
bool is_sum_that_wraps(const Raising& r) {
  return r.op.kind == Kind::kSum && r.in(0).dtype == DType::kInt32 && !r.in(0).quantization;
}
std::string terms(Raising& r) { return is_sum_that_wraps(r) ? r.cast(r.stored(0), DType::kInt64) : r.real(0); }
void give_reduced(Raising& r, const std::string& made) {
  r.give(is_sum_that_wraps(r) ? r.cast(made, DType::kInt32) : made);
}

// Of no elements ONNX Runtime and LiteRT give different results, but for sums and products.
void refuse_extent_of_zero(Raising& r) {
  const Shape& shape = r.in(0).shape;
  const auto refuse = [&] { r.unsupported("a reduction of an axis without elements"); };
  if (!r.ints(1)) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) refuse();
    return;
  }
  for (int64_t axis : reduced_axes(r))
    if (shape[static_cast<size_t>(axis)] == 0) refuse();
}

template <const char* kType>
void raise_reduction(Raising& r) {
  if (r.op.kind != Kind::kSum && r.op.kind != Kind::kReduceProd) refuse_extent_of_zero(r);
  if (!r.ints(1)) {
    if (stream::is_integer(r.in(0).dtype) && !r.in(0).quantization && r.op.kind == Kind::kMean)
      r.unsupported("the mean of integers along axes that the model computes");
    return give_reduced(r, reduced_along_computed(r, kType, terms(r)));
  }
  const std::vector<int64_t> axes = reduced_axes(r);
  const bool is_ordered = r.op.kind == Kind::kReduceMax || r.op.kind == Kind::kReduceMin;
  if (is_ordered && r.is_widened(0) && !axes.empty())
    return r.give_stored(r.cast(reduced_along(r, kType, r.cast(r.stored(0), DType::kInt32), axes), r.out().dtype));
  // LiteRT copies the integers then, whatever their scales.
  if (axes.empty() && r.op.kind == Kind::kReduceProd) return r.give_stored(r.node("Identity", {r.stored(0)}));
  const bool is_real = stream::is_float(r.in(0).dtype) || r.in(0).quantization;
  if (r.op.kind == Kind::kMean && !is_real) return raise_mean_of_integers(r);
  if (axes.empty()) return r.give(r.real(0));
  give_reduced(r, reduced_along(r, kType, terms(r), axes));
}

// Of truth values, which ONNX's reductions do not take.
template <const char* kType>
void raise_logical_reduction(Raising& r) {
  refuse_extent_of_zero(r);
  if (!r.ints(1))
    return r.give_stored(r.cast(reduced_along_computed(r, kType, r.cast(r.stored(0), DType::kInt32)), DType::kBool));
  const std::vector<int64_t> axes = reduced_axes(r);
  if (axes.empty()) return r.give_stored(r.stored(0));
  r.give_stored(r.cast(reduced_along(r, kType, r.cast(r.stored(0), DType::kInt32), axes), DType::kBool));
}

template <const char* kType>
void raise_arg(Raising& r) {
  int64_t axis = r.need_ints(1, "an axis").at(0);
  if (axis < 0) axis += r.in(0).rank();
  constexpr DType kTypes[] = {DType::kFloat32, DType::kInt32, DType::kInt8, DType::kUint8};
  const bool is_stored = std::find(std::begin(kTypes), std::end(kTypes), r.in(0).dtype) != std::end(kTypes);
  const bool is_truth = r.in(0).dtype == DType::kBool;
  if (!is_stored && !is_truth && !r.in(0).quantization)
    r.unsupported(fmt::format("{} data are not supported", stream::dtype_name(r.in(0).dtype)));
  const std::string data = is_truth ? r.cast(r.stored(0), DType::kUint8) : is_stored ? r.stored(0) : r.real(0);
  const std::string found = r.node(kType, {data}, {attribute("axis", axis), attribute("keepdims", int64_t{0})});
  r.give_stored(r.out().dtype == DType::kInt64 ? found : r.cast(found, r.out().dtype));
}

void raise_cumsum(Raising& r) {
  const auto& o = r.options<core::CumsumOptions>();
  r.give(r.node("CumSum", {r.real(0), r.int64_input(1)},
                {attribute("exclusive", int64_t{o.exclusive}), attribute("reverse", int64_t{o.reverse})}));
}

void raise_softmax(Raising& r) {
  const float beta = r.options<core::SoftmaxOptions>().beta;
  std::string x = r.real(0);
  if (beta != 1) x = r.node("Mul", {x, r.scalar(beta, DType::kFloat32)});
  const std::string made = r.node("Softmax", {x}, {attribute("axis", int64_t{-1})});
  const auto& result = r.out().quantization;
  if (r.out().dtype != DType::kUint8 || !result) return r.give(made);
  // LiteRT's kernel of u8 does not look at the result's zero point.
  core::Quantization from_zero = *result;
  std::fill(from_zero.zero_point.begin(), from_zero.zero_point.end(), 0);
  r.give_stored(r.onnx.quantized(made, from_zero, DType::kUint8));
}

void raise_log_softmax(Raising& r) { r.give(r.node("LogSoftmax", {r.real(0)}, {attribute("axis", int64_t{-1})})); }

void raise_top_k(Raising& r) {
  const std::string count = r.node("Reshape", {r.int64_input(1), r.int64_list({1})});
  const Names made = r.onnx.nodes("TopK", {r.real(0), count}, 2, {attribute("axis", int64_t{-1})});
  const bool is_wide = r.out(1).dtype == DType::kInt64;
  // The second output of the node is given first: a Cast or a rename of that node would hide it.
  r.give(r.node("Identity", {made[0]}));
  r.give_stored(is_wide ? r.node("Identity", {made[1]}) : r.cast(made[1], r.out(1).dtype), 1);
}

constexpr char kReduceSum[] = "ReduceSum", kReduceMean[] = "ReduceMean", kReduceMax[] = "ReduceMax",
               kReduceMin[] = "ReduceMin", kReduceProd[] = "ReduceProd", kArgMax[] = "ArgMax", kArgMin[] = "ArgMin";

constexpr RaiseRow kReductions[] = {
    {Kind::kSum, 2, 2, raise_reduction<kReduceSum>, Takes::kNumbers},
    {Kind::kMean, 2, 2, raise_reduction<kReduceMean>, Takes::kNumbers},
    {Kind::kReduceMax, 2, 2, raise_reduction<kReduceMax>, Takes::kNumbers},
    {Kind::kReduceMin, 2, 2, raise_reduction<kReduceMin>, Takes::kNumbers},
    {Kind::kReduceProd, 2, 2, raise_reduction<kReduceProd>, Takes::kNumbers},
    {Kind::kReduceAny, 2, 2, raise_logical_reduction<kReduceMax>},
    {Kind::kReduceAll, 2, 2, raise_logical_reduction<kReduceMin>},
    {Kind::kArgMax, 2, 2, raise_arg<kArgMax>},
    {Kind::kArgMin, 2, 2, raise_arg<kArgMin>},
    {Kind::kCumsum, 2, 2, raise_cumsum, Takes::kNumbers},
    {Kind::kSoftmax, 1, 1, raise_softmax, Takes::kReals},
    {Kind::kLogSoftmax, 1, 1, raise_log_softmax, Takes::kReals},
    {Kind::kTopkV2, 2, 2, raise_top_k, Takes::kNumbers},
};

}  // namespace

std::span<const RaiseRow> raised_reductions() { return kReductions; }

}  // namespace lowtide::layout
