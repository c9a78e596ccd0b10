// SPDX-License-Identifier: Apache-2.0
#include "layout/core/symbols.h"

#include <fmt/format.h>

#include <algorithm>

#include "stream/error.h"

namespace lowtide::core {
namespace {

[[noreturn]] void overflow() {
  throw stream::Error(stream::Code::kMalformed, "arithmetic on dimensions overflows 64 bits");
}
int64_t add64(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out) || is_symbol(out)) overflow();
  return out;
}
int64_t mul64(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out) || is_symbol(out)) overflow();
  return out;
}
// A file of some hundred bytes can square a formula again and again. Models are far below these limits.
constexpr size_t kMostParts = 2048;  // of a formula: its terms and their factors
constexpr size_t kMostPartsOfAll = size_t{1} << 22;
constexpr size_t kMostSteps = size_t{1} << 16;  // of one multiplication
constexpr size_t kLongestName = 4096;
[[noreturn]] void too_long() {
  throw stream::Unsupported("the formula of a dimension is too long", "fix the inputs' shapes with --shape INPUT=...");
}
template <typename Poly>
size_t parts(const Poly& poly) {
  size_t count = poly.size();
  for (const auto& [monomial, factor] : poly) count += monomial.size();
  return count;
}

int64_t floor64(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0); }

}  // namespace

Symbols::Symbols() = default;

Dim Symbols::atom(const std::string& name) {
  if (name.size() > kLongestName) too_long();
  auto [it, fresh_name] = atom_ids_.try_emplace(name, static_cast<int>(atoms_.size()));
  if (fresh_name) atoms_.push_back(name);
  return intern({{{it->second}, 1}});
}

Dim Symbols::atom(const std::string& name, Made made) {
  Dim dim = atom(name);
  made_.try_emplace(atom_ids_.at(name), made);
  return dim;
}

Dim Symbols::named(const std::string& name) { return atom(name); }
Dim Symbols::fresh(const std::string& hint) { return atom(fmt::format("{}#{}", hint, fresh_++)); }

Symbols::Poly Symbols::poly(Dim dim) const {
  if (is_symbol(dim)) return polys_[static_cast<size_t>(kSymbolBase - dim)];
  if (dim == 0) return {};
  return {{{}, dim}};
}

Dim Symbols::intern(const Poly& poly) {
  if (poly.empty()) return 0;
  if (poly.size() == 1 && poly.begin()->first.empty()) return poly.begin()->second;
  const size_t count = parts(poly);
  if (count > kMostParts || count > kMostPartsOfAll - parts_) too_long();
  auto [it, fresh_poly] = poly_ids_.try_emplace(poly, static_cast<int>(polys_.size()));
  if (fresh_poly) {
    polys_.push_back(poly);
    parts_ += count;
  }
  return kSymbolBase - it->second;
}

Dim Symbols::add(Dim a, Dim b) {
  if (!is_symbol(a) && !is_symbol(b)) return add64(a, b);
  Poly sum = poly(a);
  for (const auto& [monomial, factor] : poly(b)) {
    int64_t& slot = sum[monomial];
    slot = add64(slot, factor);
    if (slot == 0) sum.erase(monomial);
  }
  return intern(sum);
}

Dim Symbols::sub(Dim a, Dim b) { return add(a, mul(b, -1)); }

Dim Symbols::mul(Dim a, Dim b) {
  if (!is_symbol(a) && !is_symbol(b)) return mul64(a, b);
  const Poly left = poly(a), right = poly(b);
  if (left.size() * parts(right) + right.size() * parts(left) > kMostSteps) too_long();
  Poly product;
  for (const auto& [x, fx] : left)
    for (const auto& [y, fy] : right) {
      std::vector<int> monomial = x;
      monomial.insert(monomial.end(), y.begin(), y.end());
      std::sort(monomial.begin(), monomial.end());
      int64_t& slot = product[monomial];
      slot = add64(slot, mul64(fx, fy));
      if (slot == 0) product.erase(monomial);
    }
  return intern(product);
}

