// SPDX-License-Identifier: Apache-2.0
#include "layout/core/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "stream/error.h"

namespace lowtide::core {
namespace {

[[noreturn]] void overflow() { throw DimOverflow(); }
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
// The only quotient that is out of range is that of a large number by a small negative one.
int64_t div64(int64_t a, int64_t b) {
  const int64_t out = a / b;
  if (is_symbol(out)) overflow();
  return out;
}
// A file of some hundred bytes can square a formula again and again. Polynomials beyond these limits are not written
// out; those of models are far below them.
constexpr size_t kMostParts = 512;  // of a polynomial: its terms and their factors
constexpr size_t kMostPartsOfAll = size_t{1} << 20;
constexpr size_t kMostSteps = size_t{1} << 16;  // of one multiplication
constexpr size_t kMostStepsOfAll = size_t{1} << 23;
constexpr size_t kFreeSteps = 64;  // short operations are always done
constexpr size_t kMostExtremes = 64;
constexpr size_t kLongestText = 400;
constexpr int kMostSignSteps = 64;  // to show that a dimension is not negative

// Mixes as splitmix64 does.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <typename Poly>
size_t part_count(const Poly& poly) {
  size_t count = poly.size();
  for (const auto& [monomial, factor] : poly) count += monomial.size();
  return count;
}

// An order of monomials that multiplication keeps: by degree, then by atoms.
template <typename Term>
bool is_smaller(const Term& a, const Term& b) {
  return a.first.size() != b.first.size() ? a.first.size() < b.first.size() : b.first < a.first;
}

int64_t floor64(int64_t a, int64_t b) { return div64(a, b) - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0); }

}  // namespace

Symbols::Symbols() = default;

Dim Symbols::atom(Atom atom) {
  atoms_.push_back(std::move(atom));
  return atoms_.back().dim = intern({{{static_cast<int>(atoms_.size()) - 1}, 1}});
}

Dim Symbols::named(const std::string& name) {
  auto [it, is_new] = named_.try_emplace(name, 0);
  if (is_new) it->second = atom({name, std::nullopt, mixed(std::hash<std::string>{}(name)), {}});
  return it->second;
}

Dim Symbols::fresh(const std::string& hint) {
  const std::string name = fmt::format("{}#{}", hint, fresh_++);
  return atom({name, std::nullopt, mixed(std::hash<std::string>{}(name) + 1), {}});
}

Dim Symbols::made_atom(Made made, std::vector<Dim> extremes) {
  // Only a division tells its operands apart.
  const bool divides = made.by == Made::By::kFloorDiv;
  const Dim first = divides ? made.a : std::min(made.a, made.b), second = divides ? made.b : std::max(made.a, made.b);
  auto [it, is_new] = made_.try_emplace({made.by, first, second}, 0);
  if (!is_new) return it->second;
  const uint64_t by = mixed(static_cast<uint64_t>(made.by) + 2);
  const uint64_t a = mixed(fingerprint(made.a) ^ by), b = mixed(fingerprint(made.b) ^ by);
  return it->second = atom({"", made, mixed(divides ? mixed(a) + b : a + b), std::move(extremes)});
}

const Symbols::Poly* Symbols::symbolic(Dim dim) const {
  return is_symbol(dim) ? &polys_[static_cast<size_t>(kSymbolBase - dim)] : nullptr;
}

Symbols::Poly Symbols::poly(Dim dim) const {
  if (const Poly* found = symbolic(dim)) return *found;
  if (dim == 0) return {};
  return {{{}, dim}};
}

size_t Symbols::parts(Dim dim) const {
  const Poly* found = symbolic(dim);
  return found ? part_count(*found) : 1;
}

// The atom that a dimension is; null for other dimensions.
const Symbols::Atom* Symbols::single(Dim dim) const {
  const Poly* found = symbolic(dim);
  if (!found || found->size() != 1 || found->begin()->first.size() != 1 || found->begin()->second != 1) return nullptr;
  return &atoms_[static_cast<size_t>(found->begin()->first[0])];
}

uint64_t Symbols::fingerprint(Dim dim) const {
  if (!is_symbol(dim)) return mixed(static_cast<uint64_t>(dim));
  if (const Atom* atom = single(dim)) return atom->fingerprint;
  uint64_t sum = 0;  // atoms and terms stand in the order of their numbers: what is added up does not depend on it
  for (const auto& [monomial, factor] : *symbolic(dim)) {
    uint64_t product = 0;
    for (int id : monomial) product += mixed(atoms_[static_cast<size_t>(id)].fingerprint);
    sum += mixed(product + mixed(static_cast<uint64_t>(factor)));
  }
  return mixed(sum + 1);
}

