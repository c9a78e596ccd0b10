// SPDX-License-Identifier: Apache-2.0
// TFLite_Detection_PostProcess. Source of the semantics: LiteRT's tflite/kernels/detection_postprocess.cc.
//
// The fast form suppresses boxes by their best class alone, and then looks at the classes of the boxes that are left;
// the regular form suppresses within each class, and keeps the best of all classes.
//
// The traps: boxes are decoded in doubles; a score that equals the threshold counts, in ONNX it does not; the order of
// suppression is that of ONNX Runtime (equal scores: the first box first). NonMaxSuppression selects a number of boxes
// that is known at run time only. Its result is filled up with box 0, so that all that follows has fixed shapes, and
// what was filled up becomes zeros at the end. (LiteRT's fast form leaves there what was in memory.)
#include "layout/raise/detection.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

constexpr int64_t kCorners = 4;
constexpr int64_t kOpsetOfReducedAxesAsInput = 18;

class Detector {
 public:
  explicit Detector(Raising& op)
      : r_(op),
        o_(static_cast<const Detection&>(*op.options<core::CustomOptions>().described)),
        boxes_(op.in(0).shape[1]),
        decoded_(decoded_boxes()),
        scores_(class_scores()) {}

  void fast() {
    // [boxes]
    const std::string best =
        r_.onnx.opset >= kOpsetOfReducedAxesAsInput
            ? r_.node("ReduceMax", {scores_, ints({1})}, {attribute("keepdims", int64_t{0})})
            : r_.node("ReduceMax", {scores_},
                      {attribute("keepdims", int64_t{0}), attribute("axes", std::vector<int64_t>{1})});
    const std::string selected = suppressed(r_.reshaped(best, {1, 1, boxes_}), o_.most_detections);
    const std::string live = live_rows(rows_of(selected));
    const std::string box = column(filled(selected), 2);
    const int64_t classes = std::min(o_.most_classes, o_.classes);
    const Names top =
        r_.onnx.nodes("TopK", {r_.node("Gather", {scores_, box}), ints({classes})}, 2, {attribute("axis", int64_t{1})});
    const std::string corners = r_.node("Gather", {decoded_, box});
    const std::string several = r_.node("Expand", {r_.node("Unsqueeze", {masked(corners, live), ints({1})}),
                                                   ints({o_.most_detections, classes, kCorners})});
    const int64_t missing = o_.most_classes - classes;
    give(missing == 0 ? several : r_.node("Pad", {several, ints({0, 0, 0, 0, missing, 0})}), 0);
    for (size_t i : {1, 2}) {
      const std::string numbers = i == 1 ? r_.cast(top[1], DType::kFloat32) : top[0];
      const std::string kept = masked(numbers, live);
      give(missing == 0 ? kept : r_.node("Pad", {kept, ints({0, 0, 0, missing})}), i);
    }
    give_count(rows_of(selected));
  }

  void regular() {
    const std::string by_class = r_.node("Transpose", {scores_}, {attribute("perm", {1, 0})});
    const std::string selected = suppressed(r_.reshaped(by_class, {1, o_.classes, boxes_}), o_.detections_of_class);
    // The best of all classes; what is added at the end is worse than any.
    const std::string places = r_.node("Slice", {selected, ints({1}), ints({3}), ints({1})});
    const std::vector<float> worst(static_cast<size_t>(o_.most_detections), -std::numeric_limits<float>::infinity());
    const std::string scores =
        r_.node("Concat", {r_.node("GatherND", {by_class, places}), floats(worst, {o_.most_detections})},
                {attribute("axis", int64_t{0})});
    const Names top = r_.onnx.nodes("TopK", {scores, ints({o_.most_detections})}, 2);
    const std::string count = r_.node("Min", {rows_of(selected), ints({o_.most_detections})});
    const std::string live = live_rows(count);
    const std::string best = r_.node("Gather", {with_zeros(selected), top[1]});
    give(padded(masked(r_.node("Gather", {decoded_, column(best, 2)}), live), 2), 0);
    give(padded(masked(r_.cast(r_.reshaped(column(best, 1), {o_.most_detections, 1}), DType::kFloat32), live), 2), 1);
    give(padded(masked(r_.reshaped(top[0], {o_.most_detections, 1}), live), 2), 2);
    give_count(count);
  }

 private:
  std::string ints(std::initializer_list<int64_t> values) { return r_.int64_list(values); }
  std::string floats(std::span<const float> values, const Shape& shape) {
    return r_.onnx.initializer(recipe::floats(values, shape), "constant");
  }
  std::string doubles(float y, float x) {
    return r_.onnx.initializer(recipe::cast(recipe::floats(std::array{y, x}, {2}), DType::kFloat64), "constant");
  }

