// SPDX-License-Identifier: Apache-2.0
#include "layout/core/symbols.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "stream/error.h"

namespace lowtide::core {
namespace {

// The number that a dimension is when the atoms that were not made have these values; each part is computed once.
class Numbers {
 public:
  Numbers(const Symbols& symbols, std::map<Dim, int64_t> values) : symbols_(symbols), known_(std::move(values)) {}

  int64_t of(Dim dim) {
    if (!is_symbol(dim)) return dim;
    if (auto it = known_.find(dim); it != known_.end()) return it->second;
    int64_t value = 0;
    if (auto made = symbols_.made(dim)) {
      const int64_t a = of(made->a), b = of(made->b);
      using By = Symbols::Made::By;
      switch (made->by) {
        case By::kFloorDiv:
          value = a / b - (a % b != 0 && (a < 0) != (b < 0));
          break;
        case By::kMin:
          value = std::min(a, b);
          break;
        case By::kMax:
          value = std::max(a, b);
          break;
        case By::kAdd:
          value = static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
          break;
        case By::kMul:
          value = static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
          break;
      }
    } else {
      for (const Symbols::Term& term : symbols_.terms(dim)) {
        auto product = static_cast<uint64_t>(term.factor);
        for (Dim atom : term.atoms) product *= static_cast<uint64_t>(of(atom));
        value = static_cast<int64_t>(static_cast<uint64_t>(value) + product);
      }
    }
    return known_[dim] = value;
  }

 private:
  const Symbols& symbols_;
  std::map<Dim, int64_t> known_;
};

TEST(Symbols, EqualFormulasAreEqualNumbers) {
  Symbols s;
  const Dim a = s.named("a"), b = s.named("b");
  EXPECT_EQ(s.mul(s.add(a, 1), b), s.add(b, s.mul(b, a)));
  EXPECT_EQ(s.sub(s.add(a, b), b), a);
  EXPECT_EQ(s.max(s.max(a, b), a), s.max(b, a));
  EXPECT_EQ(s.max(s.max(a, b), s.max(b, a)), s.max(a, b));
  EXPECT_EQ(s.min(s.min(a, 7), s.min(b, 7)), s.min(a, s.min(7, b)));
  EXPECT_NE(s.min(a, b), s.max(a, b));
  EXPECT_EQ(s.floor_div(s.add(a, 1), 2), s.floor_div(s.add(1, a), 2));
  EXPECT_NE(s.floor_div(a, b), s.floor_div(b, a));
}

TEST(Symbols, NamesOfTheModelAreNotThoseOfFreshOnes) {
  Symbols s;
  EXPECT_NE(s.named("reshape#0"), s.fresh("reshape"));
  EXPECT_NE(s.named("max(a,b)"), s.max(s.named("a"), s.named("b")));
}

TEST(Symbols, PolynomialsAreDivided) {
  Symbols s;
  const Dim a = s.named("a"), b = s.named("b"), c = s.named("c");
  const Dim x = s.add(s.floor_div(a, 2), 1), y = s.add(s.sub(b, s.mul(c, 3)), 5);
  EXPECT_EQ(s.exact_div(s.mul(x, y), y), x);
  EXPECT_EQ(s.exact_div(s.mul(s.mul(x, y), s.mul(b, 4)), s.mul(x, b)), s.mul(y, 4));
  EXPECT_EQ(s.exact_div(s.mul(s.mul(x, x), y), x), s.mul(x, y));
  EXPECT_EQ(s.exact_div(s.add(s.mul(x, y), 1), y), std::nullopt);
  EXPECT_EQ(s.exact_div(x, y), std::nullopt);
  EXPECT_EQ(s.exact_div(s.mul(x, 3), s.mul(x, 2)), std::nullopt);
  // All quotients of products of random polynomials.
  std::mt19937 random(1);
  const Dim atoms[] = {a, b, c, 1};
  auto polynomial = [&] {
    Dim out = 0;
    for (int i = 0; i < 3; ++i)
      out = s.add(out, s.mul(s.mul(atoms[random() % 4], atoms[random() % 4]), static_cast<Dim>(random() % 7) - 3));
    return out;
  };
  for (int i = 0; i < 2000; ++i) {
    const Dim p = polynomial(), q = polynomial();
    if (q == 0) continue;
    EXPECT_EQ(s.exact_div(s.mul(p, q), q), p) << s.to_string(p) << " and " << s.to_string(q);
  }
}

TEST(Symbols, LongFormulasShareTheirParts) {
  Symbols s;
  const Dim a = s.named("a"), b = s.named("b");
  std::vector<std::pair<const char*, std::function<Dim(Dim, Dim)>>> steps = {
      {"squares", [&](Dim x, Dim) { return s.mul(x, s.add(x, b)); }},
      {"maxima", [&](Dim x, Dim) { return s.max(s.add(x, a), s.mul(x, b)); }},
      {"quotients", [&](Dim x, Dim before) { return s.floor_div(s.add(x, before), s.add(b, 2)); }},
      {"sums", [&](Dim x, Dim before) { return s.add(s.mul(x, s.add(before, b)), s.floor_div(x, 3)); }},
  };
  for (const auto& [name, step] : steps) {
    std::vector<Dim> chain = {a, b};
    std::vector<Dim> again = chain;
    for (int i = 0; i < 1500; ++i) chain.push_back(step(chain.back(), chain[chain.size() - 2]));
    for (int i = 0; i < 1500; ++i) again.push_back(step(again.back(), again[again.size() - 2]));
    EXPECT_EQ(chain, again) << name;
    EXPECT_LT(s.to_string(chain.back()).size(), 1000U) << name;
    EXPECT_NE(s.to_string(chain.back()), s.to_string(chain[chain.size() - 2])) << name;
    // The same numbers as without formulas, in arithmetic modulo 2^64 where that is the whole of a formula.
    if (std::string_view(name) != "squares") continue;
    Numbers numbers(s, {{a, 3}, {b, 5}});
    uint64_t want = 3;
    for (size_t i = 2; i < 200; ++i) {
      want *= want + 5;
      if (i == 2) want = 5 * (5 + 5);  // the chain begins with a and b
      EXPECT_EQ(static_cast<uint64_t>(numbers.of(chain[i])), want) << i;
    }
  }
}

TEST(Symbols, FingerprintsDoNotDependOnTheOrderOfNumbers) {
  Symbols s, t;
  const Dim a = s.named("a"), b = s.named("b");
  const Dim b2 = t.named("b"), a2 = t.named("a");
  auto formula = [](Symbols& of, Dim x, Dim y) {
    return of.add(of.mul(of.max(x, y), 3), of.floor_div(of.add(x, of.mul(y, y)), of.min(y, 9)));
  };
  EXPECT_EQ(s.fingerprint(formula(s, a, b)), t.fingerprint(formula(t, a2, b2)));
  EXPECT_NE(s.fingerprint(formula(s, a, b)), t.fingerprint(formula(t, b2, a2)));
  EXPECT_NE(s.fingerprint(s.floor_div(a, b)), s.fingerprint(s.floor_div(b, a)));
  EXPECT_NE(s.fingerprint(s.add(a, b)), s.fingerprint(s.mul(a, b)));
}

TEST(Symbols, OverflowIsAnError) {
  Symbols s;
  EXPECT_THROW(s.mul(INT64_MAX / 2, 4), stream::Error);
  EXPECT_THROW(s.mul(s.mul(s.named("a"), int64_t{1} << 40), int64_t{1} << 40), stream::Error);
}

}  // namespace
}  // namespace lowtide::core