Dim Symbols::intern(const Poly& poly) {
  if (poly.empty()) return 0;
  if (poly.size() == 1 && poly.begin()->first.empty()) return poly.begin()->second;
  auto [it, is_new] = poly_ids_.try_emplace(poly, static_cast<int>(polys_.size()));
  if (is_new) {
    polys_.push_back(poly);
    parts_ += parts(kSymbolBase - it->second);
  }
  return kSymbolBase - it->second;
}

// Whether a polynomial of at most this many parts may be made in this many steps; counts them.
bool Symbols::affords(size_t result_parts, size_t steps) {
  if (steps <= kFreeSteps) return true;
  if (steps > kMostSteps || steps > kMostStepsOfAll - steps_) return false;
  if (result_parts > kMostPartsOfAll - std::min(parts_, kMostPartsOfAll)) return false;
  steps_ += steps;
  return true;
}

// Results of long operations are kept, so that the same operation gives the same result whatever it may cost later.
Dim Symbols::add(Dim a, Dim b) {
  if (!is_symbol(a) && !is_symbol(b)) return add64(a, b);
  if (a == 0 || b == 0) return a == 0 ? b : a;
  const std::tuple key{Made::By::kAdd, std::min(a, b), std::max(a, b)};
  const size_t count = parts(a) + parts(b);
  if (count > kFreeSteps)
    if (auto known = made_.find(key); known != made_.end()) return known->second;
  if (!affords(count, count)) return made_atom({Made::By::kAdd, a, b});
  Poly sum = poly(a);
  for (const auto& [monomial, factor] : poly(b)) {
    int64_t& slot = sum[monomial];
    slot = add64(slot, factor);
    if (slot == 0) sum.erase(monomial);
  }
  if (part_count(sum) > kMostParts) return made_atom({Made::By::kAdd, a, b});
  return count > kFreeSteps ? made_[key] = intern(sum) : intern(sum);
}

Dim Symbols::sub(Dim a, Dim b) { return add(a, mul(b, -1)); }

Dim Symbols::mul(Dim a, Dim b) {
  if (!is_symbol(a) && !is_symbol(b)) return mul64(a, b);
  if (a == 0 || b == 0) return 0;
  if (a == 1 || b == 1) return a == 1 ? b : a;
  const size_t left_size = symbolic(a) ? symbolic(a)->size() : 1, right_size = symbolic(b) ? symbolic(b)->size() : 1;
  const size_t steps = left_size * parts(b) + right_size * parts(a);
  const std::tuple key{Made::By::kMul, std::min(a, b), std::max(a, b)};
  if (steps > kFreeSteps)
    if (auto known = made_.find(key); known != made_.end()) return known->second;
  if (!affords(std::min(steps, kMostParts), steps)) return made_atom({Made::By::kMul, a, b});
  Poly product;
  const Poly left = poly(a), right = poly(b);
  for (const auto& [x, fx] : left)
    for (const auto& [y, fy] : right) {
      std::vector<int> monomial = x;
      monomial.insert(monomial.end(), y.begin(), y.end());
      std::sort(monomial.begin(), monomial.end());
      int64_t& slot = product[monomial];
      slot = add64(slot, mul64(fx, fy));
      if (slot == 0) product.erase(monomial);
    }
  if (part_count(product) > kMostParts) return made_atom({Made::By::kMul, a, b});
  return steps > kFreeSteps ? made_[key] = intern(product) : intern(product);
}

Dim Symbols::product(std::span<const Dim> dims) {
  Dim out = 1;
  for (Dim dim : dims) out = mul(out, dim);
  return out;
}

