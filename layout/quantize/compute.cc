// SPDX-License-Identifier: Apache-2.0
// Ops that compute, in integer kernels: DEQUANTIZE -> op -> QUANTIZE becomes the op on integers, where a kernel takes
// the types and is right for these scales. Scales and zero points stay the model's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "layout/core/integer_constant.h"
#include "layout/quantize/as_product.h"
#include "layout/quantize/conditions.h"
#include "layout/quantize/rules.h"
#include "layout/quantize/weights.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using core::Integers;
using core::Role;
namespace recipe = stream::recipe;

// How many elements along `axes` meet in one sum. Extents that are known at run time only are taken for the longest
// that a tensor of this shape can have; its elements are as many as the square of one that stands twice.
double most_terms(const core::Shape& shape, const std::vector<size_t>& axes) {
  // LiteRT counts the elements of a tensor in an int.
  constexpr double kMostCounted = std::numeric_limits<int32_t>::max();
  double known = 1, terms = 1;
  for (const core::Dim extent : shape)
    if (!core::is_symbol(extent)) known *= static_cast<double>(std::max<core::Dim>(extent, 1));
  size_t unknown = 0, last = 0;
  for (const size_t axis : axes) {
    if (!core::is_symbol(shape[axis])) terms *= static_cast<double>(shape[axis]);
    if (core::is_symbol(shape[axis])) ++unknown, last = axis;
  }
  if (unknown == 0) return terms;
  double most = kMostCounted / known;
  if (unknown == 1 && std::count(shape.begin(), shape.end(), shape[last]) > 1) most = std::sqrt(most);
  return terms * most;
}

// Finds how an op can be computed in integers. Each function returns false, with the reason, where it cannot.
class IntegerForm {
 public:
  IntegerForm(Rewriter& rewriter, Op op, TensorGrid target)
      : rewriter_(rewriter), op_(std::move(op)), row_(core::builtin(op_.kind)), target_(target) {}

  bool find() { return *row_.weights ? with_weights() : without_weights(); }
  const std::string& reason() const { return reason_; }

  // The result's value, on target() in the kernel's type.
  ValueId build() {
    Op made = op_;
    for (size_t i = 0; i < op_.inputs.size(); ++i)
      if (operands_[i] != core::kAbsent) made.inputs[i] = as_operand(i);
    if (*row_.weights) set_weights(made);
    const core::Shape shape = rewriter_.value(op_.outputs[0]).shape;
    return push_on_grid(rewriter_, std::move(made), *shifted(target_, dtype_), shape);
  }

 private:
  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  bool with_weights() {
    const core::Weights& where = **row_.weights;
    operands_.assign(op_.inputs.size(), core::kAbsent);
    const ValueId data = dequantized(rewriter_, op_.inputs[where.data]);
    if (data == core::kAbsent) return refuse("its data is not quantized");
    operands_[where.data] = data;
    const TensorGrid grid = *grid_of(rewriter_.value(data));
    weights_ = integer_weights(rewriter_, op_, where, grid.dtype, reason_);
    if (!weights_) return false;
    dtype_ = weights_->data;
    if (!types_fit({grid})) return false;
    choose_free_scales(rewriter_, op_, where, grid.scale, target_.scale, *weights_);
    if (!product_fits(op_.kind, grid.scale, weights_->scale, target_.scale, reason_)) return false;
    // FULLY_CONNECTED without a bias sums data of 16 bits in 32 bits (tflite/kernels/fully_connected.cc): the type of
    // the bias is that of the sums.
    const bool needs_bias = op_.kind == Kind::kFullyConnected && dtype_ == DType::kInt16;
    if (needs_bias || core::has_input(op_, where.bias)) {
      std::vector<float> scale;
      for (const float s : weights_->scale) scale.push_back(grid.scale * s);
      bias_ = integer_bias(rewriter_, op_, where, scale, target_.scale, *weights_, reason_);
      if (bias_ == core::kAbsent) return false;
    }
    return weighted_sums_fit(*shifted(grid, dtype_), *where.output_axis);
  }

