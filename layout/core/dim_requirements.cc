// SPDX-License-Identifier: Apache-2.0
#include "layout/core/dim_requirements.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "stream/error.h"

namespace lowtide::core {
namespace {

// A pair of dimensions narrows one of them at most a few times; more rounds than this are not worth their time.
constexpr int kMostRounds = 8;
constexpr size_t kMostProducts = 256;

std::string listed(const std::set<int64_t>& numbers) { return fmt::format("{}", fmt::join(numbers, " or ")); }

}  // namespace

DimRequirements::DimRequirements(const Graph& graph) : graph_(graph) {
  std::set<Dim> seen;
  for (ValueId input : graph.inputs)
    for (Dim dim : graph.at(input).shape)
      for (const Symbols::Term& term : graph.symbols.terms(dim))
        for (Dim atom : term.atoms)
          if (!seen.insert(atom).second) ambiguous_.insert(atom);
}

bool DimRequirements::is_single(Dim dim) const {
  if (!is_symbol(dim) || ambiguous_.contains(dim)) return false;
  const std::vector<Symbols::Term> terms = graph_.symbols.terms(dim);
  return terms.size() == 1 && terms[0].factor == 1 && terms[0].atoms.size() == 1 && !graph_.symbols.made(dim);
}

void DimRequirements::contradiction(const std::string& text, uint32_t origin) const {
  throw stream::Error(stream::Code::kMalformed, text, {.node = graph_.origins[origin]});
}

void DimRequirements::restrict(Dim dim, const std::set<int64_t>& allowed) {
  if (!is_single(dim)) return;
  auto [it, is_new] = known_.try_emplace(dim, Known{allowed, origin_});
  if (is_new) return;
  std::set<int64_t> both;
  std::set_intersection(allowed.begin(), allowed.end(), it->second.allowed.begin(), it->second.allowed.end(),
                        std::inserter(both, both.end()));
  if (both.empty())
    contradiction(
        fmt::format("a dimension that is known only at run time must be {} for this node and {} for node '{}': "
                    "no run can fulfil both",
                    listed(allowed), listed(it->second.allowed), graph_.origins[it->second.origin]),
        origin_);
  if (both.size() < it->second.allowed.size()) it->second = {std::move(both), origin_};
}

void DimRequirements::equal(Dim a, Dim b) {
  if (a == b) return;
  if (!is_symbol(b)) return restrict(a, {b});
  if (!is_symbol(a)) return restrict(b, {a});
  if (is_single(a) && is_single(b)) pairs_.push_back({a, b, false, origin_});
}

void DimRequirements::broadcast(Dim a, Dim b) {
  if (a == b || a == 1 || b == 1) return;
  if (!is_symbol(b)) return restrict(a, {1, b});
  if (!is_symbol(a)) return restrict(b, {1, a});
  if (is_single(a) && is_single(b)) pairs_.push_back({a, b, true, origin_});
}

void DimRequirements::same_elements(const Shape& a, const Shape& b) {
  const bool first = stream::is_static(a), second = stream::is_static(b);
  if (first == second) return;
  const Dim count = graph_.symbols.product(first ? a : b);
  if (count > 0) elements_.push_back({count, first ? b : a, origin_});
}

// Takes away what has no partner on the other side; true when anything changed.
bool DimRequirements::narrow(const Pair& pair) {
  const auto a = known_.find(pair.a), b = known_.find(pair.b);
  if (a == known_.end() && b == known_.end()) return false;
  origin_ = pair.origin;
  auto partners = [&](const std::set<int64_t>& of, const std::set<int64_t>* others) {
    std::set<int64_t> out;
    for (int64_t x : of)
      if (!others || others->contains(x) || (pair.broadcasts && (x == 1 || others->contains(1)))) out.insert(x);
    return out;
  };
  if (a == known_.end() || b == known_.end()) {
    const std::set<int64_t>& only = a == known_.end() ? b->second.allowed : a->second.allowed;
    if (pair.broadcasts && only.contains(1)) return false;  // the other one may be anything
    std::set<int64_t> allowed = only;
    if (pair.broadcasts) allowed.insert(1);
    restrict(a == known_.end() ? pair.a : pair.b, allowed);
    return true;
  }
  const std::set<int64_t> left = partners(a->second.allowed, &b->second.allowed);
  const std::set<int64_t> right = partners(b->second.allowed, &a->second.allowed);
  if (left.empty() || right.empty())
    contradiction(fmt::format("two dimensions that are known only at run time must fit each other here, and be {} for "
                              "node '{}' and {} for node '{}': no run can fulfil all of it",
                              listed(a->second.allowed), graph_.origins[a->second.origin], listed(b->second.allowed),
                              graph_.origins[b->second.origin]),
                  pair.origin);
  const bool changed = left != a->second.allowed || right != b->second.allowed;
  restrict(pair.a, left);
  restrict(pair.b, right);
  return changed;
}

// Whether the dimensions that are allowed can make up the number of elements.
void DimRequirements::check(const Elements& elements) const {
  std::set<int64_t> products{1};
  bool is_open = false;  // a dimension of which nothing is known takes up what is left
  const Known* narrowest = nullptr;
  for (Dim dim : elements.shape) {
    const std::set<int64_t> one{dim};
    const std::set<int64_t>* allowed = is_symbol(dim) ? nullptr : &one;
    if (auto it = known_.find(dim); it != known_.end()) {
      allowed = &it->second.allowed;
      if (!narrowest || it->second.allowed.size() < narrowest->allowed.size()) narrowest = &it->second;
    }
    if (!allowed) {
      is_open = true;
      continue;
    }
    std::set<int64_t> next;
    for (int64_t product : products)
      for (int64_t dimension : *allowed)
        if (dimension > 0 && dimension <= elements.count / product && elements.count % (product * dimension) == 0)
          next.insert(product * dimension);
    products = std::move(next);
    if (products.size() > kMostProducts) return;
  }
  if (is_open ? !products.empty() : products.contains(elements.count)) return;
  std::vector<std::string> shape;
  for (Dim dim : elements.shape) {
    auto it = known_.find(dim);
    shape.push_back(it != known_.end() ? listed(it->second.allowed) : is_symbol(dim) ? "?" : std::to_string(dim));
  }
  contradiction(
      fmt::format("dimensions that are known only at run time must be [{}] here, and node '{}' gives {} elements "
                  "to them: no run can fulfil both",
                  fmt::join(shape, ", "), graph_.origins[elements.origin], elements.count),
      narrowest ? narrowest->origin : elements.origin);
}

void DimRequirements::check() {
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; ++round) {
    changed = false;
    for (const Pair& pair : pairs_) changed = narrow(pair) || changed;
  }
  for (const Elements& elements : elements_) check(elements);
}

}  // namespace lowtide::core