std::optional<Dim> Symbols::exact_div(Dim a, Dim b) {
  if (b == 0) return std::nullopt;
  if (a == b) return 1;
  if (!is_symbol(a) && !is_symbol(b)) return a % b == 0 ? std::optional<Dim>(div64(a, b)) : std::nullopt;
  if (const Atom* product = single(a); product && product->made && product->made->by == Made::By::kMul) {
    if (product->made->a == b) return product->made->b;
    if (product->made->b == b) return product->made->a;
  }
  // Division of polynomials: the divisor's greatest term takes away the greatest that is left, until nothing is left.
  if (!affords(0, parts(a))) return std::nullopt;
  const Poly divisor = poly(b);
  const auto lead = std::max_element(divisor.begin(), divisor.end(), is_smaller<Poly::value_type>);
  Poly rest = poly(a), quotient;
  while (!rest.empty()) {
    const auto greatest =
        divisor.size() == 1 ? rest.begin() : std::max_element(rest.begin(), rest.end(), is_smaller<Poly::value_type>);
    const auto [monomial, factor] = *greatest;
    if (factor % lead->second != 0) return std::nullopt;
    if (!std::includes(monomial.begin(), monomial.end(), lead->first.begin(), lead->first.end())) return std::nullopt;
    if (divisor.size() > 1 && !affords(0, rest.size() + parts(b))) return std::nullopt;
    std::vector<int> times;
    std::set_difference(monomial.begin(), monomial.end(), lead->first.begin(), lead->first.end(),
                        std::back_inserter(times));
    const int64_t many = div64(factor, lead->second);
    quotient[times] = many;
    for (const auto& [of, count] : divisor) {
      std::vector<int> taken;
      std::merge(of.begin(), of.end(), times.begin(), times.end(), std::back_inserter(taken));
      int64_t& slot = rest[taken];
      slot = add64(slot, -mul64(count, many));
      if (slot == 0) rest.erase(taken);
    }
    if (quotient.size() > kMostParts) return std::nullopt;
  }
  return intern(quotient);
}

Dim Symbols::floor_div(Dim a, Dim b) {
  if (b == 0) throw stream::Error(stream::Code::kMalformed, "a dimension is divided by zero");
  if (!is_symbol(a) && !is_symbol(b)) return floor64(a, b);
  if (auto exact = exact_div(a, b)) return *exact;
  return made_atom({Made::By::kFloorDiv, a, b});
}

Dim Symbols::truncated_div(Dim a, Dim b, const std::set<Dim>& extents) {
  if (is_not_negative(a, extents)) return floor_div(a, b);
  constexpr int64_t kMostStep = int64_t{1} << 31;  // no sum overflows
  if (b <= kMostStep && is_symbol(a) && is_not_negative(add(a, b - 1), extents))
    return floor_div(max(a, 0), b);  // as (n - 1) / 2
  return max(floor_div(a, b), min(ceil_div(a, b), 0));
}

Dim Symbols::ceil_div(Dim a, Dim b) { return mul(floor_div(mul(a, -1), b), -1); }

Dim Symbols::mod(Dim a, Dim b) { return sub(a, mul(floor_div(a, b), b)); }

// All that a minimum or maximum is taken of; the dimension itself where it is another one.
std::vector<Dim> Symbols::extremes_of(Made::By by, Dim dim) const {
  const Atom* atom = single(dim);
  if (!atom || !atom->made || atom->made->by != by || atom->extremes.empty()) return {dim};
  return atom->extremes;
}

// max(max(a, b), a) is max(a, b): what is taken of the same dimensions is the same atom.
Dim Symbols::extreme(Made::By by, Dim a, Dim b) {
  const std::vector<Dim> left = extremes_of(by, a), right = extremes_of(by, b);
  std::vector<Dim> all;
  std::set_union(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(all));
  if (all == left) return a;
  if (all == right) return b;
  const Made made{by, a, b};
  if (all.size() > kMostExtremes) return made_atom(made);
  auto [it, is_new] = extremes_.try_emplace({by, all}, 0);
  if (is_new) it->second = made_atom(made, all);
  return it->second;
}

Dim Symbols::min(Dim a, Dim b) {
  if (!is_symbol(a) && !is_symbol(b)) return std::min(a, b);
  return extreme(Made::By::kMin, a, b);
}

Dim Symbols::max(Dim a, Dim b) {
  if (!is_symbol(a) && !is_symbol(b)) return std::max(a, b);
  return extreme(Made::By::kMax, a, b);
}

bool Symbols::is_not_negative(Dim dim, const std::set<Dim>& extents) {
  int steps = kMostSignSteps;
  return is_not_negative(dim, extents, steps);
}

bool Symbols::is_not_negative(Dim dim, const std::set<Dim>& extents, int& steps) {
  if (!is_symbol(dim)) return dim >= 0;
  if (extents.contains(dim)) return true;
  const Poly& sum = *symbolic(dim);
  steps -= static_cast<int>(part_count(sum));
  if (steps < 0) return false;
  const bool adds_up = std::all_of(sum.begin(), sum.end(), [&](const auto& term) {
    return term.second > 0 && std::all_of(term.first.begin(), term.first.end(),
                                          [&](int id) { return is_atom_not_negative(id, extents, steps); });
  });
  if (adds_up) return true;
  const auto less = without_negative_division(dim, extents, steps);
  return less && is_not_negative(*less, extents, steps);
}

