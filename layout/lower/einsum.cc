// SPDX-License-Identifier: Apache-2.0
// Einsum of any equation, operand by operand. A repeated label in one operand takes the diagonal; a label that neither
// the result nor a later operand has is summed. Two operands become a matrix product over the labels that both have and
// that are not needed afterwards, or an elementwise product when there are none. Sources: ONNX's Einsum (12), numpy's
// einsum.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "layout/lower/matmul.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// A letter, or the axes of an ellipsis counted from their last: kEllipsis, kEllipsis + 1, ...
using Label = int;
constexpr Label kEllipsis = 1000;
using Labels = std::vector<Label>;

struct Operand {
  Val value;
  Labels labels;

  size_t find(Label label) const {
    return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
  bool has(Label label) const { return find(label) < labels.size(); }
};

// One term of the equation; `rank` says how many axes an ellipsis stands for, -1 in the result.
Labels read_term(Lowering& lo, const std::string& term, int rank, int ellipsis_axes) {
  Labels labels;
  const int letters = static_cast<int>(std::count_if(term.begin(), term.end(), [](char c) { return c != '.'; }));
  const size_t dots = term.find("...");
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      const int count = rank < 0 ? ellipsis_axes : rank - letters;
      if (count < 0)
        lo.malformed(fmt::format("the term '{}' has more labels than its operand has axes ({})", term, rank));
      for (int k = count; k-- > 0;) labels.push_back(kEllipsis + k);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else {
      lo.malformed(fmt::format("the equation contains the invalid character '{}'", term[i]));
    }
  }
  if (rank >= 0 && static_cast<int>(labels.size()) != rank)
    lo.malformed(fmt::format("the term '{}' must have one label for each of the {} axes of its operand", term, rank));
  return labels;
}

// Without an arrow: the ellipsis, then the letters that occur once, in their order.
Labels implicit_result(const std::vector<Operand>& operands) {
  std::map<Label, int> seen;
  for (const Operand& operand : operands)
    for (Label label : operand.labels) ++seen[label];
  Labels ellipsis, letters;
  for (const auto& [label, count] : seen) {
    if (label >= kEllipsis)
      ellipsis.insert(ellipsis.begin(), label);
    else if (count == 1)
      letters.push_back(label);
  }
  ellipsis.insert(ellipsis.end(), letters.begin(), letters.end());
  return ellipsis;
}

void reorder(Lowering& lo, Operand& x, const Labels& order) {
  Perm perm;
  for (Label label : order) perm.push_back(static_cast<int>(x.find(label)));
  x.value = lo.b.transpose(x.value, perm);
  x.labels = order;
}

// A repeated label: its two axes are moved to the end and flattened, and every (n + 1)th element is taken.
void take_diagonals(Lowering& lo, Operand& x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const Label label = x.labels[i];
    auto again = std::find(x.labels.begin() + static_cast<int64_t>(i) + 1, x.labels.end(), label);
    if (again == x.labels.end()) continue;
    const size_t j = static_cast<size_t>(again - x.labels.begin());
    Perm perm;
    Labels rest;
    Shape shape;
    for (size_t k = 0; k < x.labels.size(); ++k) {
      if (k == i || k == j) continue;
      perm.push_back(static_cast<int>(k));
      rest.push_back(x.labels[k]);
      shape.push_back(lo.shape(x.value)[k]);
    }
    const int64_t n = lo.need_static(lo.shape(x.value)[i], "an axis whose diagonal is taken");
    if (lo.shape(x.value)[j] != n)
      lo.misfit(fmt::format("a repeated label needs axes of the same size; the operand has shape {}",
                            stream::to_string(lo.shape(x.value))));
    perm.insert(perm.end(), {static_cast<int>(i), static_cast<int>(j)});
    std::vector<int64_t> places(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) places[static_cast<size_t>(k)] = k * (n + 1);
    shape.push_back(n * n);
    Val flat = reshape_to(lo, lo.b.transpose(x.value, perm), shape);
    x.value = lo.b.gather(flat, lo.b.i32(places), static_cast<int>(shape.size()) - 1);
    rest.push_back(label);
    x.labels = rest;
    i = static_cast<size_t>(-1);  // from the beginning: another label may be doubled
  }
}

void sum_out(Lowering& lo, Operand& x, const std::set<Label>& needed) {
  std::vector<int> axes;
  Labels rest;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (needed.contains(x.labels[i]))
      rest.push_back(x.labels[i]);
    else
      axes.push_back(static_cast<int>(i));
  }
  if (axes.empty()) return;
  x.value = lo.b.sum(x.value, axes, false);
  x.labels = rest;
}

// An axis of 1 element broadcasts to the label's other axes: dropping it has the same effect.
void drop_broadcast_axes(Lowering& lo, std::vector<Operand>& operands) {
  std::set<Label> longer;
  for (const Operand& x : operands)
    for (size_t i = 0; i < x.labels.size(); ++i)
      if (lo.shape(x.value)[i] != 1) longer.insert(x.labels[i]);
  for (Operand& x : operands) {
    std::vector<int> axes;
    Labels rest;
    for (size_t i = 0; i < x.labels.size(); ++i) {
      if (lo.shape(x.value)[i] == 1 && longer.contains(x.labels[i]))
        axes.push_back(static_cast<int>(i));
      else
        rest.push_back(x.labels[i]);
    }
    x = {squeeze_axes(lo, x.value, axes), rest};
  }
}

