// SPDX-License-Identifier: Apache-2.0
// NON_MAX_SUPPRESSION_V4 and _V5 without the soft form.
//
// The traps: LiteRT suppresses where the overlap is equal to the threshold too, ONNX where it is above, so the next
// smaller number stands for it; the number of boxes that ONNX selects is known at run time only, TFLite's results have
// as many places as are asked for, with zeros behind the last. Equal scores: ONNX Runtime takes the first box, LiteRT
// any of them. A box without area is selected by LiteRT again and again, because it does not overlap itself; ONNX
// selects it once. Source of the semantics: LiteRT's tflite/kernels/non_max_suppression.cc,
// internal/reference/non_max_suppression.h.
#include "layout/raise/suppression.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>

#include "layout/raise/families.h"
#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/raising.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;

constexpr int64_t kMostSelected = 1 << 20;
constexpr size_t kHardInputs = 5, kSoftInputs = 6;  // the kernel decides by their number

}  // namespace

void GraphImport::suppression(SubgraphScope& scope, const tfl::Operator& op) {
  const bool has_scores = op.inputs.size() == kSoftInputs;
  if (op.inputs.size() != kHardInputs && !has_scores)
    malformed_model(fmt::format("it has {} inputs, neither {} nor {}", op.inputs.size(), kHardInputs, kSoftInputs));
  if (op.outputs.size() != (has_scores ? 3 : 2)) malformed_model(fmt::format("it has {} outputs", op.outputs.size()));
  const std::vector<ValueId> inputs = all_inputs(scope, op);
  const core::Value &boxes = graph_.at(inputs[0]), &scores = graph_.at(inputs[1]);
  for (const core::Value* value : {&boxes, &scores})
    if (value->dtype != DType::kFloat32)
      throw Unsupported(fmt::format("boxes or scores of {}: the integer kernel rounds overlaps and scores",
                                    stream::dtype_name(value->dtype)));
  if (boxes.rank() != 2 || scores.rank() != 1 || !may_be_equal(boxes.shape[1], 4) ||
      !may_be_equal(boxes.shape[0], scores.shape[0]))
    malformed_model(fmt::format("boxes {} and scores {} do not fit", stream::to_string(boxes.shape),
                                stream::to_string(scores.shape)));
  if (boxes.shape[0] == 0) throw Unsupported("there are no boxes");
  // One that is computed is checked where it is used.
  const auto number = [&](size_t input, DType dtype, const char* what) -> std::optional<double> {
    const core::Value& given = graph_.at(inputs[input]);
    if (given.rank() != 0) malformed_model(fmt::format("{} is no scalar", what));
    if (given.dtype != dtype || given.quantization)
      malformed_model(fmt::format("{} is {}", what, stream::dtype_name(given.dtype)));
    const auto known = graph_.numbers(inputs[input]);
    return known && known->size() == 1 ? std::optional((*known)[0]) : std::nullopt;
  };
  const auto most = number(2, DType::kInt32, "the most boxes that are selected");
  if (most && (*most < 1 || *most > static_cast<double>(kMostSelected)))
    throw Unsupported(fmt::format("at most {} boxes are selected, not 1 to {}", *most, kMostSelected));
  const auto threshold = number(3, DType::kFloat32, "the threshold of overlaps");
  // Above 1 LiteRT's kernel selects the best box again and again.
  if (threshold && !(static_cast<float>(*threshold) <= 1))
    throw Unsupported(fmt::format("the threshold of overlaps is {}, not up to 1", *threshold));
  const auto score = number(4, DType::kFloat32, "the threshold of scores");
  if (score && std::isnan(*score)) throw Unsupported("the threshold of scores is no number");
  if (has_scores) {
    const auto sigma = number(5, DType::kFloat32, "sigma");
    if (!sigma) throw Unsupported("sigma is known at run time only");
    if (*sigma != 0)
      throw Unsupported("sigma is not 0: the soft form lowers scores, which ONNX's NonMaxSuppression does not");
  }
  const auto made = std::make_shared<Suppression>();
  made->name = op.name;
  made->raise = raise_suppression;
  made->has_scores = has_scores;
  const core::Dim places = most ? static_cast<core::Dim>(*most) : graph_.symbols.fresh("selected");
  std::vector<TensorType> types = {{DType::kInt32, {places}, std::nullopt}, {DType::kInt32, {}, std::nullopt}};
  if (has_scores) types.insert(types.begin() + 1, {DType::kFloat32, {places}, std::nullopt});
  for (size_t i = 0; i < types.size(); ++i) {
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[i])];
    need_numbers(tensor);
    check_type(types[i], tensor, quantization_of(tensor).has_value());
    compare_shape(types[i].shape, tensor);
  }
  const std::vector<ValueId> results = add_custom(made, {inputs.begin(), inputs.begin() + kHardInputs}, types);
  for (size_t i = 0; i < results.size(); ++i) {
    graph_.at(results[i]).name = scope.from.tensors[static_cast<size_t>(op.outputs[i])].name;
    scope.values[static_cast<size_t>(op.outputs[i])] = results[i];
  }
}