  // By the number of terms, and where that is not enough by the weights themselves.
  bool weighted_sums_fit(const TensorGrid& data, int output_axis) {
    const stream::RecipeRef& integers = weights_->integers;
    const auto channels = static_cast<uint64_t>(integers->dims[static_cast<size_t>(output_axis)]);
    const double terms =
        static_cast<double>(integers->elements()) / static_cast<double>(std::max<uint64_t>(channels, 1));
    const double most = terms * most_steps(data) * most_steps({integers->dtype, 1, weights_->zero}) + most_bias();
    const std::vector<float>& scales = weights_->scale;
    const double largest = scales.empty() ? 0 : *std::max_element(scales.begin(), scales.end());
    const bool is_wide =
        data.dtype == DType::kInt16 && (bias_ == core::kAbsent || rewriter_.value(bias_).dtype == DType::kInt64);
    const double step = static_cast<double>(data.scale) / target_.scale;
    std::string reason;
    if (sums_have_room(most, step * largest, is_wide, reason)) return true;
    const std::vector<int64_t>* sums = sums_of_magnitudes(rewriter_.graph.budget, *weights_, output_axis);
    if (sums == nullptr) return refuse(std::move(reason));
    std::optional<std::vector<int64_t>> biases(std::in_place, sums->size(), 0);
    if (bias_ != core::kAbsent) biases = rewriter_.graph.ints(bias_);
    if (!biases || biases->size() != sums->size()) return refuse(std::move(reason));
    for (size_t i = 0; i < sums->size(); ++i) {
      const double sum =
          static_cast<double>((*sums)[i]) * most_steps(data) + std::fabs(static_cast<double>((*biases)[i]));
      if (!sums_have_room(sum, step * scales[scales.size() == 1 ? 0 : i], is_wide, reason_)) return false;
    }
    return true;
  }

  // The largest magnitude of the bias' integers.
  double most_bias() {
    if (bias_ == core::kAbsent || rewriter_.value(bias_).constant->elements() == 0) return 0;
    const stream::RecipeRef magnitudes =
        recipe::unary(stream::Unary::kAbs, recipe::cast(rewriter_.value(bias_).constant, DType::kInt64));
    const stream::RecipeRef most = recipe::reduce(stream::Reduction::kMax, magnitudes, {0});
    return static_cast<double>(stream::evaluate_ints(most, rewriter_.graph.budget).at(0));
  }

