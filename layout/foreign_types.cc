// SPDX-License-Identifier: Apache-2.0
#include "layout/foreign_types.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "layout/lower/node_order.h"
#include "stream/dtype.h"

namespace lowtide::layout {
namespace {

using onnx::Dimension;
using onnx::ValueInfo;
using stream::DType;
using Dims = std::vector<Dimension>;

// What is known of a value; without an element type nothing, without dims the element type alone. Of a sequence: what
// is known of all its elements.
struct Known {
  DType dtype = DType::kUndefined;
  std::optional<Dims> dims;
  bool is_sequence = false;
};
using Row = std::vector<Known> (*)(const onnx::Node&, const std::vector<Known>& in);

int64_t number(const onnx::Node& node, std::string_view name, int64_t otherwise) {
  const onnx::Attribute* found = node.find(name);
  return found && found->type == onnx::Attribute::Type::kInt ? found->i : otherwise;
}

// How many elements a list has, of whatever type; 0 where the node does not have it.
size_t list_size(const onnx::Node& node, std::string_view name) {
  const onnx::Attribute* found = node.find(name);
  return found ? std::max({found->ints.size(), found->floats.size(), found->strings.size()}) : 0;
}

const Known& first(const std::vector<Known>& in) {
  static const Known kNothing;
  return in.empty() ? kNothing : in.front();
}

// ---- Shapes ----

Known with_dtype(Known value, DType dtype) {
  value.dtype = dtype;
  return value;
}

// The rows of a matrix [N, C]; a vector [C] is one row.
std::optional<Dims> rows_and(const std::vector<Known>& in, std::optional<int64_t> columns) {
  if (!first(in).dims || first(in).dims->empty() || first(in).dims->size() > 2) return std::nullopt;
  const Dims& dims = *first(in).dims;
  Dims out = {dims.size() == 2 ? dims.front() : Dimension{1, ""}};
  if (columns) out.push_back({*columns, ""});
  return out;
}

// What two values have in common.
Known common(const Known& a, const Known& b) {
  Known out{a.dtype == b.dtype ? a.dtype : DType::kUndefined, std::nullopt};
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) return out;
  out.dims = a.dims;
  for (size_t i = 0; i < out.dims->size(); ++i)
    if ((*a.dims)[i].value != (*b.dims)[i].value) (*out.dims)[i] = {-1, ""};
  for (Dimension& dim : *out.dims)
    if (dim.value < 0) dim.symbol.clear();
  return out;
}

// An attribute that names an axis, from 0 to `rank` - 1.
std::optional<size_t> axis_of(const onnx::Node& node, size_t rank, int64_t otherwise) {
  const int64_t axis = number(node, "axis", otherwise);
  const auto limit = static_cast<int64_t>(rank);
  if (axis < -limit || axis >= limit) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + limit : axis);
}

Known whole_sequence(Known element) {
  element.is_sequence = true;
  return element;
}

// ---- Rows ----

std::vector<Known> same_type(const onnx::Node&, const std::vector<Known>& in) { return {first(in)}; }
std::vector<Known> same_floats(const onnx::Node&, const std::vector<Known>& in) {
  return {with_dtype(first(in), DType::kFloat32)};
}
std::vector<Known> same_bools(const onnx::Node&, const std::vector<Known>& in) {
  return {with_dtype(first(in), DType::kBool)};
}
std::vector<Known> cast(const onnx::Node& node, const std::vector<Known>& in) {
  return {with_dtype(first(in), stream::onnx_dtype(number(node, "to", 0)).value_or(DType::kUndefined))};
}

std::vector<Known> quantize(const onnx::Node& node, const std::vector<Known>& in) {
  const DType chosen = stream::onnx_dtype(number(node, "output_dtype", 0)).value_or(DType::kUndefined);
  const DType zero = in.size() > 2 ? in[2].dtype : DType::kUndefined;
  return {with_dtype(first(in), zero != DType::kUndefined     ? zero
                                : chosen != DType::kUndefined ? chosen
                                : in.size() > 2               ? DType::kUndefined
                                                              : DType::kUint8)};
}