Dim size_of_labels(Lowering& lo, const Operand& x, const Labels& labels) {
  Dim product = 1;
  for (Label label : labels) product = lo.b.graph.symbols.mul(product, lo.shape(x.value)[x.find(label)]);
  return product;
}

Labels joined(std::initializer_list<Labels> lists) {
  Labels all;
  for (const Labels& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Combines two operands; the labels in `needed` are kept.
Operand combined_operands(Lowering& lo, Operand a, Operand b, const std::set<Label>& needed) {
  Labels shared, summed, left, right;
  for (Label label : a.labels) (!b.has(label) ? left : needed.contains(label) ? shared : summed).push_back(label);
  for (Label label : b.labels)
    if (!a.has(label)) right.push_back(label);
  auto shape_of = [&](const Operand& x, const Labels& labels) {
    Shape shape;
    for (Label label : labels) shape.push_back(lo.shape(x.value)[x.find(label)]);
    return shape;
  };
  reorder(lo, a, joined({shared, left, summed}));
  if (summed.empty()) {  // no contraction: a broadcast multiplication
    reorder(lo, b, joined({shared, right}));
    Shape spread = lo.shape(a.value);
    spread.insert(spread.end(), right.size(), 1);
    Shape other = shape_of(b, shared);
    other.insert(other.end(), left.size(), 1);
    for (Dim dim : shape_of(b, right)) other.push_back(dim);
    const Val factor = reshape_to(lo, b.value, other);
    Val y = lo.b.mul(reshape_to(lo, a.value, spread), factor);
    return {y, joined({shared, left, right})};
  }
  for (Label label : summed) {
    const Dim x = lo.shape(a.value)[a.find(label)], y = lo.shape(b.value)[b.find(label)];
    if (stream::is_static(x) && stream::is_static(y) && x != y)
      lo.malformed(fmt::format("a label has axes of {} and {} elements", x, y));
  }
  reorder(lo, b, joined({shared, summed, right}));
  // [shared.., left, summed] times [shared.., summed, right]
  Shape rows = shape_of(a, shared), columns = shape_of(b, shared);
  Shape out_left = shape_of(a, left), out_right = shape_of(b, right);
  rows.insert(rows.end(), {size_of_labels(lo, a, left), size_of_labels(lo, a, summed)});
  columns.insert(columns.end(), {size_of_labels(lo, b, summed), size_of_labels(lo, b, right)});
  const Val factor = reshape_to(lo, b.value, columns);
  Val y = matrix_product(lo, reshape_to(lo, a.value, rows), factor);
  Shape out(lo.shape(y).begin(), lo.shape(y).end() - 2);
  out.insert(out.end(), out_left.begin(), out_left.end());
  out.insert(out.end(), out_right.begin(), out_right.end());
  return {reshape_to(lo, y, out), joined({shared, left, right})};
}

}  // namespace

void lower_einsum(Lowering& lo) {
  std::string equation = lo.attr_s("equation", "");
  std::erase_if(equation, [](char c) { return c == ' '; });
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms = {""};
  for (char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != lo.input_count())
    lo.malformed(fmt::format("the equation has {} terms, but the node has {} inputs", terms.size(), lo.input_count()));
  std::vector<Operand> operands;
  int ellipsis_axes = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    Operand x{lo.input(i), read_term(lo, terms[i], lo.rank(lo.input(i)), 0)};
    const auto dots = std::count_if(x.labels.begin(), x.labels.end(), [](Label label) { return label >= kEllipsis; });
    ellipsis_axes = std::max(ellipsis_axes, static_cast<int>(dots));
    operands.push_back(std::move(x));
  }
  const Labels result = arrow == std::string::npos ? implicit_result(operands)
                                                   : read_term(lo, equation.substr(arrow + 2), -1, ellipsis_axes);
  for (Label label : result)
    if (std::count(result.begin(), result.end(), label) != 1 ||
        std::none_of(operands.begin(), operands.end(), [&](const Operand& x) { return x.has(label); }))
      lo.malformed("the result of the equation has a label twice or a label that no operand has");
  for (Operand& x : operands) take_diagonals(lo, x);
  drop_broadcast_axes(lo, operands);

  // After operand i the labels of the result and of the operands after it are needed.
  Operand all = operands[0];
  for (size_t i = 0; i < operands.size(); ++i) {
    std::set<Label> later(result.begin(), result.end());
    for (size_t j = i + 1; j < operands.size(); ++j) later.insert(operands[j].labels.begin(), operands[j].labels.end());
    if (i > 0) {
      std::set<Label> needed = later;
      needed.insert(all.labels.begin(), all.labels.end());
      sum_out(lo, operands[i], needed);
      all = combined_operands(lo, all, operands[i], later);
    }
    sum_out(lo, all, later);
  }
  reorder(lo, all, result);
  lo.output(0, all.value);
}

}  // namespace lowtide::layout