bool Symbols::is_atom_not_negative(int id, const std::set<Dim>& extents, int& steps) {
  const Atom& atom = atoms_[static_cast<size_t>(id)];
  if (!atom.made || extents.contains(atom.dim)) return true;
  const std::optional<Made> made = atom.made;  // a copy: atoms may be added
  const auto holds = [&](Dim dim) { return is_not_negative(dim, extents, steps); };
  if (made->by == Made::By::kMax) return holds(made->a) || holds(made->b);
  return holds(made->a) && holds(made->b);
}

// A smaller dimension, times a positive number, without the first division that is subtracted, as in remainders:
// a - 7 * floor(a / 7) is at least a - 7 * (a / 7).
std::optional<Dim> Symbols::without_negative_division(Dim dim, const std::set<Dim>& extents, int& steps) {
  constexpr int64_t kMostFactor = int64_t{1} << 20;  // products of two stay far below 64 bits
  const auto is_large = [](const Poly& of) {
    return std::any_of(of.begin(), of.end(), [](const auto& term) { return std::abs(term.second) > kMostFactor; });
  };
  const Poly& sum = *symbolic(dim);
  if (is_large(sum)) return std::nullopt;
  for (const auto& [monomial, factor] : sum)
    for (size_t i = 0; factor < 0 && i < monomial.size(); ++i) {
      const std::optional<Made> made = atoms_[static_cast<size_t>(monomial[i])].made;
      if (!made || made->by != Made::By::kFloorDiv || is_symbol(made->b) || made->b < 1 || made->b > kMostFactor ||
          is_large(poly(made->a)))
        continue;
      std::vector<int> others = monomial;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      if (!std::all_of(others.begin(), others.end(), [&](int id) { return is_atom_not_negative(id, extents, steps); }))
        continue;
      Poly rest = sum;
      rest.erase(monomial);
      return add(mul(intern(rest), made->b), mul(mul(made->a, intern({{others, 1}})), factor));
    }
  return std::nullopt;
}

std::vector<Symbols::Term> Symbols::terms(Dim dim) const {
  std::vector<Term> out;
  for (const auto& [monomial, factor] : poly(dim)) {
    Term term{factor, {}};
    for (int id : monomial) term.atoms.push_back(atoms_[static_cast<size_t>(id)].dim);
    out.push_back(std::move(term));
  }
  return out;
}

std::optional<Symbols::Made> Symbols::made(Dim dim) const {
  const Atom* found = single(dim);
  return found ? found->made : std::nullopt;
}

// Writing stops at the longest text: each level of a formula adds to it, so the depth is bounded too.
void Symbols::write(std::string& out, const Atom& atom) const {
  if (out.size() > kLongestText) return;
  if (!atom.made) {
    out += atom.name.substr(0, kLongestText);
    return;
  }
  const auto [by, a, b] = *atom.made;
  const bool divides = by == Made::By::kFloorDiv;
  if (divides) out += "floor(";
  if (by == Made::By::kMin) out += "min";
  if (by == Made::By::kMax) out += "max";
  out += "(";
  write(out, divides ? a : std::min(a, b));
  out += divides ? ")/(" : by == Made::By::kAdd ? "+" : by == Made::By::kMul ? ")*(" : ",";
  write(out, divides ? b : std::max(a, b));
  out += divides ? "))" : ")";
}

void Symbols::write(std::string& out, const Poly& poly) const {
  bool is_first = true;
  for (const auto& [monomial, factor] : poly) {
    if (out.size() > kLongestText) return;
    if (!is_first) out += "+";
    is_first = false;
    if (monomial.empty() || factor != 1) out += std::to_string(factor);
    for (size_t i = 0; i < monomial.size(); ++i) {
      if (i || factor != 1) out += "*";
      write(out, atoms_[static_cast<size_t>(monomial[i])]);
    }
  }
}

void Symbols::write(std::string& out, Dim dim) const {
  if (const Poly* found = symbolic(dim))
    write(out, *found);
  else
    out += std::to_string(dim);
}

std::string Symbols::to_string(Dim dim) const {
  std::string out;
  write(out, dim);
  if (out.size() <= kLongestText) return out;
  // A name may be UTF-8: the cut does not divide a character.
  size_t end = kLongestText;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;
  return fmt::format("{}... (formula {})", out.substr(0, end), kSymbolBase - dim);
}

}  // namespace lowtide::core