std::vector<Known> dequantize(const onnx::Node&, const std::vector<Known>& in) {
  return {with_dtype(first(in), in.size() > 1 ? in[1].dtype : DType::kUndefined)};
}

// Of one string each, or of unknown number where stop words are dropped; then [1, n] of [1, n], else [n].
std::vector<Known> normalize_strings(const onnx::Node& node, const std::vector<Known>& in) {
  Known out = with_dtype(first(in), DType::kString);
  if (list_size(node, "stopwords") > 0 && out.dims && !out.dims->empty()) out.dims->back() = {-1, ""};
  return {out};
}

std::vector<Known> split_strings(const onnx::Node&, const std::vector<Known>& in) {
  Known parts = with_dtype(first(in), DType::kString);
  if (parts.dims) parts.dims->push_back({-1, ""});
  return {parts, with_dtype(first(in), DType::kInt64)};
}

// By the list of what the keys become. The lists of LabelEncoder 1 and CategoryMapper turn texts into numbers and
// numbers into texts.
std::vector<Known> encode_labels(const onnx::Node& node, const std::vector<Known>& in) {
  Known out = with_dtype(first(in), DType::kUndefined);
  if (const onnx::Attribute* tensor = node.find("values_tensor"); tensor && tensor->tensors.size() == 1)
    out.dtype = tensor->tensors.front().dtype;
  else if (list_size(node, "values_strings") > 0)
    out.dtype = DType::kString;
  else if (list_size(node, "values_int64s") > 0)
    out.dtype = DType::kInt64;
  else if (list_size(node, "values_floats") > 0)
    out.dtype = DType::kFloat32;
  else if (list_size(node, "classes_strings") > 0 || list_size(node, "cats_strings") > 0)
    out.dtype = first(in).dtype == DType::kString  ? DType::kInt64
                : first(in).dtype == DType::kInt64 ? DType::kString
                                                   : DType::kUndefined;
  return {out};
}

// A label and a score for each class of each row.
std::vector<Known> classify(const onnx::Node& node, const std::vector<Known>& in) {
  const bool is_text = list_size(node, "classlabels_strings") > 0;
  const size_t classes = std::max({list_size(node, "classlabels_strings"), list_size(node, "classlabels_ints"),
                                   list_size(node, "classlabels_int64s")});
  if (classes == 0) return {};
  return {{is_text ? DType::kString : DType::kInt64, rows_and(in, std::nullopt)},
          // Support vector machines may give a score for each pair of classes instead.
          {DType::kFloat32, rows_and(in, node.op_type == "SVMClassifier" ? -1 : static_cast<int64_t>(classes))}};
}

std::vector<Known> regress(const onnx::Node& node, const std::vector<Known>& in) {
  const char* const name = node.op_type == "LinearRegressor" ? "targets" : "n_targets";
  return {{DType::kFloat32, rows_and(in, number(node, name, 1))}};
}

std::vector<Known> sum_trees(const onnx::Node& node, const std::vector<Known>& in) {
  return {{first(in).dtype, rows_and(in, number(node, "n_targets", 1))}};
}

std::vector<Known> one_hot(const onnx::Node& node, const std::vector<Known>& in) {
  Known out = with_dtype(first(in), DType::kFloat32);
  const size_t categories = std::max(list_size(node, "cats_int64s"), list_size(node, "cats_strings"));
  if (out.dims) out.dims->push_back({static_cast<int64_t>(categories), ""});
  return {out};
}

std::vector<Known> pick_features(const onnx::Node&, const std::vector<Known>& in) {
  Known out = first(in);
  if (!out.dims || out.dims->empty() || in.size() < 2 || !in[1].dims || in[1].dims->empty())
    return {{out.dtype, std::nullopt}};
  const Dims& places = *in[1].dims;
  const bool are_fixed = std::all_of(places.begin(), places.end(), [](const Dimension& dim) { return dim.value >= 0; });
  const int64_t picked = are_fixed ? std::accumulate(places.begin(), places.end(), int64_t{1},
                                                     [](int64_t product, const Dimension& dim) {
                                                       return product * std::min<int64_t>(dim.value, 1 << 20);
                                                     })
                                   : -1;
  if (out.dims->size() == 1) out.dims->insert(out.dims->begin(), {1, ""});
  out.dims->back() = {picked, ""};
  return {out};
}

