// SPDX-License-Identifier: Apache-2.0
// Dimensions that are not known at conversion time. A symbolic Dim is a large negative number that names a polynomial
// over the model's dim_params. Equal expressions are equal numbers: batch * 7 / 7 is batch again.
//
// The trap: shape tensors contain ordinary negative numbers too (the -1 of a Reshape); is_symbol() tells them apart.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stream/shape.h"

namespace lowtide::core {

using stream::Dim;
using stream::Shape;

inline constexpr Dim kSymbolBase = INT64_MIN / 2;
inline bool is_symbol(Dim dim) { return dim <= kSymbolBase; }

// Hash-conses symbolic dimensions. All functions accept plain numbers and give plain numbers where they can. Plain
// arithmetic that would overflow throws stream::Error(kMalformed), formulas that are too long stream::Unsupported.
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
  std::string to_string(Dim dim) const;  // "batch*7"

  // What a dimension is made of, for its computation at run time: the sum of factor * product of atoms.
  struct Term {
    int64_t factor;
    std::vector<Dim> atoms;
  };
  std::vector<Term> terms(Dim dim) const;
  // How an atom was made; nullopt for the model's own and for fresh ones.
  struct Made {
    enum class By : uint8_t { kFloorDiv, kMin, kMax } by;
    Dim a, b;
  };
  std::optional<Made> made(Dim atom) const;

 private:
  // Sum of coefficient x product of atoms (sorted ids).
  using Poly = std::map<std::vector<int>, int64_t>;
  Poly poly(Dim dim) const;
  Dim intern(const Poly& poly);
  Dim atom(const std::string& text);
  Dim atom(const std::string& text, Made made);
  std::string text(const Poly& poly) const;

  std::vector<std::string> atoms_;
  std::map<std::string, int> atom_ids_;
  std::map<int, Made> made_;  // by atom
  std::vector<Poly> polys_;
  std::map<Poly, int> poly_ids_;
  size_t parts_ = 0;  // of all polynomials
  int fresh_ = 0;
};

}  // namespace lowtide::core