  bool without_weights() {
    operands_.assign(op_.inputs.size(), core::kAbsent);
    std::vector<TensorGrid> grids;
    bool made_u8 = false, any = false, is_wide = false;
    for (const ValueId in : op_.inputs) {
      const ValueId data = in == core::kAbsent ? in : dequantized(rewriter_, in);
      is_wide = is_wide || (data != core::kAbsent && rewriter_.value(data).dtype == DType::kInt16);
    }
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      if (!core::has_input(op_, i) || row_.inputs[i] != Role::kData) continue;
      ValueId value = dequantized(rewriter_, op_.inputs[i]);
      if (value == core::kAbsent) {
        value = constant_operand(op_.inputs[i], is_wide);
        if (value == core::kAbsent) return refuse(fmt::format("input {} is not quantized", i));
      } else {
        any = true;
        const OpId producer = rewriter_.producer(value);
        const bool computed = producer >= 0 && rewriter_.op(producer).kind != Kind::kQuantize;
        made_u8 = made_u8 || (computed && rewriter_.value(value).dtype == DType::kUint8);
      }
      operands_[i] = value;
      grids.push_back(*grid_of(rewriter_.value(value)));
    }
    if (!any) return refuse("its inputs are constants");
    // i8 is what most kernels and all compilers for accelerators take; u8 where the data was made so.
    std::vector<DType> types{DType::kInt8, DType::kUint8};
    if (made_u8) std::swap(types[0], types[1]);
    if (grids[0].dtype == DType::kInt16) types = {DType::kInt16};
    std::string first;
    for (const DType dtype : types) {
      dtype_ = dtype;
      if (types_fit(grids) && scales_fit(grids) && sizes_fit(grids)) return true;
      if (first.empty()) first = reason_;
    }
    return refuse(std::move(first));
  }

  // A constant as an operand: the model's integers, or one number, which is exact as 1 times itself. `is_wide`: in 16
  // bits, beside data that has as many.
  ValueId constant_operand(ValueId id, bool is_wide) {
    const core::Value& value = rewriter_.value(id);
    if (!value.is_constant()) return core::kAbsent;
    auto stored = core::integer_constant(value.constant, rewriter_.graph.budget);
    if (!stored && value.constant->elements() == 1) {
      const auto numbers = rewriter_.graph.numbers(id);
      if (!numbers) return core::kAbsent;
      stored = core::integer_constant(recipe::fill_value((*numbers)[0], DType::kFloat32, value.shape),
                                      rewriter_.graph.budget);
    }
    if (!stored || stored->axis >= 0 || !(stored->scale[0] > 0) || !stored->all_zero_points_fit()) return core::kAbsent;
    if (std::holds_alternative<stream::step::Fill>(stored->integers->step)) refine(*stored, is_wide);
    stream::RecipeRef integers = stored->integers;
    if (integers->dtype == DType::kInt4) integers = recipe::cast(integers, DType::kInt8);
    if (integers->dtype == DType::kUint4) integers = recipe::cast(integers, DType::kUint8);
    TensorGrid grid{integers->dtype, stored->scale[0], stored->zero[0]};
    if (!shifted(grid, DType::kInt8) && grid.dtype != DType::kInt16) return core::kAbsent;
    if (is_wide && grid.dtype != DType::kInt16) {
      integers = core::shifted_integers(integers, -grid.zero, DType::kInt16);
      grid = {DType::kInt16, grid.scale, 0};
    }
    std::string name = value.name;
    const ValueId made = rewriter_.graph.add_constant(std::move(integers), std::move(name));
    rewriter_.graph.at(made).quantization = quantization_of(grid);
    rewriter_.note_new_ops();
    return made;
  }

  // One number everywhere, as a multiple of itself, which may be too far from the result's scale for a sum: then as
  // more steps, no coarser than the result's where the type has so many.
  void refine(core::IntegerConstant& number, bool is_wide) {
    const bool is_sum = op_.kind == Kind::kAdd || op_.kind == Kind::kSub;
    if (!is_sum || ratios_fit(op_.kind, number.scale, target_.scale, reason_)) return;
    const DType dtype = is_wide ? DType::kInt16 : DType::kInt8;
    const TensorGrid unit{dtype, 1, 0};
    const double most = static_cast<double>(steps_of(unit).most);
    const double steps = std::clamp(std::ceil(static_cast<double>(number.scale[0]) / target_.scale), 1.0, most);
    number.integers = recipe::binary(stream::Binary::kMul, recipe::cast(number.integers, dtype),
                                     recipe::fill_value(steps, dtype, {}));
    number.scale[0] = static_cast<float>(number.scale[0] / steps);
  }

  ValueId as_operand(size_t i) {
    const ValueId value = operands_[i];
    if (!rewriter_.value(value).is_constant()) return as_type(rewriter_, value, dtype_);
    const TensorGrid grid = *grid_of(rewriter_.value(value)), wanted = *shifted(grid, dtype_);
    if (grid == wanted) return value;
    std::string name = rewriter_.value(value).name;
    const ValueId made = rewriter_.graph.add_constant(
        core::shifted_integers(rewriter_.value(value).constant, wanted.zero - grid.zero, dtype_), std::move(name));
    rewriter_.graph.at(made).quantization = quantization_of(wanted);
    rewriter_.note_new_ops();
    return made;
  }

  void set_weights(Op& made) {
    const core::Weights& where = **row_.weights;
    std::string name = rewriter_.value(op_.inputs[where.weights]).name;
    const ValueId weights = rewriter_.graph.add_constant(weights_->integers, std::move(name));
    core::Quantization& q = rewriter_.graph.at(weights).quantization.emplace();
    q.scale = weights_->scale;
    q.zero_point.assign(weights_->scale.size(), weights_->zero);
    q.axis = q.scale.size() > 1 ? *where.output_axis : 0;
    rewriter_.note_new_ops();
    made.inputs[where.weights] = weights;
    if (bias_ == core::kAbsent) return;
    if (made.inputs.size() <= where.bias) made.inputs.resize(where.bias + 1, core::kAbsent);
    made.inputs[where.bias] = bias_;
  }

  // All operands and the result in dtype_, by a kernel that is right.
  bool types_fit(const std::vector<TensorGrid>& grids) {
    std::vector<TensorGrid> all = grids;
    all.push_back(target_);
    for (const TensorGrid& grid : all)
      if (!has_kernels(grid))
        return refuse(fmt::format("no kernel takes {} with the zero point {}", dtype_name(grid.dtype), grid.zero));
    for (const TensorGrid& grid : grids)
      if (!shifted(grid, dtype_))
        return refuse(fmt::format("data of {} and {} meet", dtype_name(grid.dtype), dtype_name(dtype_)));
    if (!shifted(target_, dtype_))
      return refuse(fmt::format("it computes {} from {}", dtype_name(target_.dtype), dtype_name(dtype_)));
    const bool of_8_bits = row_.integers == Integers::kRescaled8 || row_.integers == Integers::kFixed8;
    if (of_8_bits && stream::bits(dtype_) != 8)
      return refuse(fmt::format("the {} kernel of {} is not exact", dtype_name(dtype_), kind_name(op_.kind)));
    const bool one_scale = row_.integers == Integers::kOneScale;
    if (!integer_kernel_takes(rewriter_.graph, op_, dtype_, one_scale))
      return refuse(fmt::format("no kernel of {} takes {} of rank {}", kind_name(op_.kind), dtype_name(dtype_),
                                rewriter_.value(op_.outputs[0]).rank()));
    return true;
  }

  bool sizes_fit(const std::vector<TensorGrid>& grids) {
    if (op_.kind == Kind::kMean || op_.kind == Kind::kAveragePool2d) return mean_fits(*shifted(grids[0], dtype_));
    if (op_.kind != Kind::kResizeBilinear) return true;
    const core::Shape &from = rewriter_.value(op_.inputs[0]).shape, &to = rewriter_.value(op_.outputs[0]).shape;
    const bool align_corners = std::get<core::ResizeOptions>(op_.options).align_corners;
    core::Symbols& symbols = rewriter_.graph.symbols;
    return positions_fit(symbols, from[1], to[1], align_corners, reason_) &&
           positions_fit(symbols, from[2], to[2], align_corners, reason_);
  }

  // Means are sums of 32 bits first, of the integers as they are stored, from which MEAN takes the zero points then.
  bool mean_fits(const TensorGrid& data) {
    const core::Shape& shape = rewriter_.value(op_.inputs[0]).shape;
    double terms = 1;
    if (const auto* pool = std::get_if<core::PoolOptions>(&op_.options)) {
      auto along = [](core::Dim extent, core::Dim filter) {
        return static_cast<double>(core::is_symbol(extent) ? filter : std::min(extent, filter));
      };
      terms = along(shape[1], pool->filter_h) * along(shape[2], pool->filter_w);
    } else {
      std::vector<size_t> axes(shape.size());
      std::iota(axes.begin(), axes.end(), size_t{0});
      if (const auto reduced = rewriter_.graph.ints(op_.inputs[1])) {
        axes.clear();
        const auto rank = static_cast<int64_t>(shape.size());
        for (const int64_t axis : *reduced) axes.push_back(static_cast<size_t>(axis < 0 ? axis + rank : axis));
      }
      terms = most_terms(shape, axes);
    }
    const double most = std::max(most_steps({data.dtype, 1, 0}), most_steps(data));
    return sums_have_room(terms * most, 0, false, reason_);
  }

  bool scales_fit(const std::vector<TensorGrid>& grids) {
    const TensorGrid result = *shifted(target_, dtype_);
    if (row_.integers == Integers::kOneScale) {
      for (const TensorGrid& grid : grids)
        if (shifted(grid, dtype_) != result)
          return refuse("its data and its result have different scales or zero points");
      return true;
    }
    if (row_.integers == Integers::kFixed8) return is_fixed_grid(op_.kind, result, reason_);
    std::vector<float> scales;
    for (const TensorGrid& grid : grids) scales.push_back(grid.scale);
    if (op_.kind == Kind::kBatchMatmul && !sums_of_products_fit(grids, result)) return false;
    return ratios_fit(op_.kind, scales, result.scale, reason_) &&
           result_fits(op_.kind, steps_of_operands(), scales, result, reason_);
  }

  // Of BATCH_MATMUL.
  bool sums_of_products_fit(const std::vector<TensorGrid>& grids, const TensorGrid& result) {
    const core::Shape& shape = rewriter_.value(op_.inputs[0]).shape;
    const bool is_adjoint = std::get<core::BatchMatmulOptions>(op_.options).adj_x;
    const double terms = most_terms(shape, {shape.size() - (is_adjoint ? 2 : 1)});
    const double most = terms * most_steps(*shifted(grids[0], dtype_)) * most_steps(*shifted(grids[1], dtype_));
    const double factor = static_cast<double>(grids[0].scale) * grids[1].scale / result.scale;
    return sums_have_room(most, factor, dtype_ == DType::kInt16, reason_);
  }

  // Of small constants those that they have.
  std::vector<Steps> steps_of_operands() {
    std::vector<Steps> out;
    for (const ValueId operand : operands_) {
      if (operand == core::kAbsent) continue;
      const TensorGrid grid = *grid_of(rewriter_.value(operand));
      out.push_back(steps_of(grid));
      const auto numbers = rewriter_.graph.numbers(operand);
      if (!numbers || numbers->empty()) continue;
      const auto [least, most] = std::minmax_element(numbers->begin(), numbers->end());
      out.back() = {static_cast<int64_t>(*least) - grid.zero, static_cast<int64_t>(*most) - grid.zero};
    }
    return out;
  }

  Rewriter& rewriter_;
  const Op op_;
  const core::Builtin& row_;
  const TensorGrid target_;
  DType dtype_ = DType::kUndefined;
  std::vector<ValueId> operands_;  // by input: the quantized value or constant; kAbsent for other inputs
  std::optional<IntegerWeights> weights_;
  ValueId bias_ = core::kAbsent;
  std::string reason_;
};

