// SPDX-License-Identifier: Apache-2.0
// Dimensions that are not known at conversion time. A symbolic Dim is a large negative number that names a polynomial
// over atoms: the model's dim_params, and what polynomials do not express (divisions, min, max). Equal expressions are
// equal numbers: batch * 7 / 7 is batch again. A formula is never too long: where a polynomial would be, the sum or
// the product is an atom of its own, which refers to its two operands. Formulas so share their parts, and time and
// memory grow with the number of operations, not with the text of the result.
//
// The trap: shape tensors contain ordinary negative numbers too (the -1 of a Reshape); is_symbol() tells them apart.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "stream/error.h"
#include "stream/shape.h"

namespace lowtide::core {

using stream::Dim;
using stream::Shape;

inline constexpr Dim kSymbolBase = INT64_MIN / 2;
inline bool is_symbol(Dim dim) { return dim <= kSymbolBase; }

// Arithmetic on dimensions that would overflow: kMalformed where they are extents.
class DimOverflow : public stream::Error {
 public:
  DimOverflow() : Error(stream::Code::kMalformed, "arithmetic on dimensions overflows 64 bits") {}
};

// Hash-conses symbolic dimensions. All functions accept plain numbers and give plain numbers where they can. Plain
// arithmetic that would overflow throws DimOverflow.
class Symbols {
 public:
  Symbols();
  Dim named(const std::string& name);  // the same name gives the same symbol
  Dim fresh(const std::string& hint);  // equal only to itself
  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim floor_div(Dim a, Dim b);  // b != 0
  Dim ceil_div(Dim a, Dim b);
  Dim mod(Dim a, Dim b);  // floor semantics
  Dim min(Dim a, Dim b);
  Dim max(Dim a, Dim b);
  Dim product(std::span<const Dim> dims);
  // a / b where b is known to divide a, e.g. for the -1 of a Reshape; nullopt when that cannot be shown.
  std::optional<Dim> exact_div(Dim a, Dim b);
  // a / b towards zero; b > 0.
  Dim truncated_div(Dim a, Dim b, const std::set<Dim>& extents = {});
  // Whether it can be shown that the dimension is at least 0, when the model's own dimensions and `extents` are:
  // n - 5 may be negative where n is an extent.
  bool is_not_negative(Dim dim, const std::set<Dim>& extents = {});
  // "batch*7". A long formula is cut after some hundred characters; its number makes the text unique in this object.
  std::string to_string(Dim dim) const;
  // Equal for equal formulas over equal names, also in another object whose symbols are numbered differently.
  uint64_t fingerprint(Dim dim) const;

  // What a dimension is made of, for its computation at run time: the sum of factor * product of atoms.
  struct Term {
    int64_t factor;
    std::vector<Dim> atoms;
  };
  std::vector<Term> terms(Dim dim) const;
  // How an atom was made; nullopt for the model's own and for fresh ones.
  struct Made {
    enum class By : uint8_t { kFloorDiv, kMin, kMax, kAdd, kMul } by;
    Dim a, b;
  };
  std::optional<Made> made(Dim atom) const;

 private:
  // Sum of coefficient x product of atoms (sorted ids).
  using Poly = std::map<std::vector<int>, int64_t>;
  struct Atom {
    std::string name;  // empty when it was made
    std::optional<Made> made;
    uint64_t fingerprint;
    std::vector<Dim> extremes;  // of a minimum or maximum: all that it is taken of, sorted
    Dim dim = 0;                // the atom by itself
  };
  Poly poly(Dim dim) const;
  const Poly* symbolic(Dim dim) const;
  size_t parts(Dim dim) const;
  Dim intern(const Poly& poly);
  Dim atom(Atom atom);
  Dim made_atom(Made made, std::vector<Dim> extremes = {});
  Dim extreme(Made::By by, Dim a, Dim b);
  bool affords(size_t result_parts, size_t steps);
  std::vector<Dim> extremes_of(Made::By by, Dim dim) const;
  const Atom* single(Dim dim) const;
  bool is_not_negative(Dim dim, const std::set<Dim>& extents, int& steps);
  bool is_atom_not_negative(int id, const std::set<Dim>& extents, int& steps);
  std::optional<Dim> without_negative_division(Dim dim, const std::set<Dim>& extents, int& steps);
  void write(std::string& out, const Poly& poly) const;
  void write(std::string& out, const Atom& atom) const;
  void write(std::string& out, Dim dim) const;

  std::vector<Atom> atoms_;
  std::map<std::string, Dim> named_;
  std::map<std::tuple<Made::By, Dim, Dim>, Dim> made_;
  std::map<std::pair<Made::By, std::vector<Dim>>, Dim> extremes_;
  std::deque<Poly> polys_;  // found by reference while others are added
  std::map<Poly, int> poly_ids_;
  size_t parts_ = 0;  // of all polynomials
  size_t steps_ = 0;  // of all multiplications and divisions
  int fresh_ = 0;
};

}  // namespace lowtide::core