std::vector<Known> join_features(const onnx::Node& node, const std::vector<Known>& in) {
  const onnx::Attribute* widths = node.find("inputdimensions");
  if (!widths) return {{DType::kFloat32, std::nullopt}};
  int64_t sum = 0;
  for (const int64_t width : widths->ints) sum += std::clamp<int64_t>(width, 0, 1 << 30);
  return {{DType::kFloat32, rows_and(in, sum)}};
}

// Pieces of one extent where that is said, else of unequal ones; keepdims = 0 drops the axis.
std::vector<Known> split_to_sequence(const onnx::Node& node, const std::vector<Known>& in) {
  Known element = first(in);
  const std::optional<size_t> axis = element.dims ? axis_of(node, element.dims->size(), 0) : std::nullopt;
  if (!axis) return {whole_sequence({element.dtype, std::nullopt})};
  const bool is_split = node.inputs.size() > 1 && !node.inputs[1].empty();
  const auto place = element.dims->begin() + static_cast<ptrdiff_t>(*axis);
  if (is_split)
    *place = {-1, ""};
  else if (number(node, "keepdims", 1) != 0)
    *place = {1, ""};
  else
    element.dims->erase(place);
  return {whole_sequence(std::move(element))};
}

std::vector<Known> sequence_construct(const onnx::Node&, const std::vector<Known>& in) {
  Known element = first(in);
  for (const Known& some : in) element = common(element, some);
  return {whole_sequence(std::move(element))};
}

std::vector<Known> sequence_insert(const onnx::Node&, const std::vector<Known>& in) {
  if (in.size() < 2 || !in[0].is_sequence) return {};
  // Of an empty sequence only the element type is known, and its first element says no more of the others.
  return {whole_sequence(common(in[0], in[1]))};
}

std::vector<Known> sequence_empty(const onnx::Node& node, const std::vector<Known>&) {
  return {whole_sequence({stream::onnx_dtype(number(node, "dtype", 1)).value_or(DType::kUndefined), std::nullopt})};
}

std::vector<Known> sequence_erase(const onnx::Node&, const std::vector<Known>& in) { return {first(in)}; }

std::vector<Known> sequence_at(const onnx::Node&, const std::vector<Known>& in) {
  Known out = first(in);
  if (!out.is_sequence) return {};
  out.is_sequence = false;
  return {out};
}

std::vector<Known> concat_from_sequence(const onnx::Node& node, const std::vector<Known>& in) {
  Known out = first(in);
  if (!out.is_sequence) return {};
  out.is_sequence = false;
  if (!out.dims) return {out};
  const bool is_new = number(node, "new_axis", 0) != 0;
  const std::optional<size_t> axis = axis_of(node, out.dims->size() + (is_new ? 1 : 0), 0);
  if (!axis) return {{out.dtype, std::nullopt}};
  const auto place = out.dims->begin() + static_cast<ptrdiff_t>(*axis);
  if (is_new)
    out.dims->insert(place, {-1, ""});
  else
    *place = {-1, ""};
  return {out};
}

std::vector<Known> sequence_length(const onnx::Node&, const std::vector<Known>&) { return {{DType::kInt64, Dims{}}}; }

std::vector<Known> distances(const onnx::Node&, const std::vector<Known>& in) {
  if (in.size() < 2 || !in[0].dims || !in[1].dims || in[0].dims->size() != 2 || in[1].dims->size() != 2)
    return {{first(in).dtype, std::nullopt}};
  return {{in[0].dtype, Dims{in[0].dims->front(), in[1].dims->front()}}};
}

std::vector<Known> hash(const onnx::Node& node, const std::vector<Known>& in) {
  return {with_dtype(first(in), number(node, "positive", 1) != 0 ? DType::kUint32 : DType::kInt32)};
}