// MUL in place of ops that have no integer kernel.
Op with_kernel(Rewriter& rewriter, const Op& op) {
  const auto product = as_product(rewriter.graph, op, false);
  rewriter.note_new_ops();
  return product.value_or(op);
}

bool computes(const core::Builtin& row) { return row.integers != Integers::kNone && row.integers != Integers::kChosen; }

// The grid on which all users of a float value want it; nullopt when one wants it as floats or on another grid.
std::optional<TensorGrid> wanted_grid(Rewriter& rewriter, ValueId floats) {
  std::optional<TensorGrid> grid;
  const std::vector<OpId>& users = rewriter.users(floats);
  if (static_cast<int>(users.size()) != rewriter.uses(floats)) return std::nullopt;
  for (const OpId user : users) {
    if (rewriter.op(user).kind != Kind::kQuantize) return std::nullopt;
    const auto own = grid_of(rewriter.value(rewriter.op(user).outputs[0]));
    if (!own || (grid && grid != own)) return std::nullopt;
    grid = own;
  }
  return grid;
}

}  // namespace

bool compute_in_integers(Rewriter& rewriter, OpId id) {
  const ValueId floats = rewriter.op(id).inputs[0];
  const OpId producer = rewriter.producer(floats);
  if (producer < 0 || rewriter.value(floats).dtype != DType::kFloat32) return false;
  if (rewriter.op(producer).stays_float || rewriter.op(producer).outputs.size() != 1) return false;
  const auto grid = wanted_grid(rewriter, floats);
  if (!grid) return false;
  Op op = with_kernel(rewriter, rewriter.op(producer));
  if (!computes(core::builtin(op.kind))) return false;
  rewriter.b.origin = op.origin;
  IntegerForm form(rewriter, std::move(op), *grid);
  if (!form.find()) return false;
  ValueId made = form.build();
  const std::vector<OpId> users = rewriter.users(floats);
  // The type may change, but the tensor is the model's.
  rewriter.graph.at(made).name = std::exchange(rewriter.graph.at(rewriter.op(users[0]).outputs[0]).name, {});
  made = as_type(rewriter, made, grid->dtype);
  for (const OpId user : users) rewriter.replace(rewriter.op(user).outputs[0], made);
  return true;
}

std::string reason_for_floats(Rewriter& rewriter, OpId id) {
  const Op op = with_kernel(rewriter, rewriter.op(id));
  const core::Builtin& row = core::builtin(op.kind);
  bool from_integers = false;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (core::has_input(op, i) && row.inputs[i] == Role::kData)
      from_integers = from_integers || dequantized(rewriter, op.inputs[i]) != core::kAbsent;
  if (!from_integers) return {};
  if (op.kind == Kind::kCustom) return "it is a custom operator, which is not said to take integers";
  if (row.integers == Integers::kNone)
    return fmt::format("LiteRT has no exact integer kernel of {}", kind_name(op.kind));
  if (row.integers == Integers::kChosen) return "its data is on different grids, or no kernel takes its type and rank";
  const auto grid = wanted_grid(rewriter, op.outputs[0]);
  if (!grid) return "its result is not quantized, or on several grids";
  IntegerForm form(rewriter, op, *grid);
  return form.find() ? std::string() : form.reason();
}

}  // namespace lowtide::layout
