// SPDX-License-Identifier: Apache-2.0
// NON_MAX_SUPPRESSION_V4 and _V5 without the soft form.
//
// The traps: LiteRT suppresses where the overlap is equal to the threshold too, ONNX where it is above, so the next
// smaller number stands for it; the number of boxes that ONNX selects is known at run time only, TFLite's results have
// a fixed size with zeros behind the last. Equal scores: ONNX Runtime takes the first box, LiteRT any of them. A box
// without area is selected by LiteRT again and again, because it does not overlap itself; ONNX selects it once. Source
// of the semantics: LiteRT's tflite/kernels/non_max_suppression.cc, internal/reference/non_max_suppression.h.
#include "layout/raise/suppression.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
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
  if (boxes.rank() != 2 || scores.rank() != 1 || boxes.shape[1] != 4 || boxes.shape[0] != scores.shape[0])
    malformed_model(fmt::format("boxes {} and scores {} do not fit", stream::to_string(boxes.shape),
                                stream::to_string(scores.shape)));
  if (boxes.shape[0] == 0) throw Unsupported("there are no boxes");
  const auto number = [&](size_t input, const char* what) {
    if (graph_.at(inputs[input]).rank() != 0) malformed_model(fmt::format("{} is no scalar", what));
    const auto known = graph_.numbers(inputs[input]);
    if (!known || known->size() != 1) throw Unsupported(fmt::format("{} is known at run time only", what));
    return (*known)[0];
  };
  const double most = number(2, "the most boxes that are selected");
  if (graph_.at(inputs[2]).dtype != DType::kInt32 || most < 0) malformed_model("the most boxes are no count");
  if (most < 1 || most > static_cast<double>(kMostSelected))
    throw Unsupported(fmt::format("at most {} boxes are selected, not 1 to {}", most, kMostSelected));
  const auto threshold = static_cast<float>(number(3, "the threshold of overlaps"));
  // At 0 each box suppresses all others; above 1 LiteRT's kernel selects the best box again and again.
  if (!(threshold > 0 && threshold <= 1))
    throw Unsupported(fmt::format("the threshold of overlaps is {}, not above 0 and up to 1", threshold));
  const auto score = static_cast<float>(number(4, "the threshold of scores"));
  if (std::isnan(score)) throw Unsupported("the threshold of scores is no number");
  for (size_t i : {3, 4})
    if (graph_.at(inputs[i]).dtype != DType::kFloat32) malformed_model("a threshold is no float");
  if (has_scores && number(5, "sigma") != 0)
    throw Unsupported("sigma is not 0: the soft form lowers scores, which ONNX's NonMaxSuppression does not");
  const auto made = std::make_shared<Suppression>();
  made->name = op.name;
  made->raise = raise_suppression;
  made->most = static_cast<int64_t>(most);
  made->overlap = std::nextafter(threshold, 0.0F);
  made->score = score;
  made->has_scores = has_scores;
  std::vector<TensorType> types = {{DType::kInt32, {made->most}, std::nullopt}, {DType::kInt32, {}, std::nullopt}};
  if (has_scores) types.insert(types.begin() + 1, {DType::kFloat32, {made->most}, std::nullopt});
  for (size_t i = 0; i < types.size(); ++i) {
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[i])];
    need_numbers(tensor);
    check_type(types[i], tensor, quantization_of(tensor).has_value());
    check_shape(types[i].shape, tensor);
  }
  const std::vector<ValueId> results = add_custom(made, {inputs[0], inputs[1]}, types);
  for (size_t i = 0; i < results.size(); ++i) {
    graph_.at(results[i]).name = scope.from.tensors[static_cast<size_t>(op.outputs[i])].name;
    scope.values[static_cast<size_t>(op.outputs[i])] = results[i];
  }
}

void raise_suppression(Raising& r) {
  namespace recipe = stream::recipe;
  const auto& o = static_cast<const Suppression&>(*r.options<core::CustomOptions>().described);
  const auto number = [&](float value) {
    return r.onnx.initializer(recipe::floats(std::array{value}, {1}), "constant");
  };
  const std::string boxes = r.node("Unsqueeze", {r.stored(0), r.int64_list({0})});
  const std::string scores = r.node("Unsqueeze", {r.stored(1), r.int64_list({0, 1})});
  // [selected, 3]: batch, class, box.
  const std::string rows =
      r.node("NonMaxSuppression", {boxes, scores, r.int64_list({o.most}), number(o.overlap), number(o.score)});
  const std::string selected = r.node("Gather", {rows, r.scalar(2, DType::kInt64)}, {attribute("axis", int64_t{1})});
  const std::string count = r.node("Shape", {selected});
  const std::string zeros = r.onnx.initializer(recipe::fill_value(0, DType::kInt64, {o.most}), "zeros");
  const std::string all = r.node("Concat", {selected, zeros}, {attribute("axis", int64_t{0})});
  const std::string places = r.reshaped(r.node("Slice", {all, r.int64_list({0}), r.int64_list({o.most})}), {o.most});
  r.give_stored(r.cast(places, DType::kInt32));
  if (o.has_scores) {
    const std::string rank = r.onnx.initializer(recipe::iota(0, 1, DType::kInt64, o.most), "rows");
    const std::string live = r.node("Less", {rank, count});
    r.give_stored(r.node("Where", {live, r.node("Gather", {r.stored(1), places}), r.scalar(0, DType::kFloat32)}), 1);
  }
  r.give_stored(r.cast(r.reshaped(count, {}), DType::kInt32), o.has_scores ? 2 : 1);
}

}  // namespace lowtide::layout
