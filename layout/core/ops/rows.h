// SPDX-License-Identifier: Apache-2.0
// Functions that make the rows of alike builtins, for families that share them.
#pragma once

#include "layout/core/builtin.h"
#include "layout/core/merge_axes.h"

namespace lowtide::core {

using enum Role;

// The functions of a row, where it is made by one of the functions below.
struct RowFunctions {
  Required<Infer> infer;
  Required<Fold> fold;
  Required<Commute> commute;
  Required<Rewrite> rewrite;
  Required<MergeAxes> merge_axes;
};

// An op that makes one tensor or several of its data by no arithmetic that other dtypes share.
constexpr Builtin computing(Kind kind, RowFunctions functions, Roles inputs, Roles outputs) {
  return {.kind = kind,
          .infer = functions.infer,
          .fold = functions.fold,
          .commute = functions.commute,
          .rewrite = functions.rewrite,
          .merge_axes = functions.merge_axes,
          .inputs = inputs,
          .outputs = outputs,
          .limited_rank = LimitedRank::kData,
          .numbers = Numbers::kComputed,
          .memory = Memory::kOwn,
          .broadcasts = false,
          .keeps_infinities = false,
          .integers = Integers::kNone,
          .weights = kNoWeights,
          .activation = kNoActivation,
          .exact_input = kNone};
}

// An op that puts elements of its data elsewhere, repeats them or leaves them out.
constexpr Builtin moving(Kind kind, RowFunctions functions, Roles inputs) {
  Builtin row = computing(kind, functions, inputs, Roles::all(kData));
  row.numbers = Numbers::kMoved;
  row.keeps_infinities = true;
  row.integers = Integers::kChosen;
  return row;
}

// Exceptions to what the functions that make rows say.
constexpr Builtin with(Builtin row, LimitedRank limited_rank) {
  row.limited_rank = limited_rank;
  return row;
}
constexpr Builtin with(Builtin row, Numbers numbers) {
  row.numbers = numbers;
  return row;
}
constexpr Builtin with(Builtin row, Memory memory) {
  row.memory = memory;
  return row;
}
constexpr Builtin with(Builtin row, const ActivationField* activation) {
  row.activation = activation;
  return row;
}
constexpr Builtin with(Builtin row, Integers integers) {
  row.integers = integers;
  return row;
}
constexpr Builtin keeping_infinities(Builtin row) {
  row.keeps_infinities = true;
  return row;
}
constexpr Builtin reading_exactly(Builtin row, int input) {
  row.exact_input = input;
  return row;
}

}  // namespace lowtide::core
