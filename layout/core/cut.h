// SPDX-License-Identifier: Apache-2.0
// The binary labelling with the lowest cost, found as a minimum cut (Boykov-Kolmogorov in Boost.Graph).
//
// Every cost that can be added here is submodular, so the result is the minimum. An `any` cost is paid once, however
// many of its variables have the label: a transposed copy has any number of users.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lowtide::layout {

class Cut {
 public:
  // A variable with label 0 or 1.
  using Var = int;
  static constexpr Var kAlwaysZero = -1;

  Cut();
  ~Cut();
  Var add();
  void pay_if_zero(Var v, uint64_t cost);
  void pay_if_one(Var v, uint64_t cost);
  void pay_if_any_zero(std::span<const Var> vars, uint64_t cost);
  void pay_if_any_one(std::span<const Var> vars, uint64_t cost);
  void pay_if_zero_and_any_one(Var v, std::span<const Var> vars, uint64_t cost);
  void pay_if_one_and_any_zero(Var v, std::span<const Var> vars, uint64_t cost);

  // The labels, by variable; 0 where both labels have the same cost.
  std::vector<bool> solve();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::layout