  // [boxes, 4]: the corners ymin, xmin, ymax, xmax.
  std::string decoded_boxes() {
    const Shape& shape = r_.in(0).shape;
    std::string encoded = r_.reshaped(r_.real(0), {boxes_, shape[2]});
    if (shape[2] > kCorners) encoded = r_.node("Slice", {encoded, ints({0}), ints({kCorners}), ints({1})});
    const auto halves = [&](const std::string& x) {
      return r_.onnx.nodes("Split", {r_.cast(x, DType::kFloat64), ints({2, 2})}, 2, {attribute("axis", int64_t{1})});
    };
    const Names from = halves(encoded), anchor = halves(r_.real(2));
    const std::string places =
        r_.node("Mul", {r_.node("Div", {from[0], doubles(o_.scale[0], o_.scale[1])}), anchor[1]});
    const std::string centre = r_.cast(r_.node("Add", {places, anchor[0]}), DType::kFloat32);
    const std::string growth = r_.node("Exp", {r_.node("Div", {from[1], doubles(o_.scale[2], o_.scale[3])})});
    const std::string half =
        r_.cast(r_.node("Mul", {r_.node("Mul", {growth, doubles(0.5F, 0.5F)}), anchor[1]}), DType::kFloat32);
    return r_.node("Concat", {r_.node("Sub", {centre, half}), r_.node("Add", {centre, half})},
                   {attribute("axis", int64_t{1})});
  }

  // [boxes, classes], without the background.
  std::string class_scores() {
    const int64_t columns = r_.in(1).shape[2];
    std::string all = r_.reshaped(r_.real(1), {boxes_, columns});
    if (columns == o_.classes) return all;
    return r_.node("Slice", {all, ints({columns - o_.classes}), ints({columns}), ints({1})});
  }

  // [selected, 3]: batch, class, box.
  std::string suppressed(const std::string& scores, int64_t most) {
    const float below = std::nextafter(o_.least_score, -std::numeric_limits<float>::infinity());
    return r_.node("NonMaxSuppression", {r_.reshaped(decoded_, {1, boxes_, kCorners}), scores, ints({most}),
                                         floats(std::array{o_.most_overlap}, {1}), floats(std::array{below}, {1})});
  }
  std::string rows_of(const std::string& selected) {
    return r_.node("Slice", {r_.node("Shape", {selected}), ints({0}), ints({1})});
  }
  std::string with_zeros(const std::string& selected) {
    const std::string zeros =
        r_.onnx.initializer(recipe::fill_value(0, DType::kInt64, {o_.most_detections, 3}), "constant");
    return r_.node("Concat", {selected, zeros}, {attribute("axis", int64_t{0})});
  }
  // [most_detections, 3]
  std::string filled(const std::string& selected) {
    return r_.reshaped(r_.node("Slice", {with_zeros(selected), ints({0}), ints({o_.most_detections}), ints({0})}),
                       {o_.most_detections, 3});
  }
  std::string column(const std::string& rows, int64_t i) {
    return r_.node("Gather", {rows, r_.scalar(static_cast<double>(i), DType::kInt64)}, {attribute("axis", int64_t{1})});
  }
  // [most_detections, 1]: which rows were selected.
  std::string live_rows(const std::string& count) {
    return r_.node(
        "Less",
        {r_.onnx.initializer(
             recipe::reshape(recipe::iota(0, 1, DType::kInt64, o_.most_detections), {o_.most_detections, 1}), "rows"),
         count});
  }
  std::string masked(const std::string& x, const std::string& live) {
    return r_.node("Where", {live, x, r_.scalar(0, DType::kFloat32)});
  }
  // Rows of zeros for the classes that the regular form does not have.
  std::string padded(const std::string& x, size_t rank) {
    const int64_t rows = o_.most_detections * (o_.most_classes - 1);
    if (rows == 0) return x;
    std::vector<int64_t> pads(2 * rank, 0);
    pads[rank] = rows;
    return r_.node("Pad", {x, r_.int64_list(pads)});
  }
  void give(const std::string& x, size_t output) {
    r_.give_stored(r_.reshaped(x, r_.graph.at(r_.op.outputs[output]).shape), output);
  }
  void give_count(const std::string& count) { r_.give_stored(r_.cast(count, DType::kFloat32), 3); }

  Raising& r_;
  const Detection& o_;
  int64_t boxes_;
  std::string decoded_, scores_;
};

}  // namespace

void raise_detection(Raising& r) {
  Detector detector(r);
  const auto& o = static_cast<const Detection&>(*r.options<core::CustomOptions>().described);
  o.is_regular ? detector.regular() : detector.fast();
}

}  // namespace lowtide::layout