Dim Symbols::product(std::span<const Dim> dims) {
  Dim out = 1;
  for (Dim dim : dims) out = mul(out, dim);
  return out;
}

std::optional<Dim> Symbols::exact_div(Dim a, Dim b) {
  if (b == 0) return std::nullopt;
  if (a == b) return 1;
  if (!is_symbol(a) && !is_symbol(b)) return a % b == 0 ? std::optional<Dim>(a / b) : std::nullopt;
  Poly divisor = poly(b);
  if (divisor.size() != 1) return std::nullopt;
  const auto& [atoms, factor] = *divisor.begin();
  Poly quotient;
  for (const auto& [monomial, coefficient] : poly(a)) {
    if (coefficient % factor != 0) return std::nullopt;
    if (!std::includes(monomial.begin(), monomial.end(), atoms.begin(), atoms.end())) return std::nullopt;
    std::vector<int> rest;
    std::set_difference(monomial.begin(), monomial.end(), atoms.begin(), atoms.end(), std::back_inserter(rest));
    quotient[rest] = coefficient / factor;
  }
  return intern(quotient);
}

Dim Symbols::floor_div(Dim a, Dim b) {
  if (b == 0) throw stream::Error(stream::Code::kMalformed, "a dimension is divided by zero");
  if (!is_symbol(a) && !is_symbol(b)) return floor64(a, b);
  if (auto exact = exact_div(a, b)) return *exact;
  return atom(fmt::format("floor(({})/({}))", to_string(a), to_string(b)), {Made::By::kFloorDiv, a, b});
}

Dim Symbols::ceil_div(Dim a, Dim b) { return mul(floor_div(mul(a, -1), b), -1); }

Dim Symbols::mod(Dim a, Dim b) { return sub(a, mul(floor_div(a, b), b)); }

Dim Symbols::min(Dim a, Dim b) {
  if (a == b) return a;
  if (!is_symbol(a) && !is_symbol(b)) return std::min(a, b);
  return atom(fmt::format("min({},{})", to_string(std::min(a, b)), to_string(std::max(a, b))), {Made::By::kMin, a, b});
}

Dim Symbols::max(Dim a, Dim b) {
  if (a == b) return a;
  if (!is_symbol(a) && !is_symbol(b)) return std::max(a, b);
  return atom(fmt::format("max({},{})", to_string(std::min(a, b)), to_string(std::max(a, b))), {Made::By::kMax, a, b});
}

std::vector<Symbols::Term> Symbols::terms(Dim dim) const {
  std::vector<Term> out;
  for (const auto& [monomial, factor] : poly(dim)) {
    Term term{factor, {}};
    for (int id : monomial) term.atoms.push_back(kSymbolBase - poly_ids_.at({{{id}, 1}}));
    out.push_back(std::move(term));
  }
  return out;
}

std::optional<Symbols::Made> Symbols::made(Dim dim) const {
  const Poly atom_poly = poly(dim);
  if (atom_poly.size() != 1 || atom_poly.begin()->first.size() != 1 || atom_poly.begin()->second != 1)
    return std::nullopt;
  auto it = made_.find(atom_poly.begin()->first[0]);
  return it == made_.end() ? std::nullopt : std::optional(it->second);
}

std::string Symbols::text(const Poly& poly) const {
  std::string out;
  for (const auto& [monomial, factor] : poly) {
    if (!out.empty()) out += "+";
    if (monomial.empty() || factor != 1) out += std::to_string(factor);
    for (size_t i = 0; i < monomial.size(); ++i)
      out += (i || factor != 1 ? "*" : "") + atoms_[static_cast<size_t>(monomial[i])];
  }
  return out;
}

std::string Symbols::to_string(Dim dim) const { return is_symbol(dim) ? text(poly(dim)) : std::to_string(dim); }

}  // namespace lowtide::core