const std::unordered_map<std::string_view, Row>& foreign_rows() {
  static const std::unordered_map<std::string_view, Row> kRows = {
      // ai.onnx: sequences, strings, and types that TFLite lacks
      {"Cast", cast},
      {"DequantizeLinear", dequantize},
      {"ConcatFromSequence", concat_from_sequence},
      {"Identity", same_type},
      {"QuantizeLinear", quantize},
      {"RegexFullMatch", same_bools},
      {"SequenceAt", sequence_at},
      {"SequenceConstruct", sequence_construct},
      {"SequenceEmpty", sequence_empty},
      {"SequenceErase", sequence_erase},
      {"SequenceInsert", sequence_insert},
      {"SequenceLength", sequence_length},
      {"SplitToSequence", split_to_sequence},
      {"StringNormalizer", normalize_strings},
      {"StringSplit", split_strings},
      // ai.onnx.ml
      {"ai.onnx.ml.ArrayFeatureExtractor", pick_features},
      {"ai.onnx.ml.Binarizer", same_type},
      {"ai.onnx.ml.CategoryMapper", encode_labels},
      {"ai.onnx.ml.FeatureVectorizer", join_features},
      {"ai.onnx.ml.Imputer", same_type},
      {"ai.onnx.ml.LabelEncoder", encode_labels},
      {"ai.onnx.ml.LinearClassifier", classify},
      {"ai.onnx.ml.LinearRegressor", regress},
      {"ai.onnx.ml.Normalizer", same_floats},
      {"ai.onnx.ml.OneHotEncoder", one_hot},
      {"ai.onnx.ml.SVMClassifier", classify},
      {"ai.onnx.ml.SVMRegressor", regress},
      {"ai.onnx.ml.Scaler", same_floats},
      {"ai.onnx.ml.TreeEnsemble", sum_trees},
      {"ai.onnx.ml.TreeEnsembleClassifier", classify},
      {"ai.onnx.ml.TreeEnsembleRegressor", regress},
      // com.microsoft
      {"com.microsoft.BiasGelu", same_type},
      {"com.microsoft.CDist", distances},
      {"com.microsoft.FastGelu", same_type},
      {"com.microsoft.Gelu", same_type},
      {"com.microsoft.Inverse", same_type},
      {"com.microsoft.MurmurHash3", hash},
      {"com.microsoft.QuickGelu", same_type},
      {"com.microsoft.Trilu", same_type},
  };
  return kRows;
}

Known known_of(const std::string& value, const TypeOf& type_of) {
  const ValueInfo* info = value.empty() ? nullptr : type_of(value);
  const bool is_sequence = info && info->type == ValueInfo::Type::kSequence;
  if (!info || (info->type != ValueInfo::Type::kTensor && !is_sequence)) return {};
  return {info->dtype, info->has_shape ? std::optional(info->dims) : std::nullopt, is_sequence};
}

}  // namespace

std::vector<ValueInfo> foreign_types(const onnx::Node& node, const TypeOf& type_of) {
  std::vector<ValueInfo> out(node.outputs.size());
  const auto row = foreign_rows().find(full_name(node));
  if (row == foreign_rows().end()) return out;
  std::vector<Known> in(node.inputs.size());
  std::transform(node.inputs.begin(), node.inputs.end(), in.begin(),
                 [&](const std::string& value) { return known_of(value, type_of); });
  std::vector<Known> made = row->second(node, in);
  for (size_t i = 0; i < std::min(made.size(), out.size()); ++i) {
    if (made[i].dtype == DType::kUndefined && !made[i].is_sequence) continue;
    out[i].name = node.outputs[i];
    out[i].type = made[i].is_sequence ? ValueInfo::Type::kSequence : ValueInfo::Type::kTensor;
    out[i].dtype = made[i].dtype;
    out[i].has_shape = made[i].dims.has_value();
    if (made[i].dims) out[i].dims = std::move(*made[i].dims);
  }
  return out;
}

}  // namespace lowtide::layout