namespace {

std::string float_list(Raising& r, float value) {
  return r.onnx.initializer(stream::recipe::floats(std::array{value}, {1}), "constant");
}
std::string as_list(Raising& r, size_t i) { return r.node("Reshape", {r.stored(i), r.int64_list({1})}); }

// ONNX's threshold of overlaps: the number below LiteRT's. Where that is 0 or less, any will do (selected_count).
// The product with 1 - 2^-24 rounds to the number below; above 1 the result is no threshold, which is an error.
std::string overlap_below(Raising& r) {
  if (const auto known = r.graph.numbers(r.op.inputs[3]))
    return float_list(r, std::max(std::nextafter(static_cast<float>((*known)[0]), 0.0F), 0.0F));
  const std::string given = as_list(r, 3), none = float_list(r, 0);
  const std::string below = r.node("Max", {r.node("Mul", {given, float_list(r, std::nextafter(1.0F, 0.0F))}), none});
  return r.node("Where", {r.node("Greater", {given, float_list(r, 1)}), float_list(r, 2), below});
}

// How many ONNX selects at most: one, where the threshold of overlaps lets each box suppress all others.
std::string selected_count(Raising& r, const std::string& size) {
  if (const auto known = r.graph.numbers(r.op.inputs[3])) return (*known)[0] > 0 ? size : r.int64_list({1});
  const std::string given = as_list(r, 3);
  const std::string is_one =
      r.node("And", {r.node("LessOrEqual", {given, float_list(r, 0)}), r.node("Greater", {size, r.int64_list({1})})});
  return r.node("Where", {is_one, r.int64_list({1}), size});
}

}  // namespace

void raise_suppression(Raising& r) {
  const bool has_scores = static_cast<const Suppression&>(*r.options<core::CustomOptions>().described).has_scores;
  const auto most = r.ints(2);
  const std::string size = most ? r.int64_list(*most) : r.cast(as_list(r, 2), DType::kInt64);
  const std::string boxes = r.node("Unsqueeze", {r.stored(0), r.int64_list({0})});
  const std::string scores = r.node("Unsqueeze", {r.stored(1), r.int64_list({0, 1})});
  const auto score = r.graph.numbers(r.op.inputs[4]);
  const std::string least = score ? float_list(r, static_cast<float>((*score)[0])) : as_list(r, 4);
  // [selected, 3]: batch, class, box.
  const std::string rows =
      r.node("NonMaxSuppression", {boxes, scores, selected_count(r, size), overlap_below(r), least});
  const std::string selected = r.node("Gather", {rows, r.scalar(2, DType::kInt64)}, {attribute("axis", int64_t{1})});
  const std::string count = r.node("Shape", {selected});
  const std::string zeros = r.node("Expand", {r.int64_list({0}), size});
  const std::string all = r.node("Concat", {selected, zeros}, {attribute("axis", int64_t{0})});
  std::string places = r.node("Slice", {all, r.int64_list({0}), size});
  if (most) places = r.reshaped(places, {static_cast<core::Dim>((*most)[0])});
  r.give_stored(r.cast(places, DType::kInt32));
  if (has_scores) {
    const std::string rank =
        r.node("Range", {r.scalar(0, DType::kInt64), r.reshaped(size, {}), r.scalar(1, DType::kInt64)});
    const std::string live = r.node("Less", {rank, count});
    r.give_stored(r.node("Where", {live, r.node("Gather", {r.stored(1), places}), r.scalar(0, DType::kFloat32)}), 1);
  }
  r.give_stored(r.cast(r.reshaped(count, {}), DType::kInt32), has_scores ? 2 : 1);
}

}  // namespace lowtide::layout
