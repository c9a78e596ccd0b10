// SPDX-License-Identifier: Apache-2.0
// What a division between two runtimes decides about: units, which stay whole, and the values between them.
//
// A division gives each unit a piece. Pieces are numbered in the order in which they run, and alternate between the
// runtimes; a value is made in the piece of its user or in an earlier one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lowtide::layout {

enum class PieceRuntime : uint8_t { kTarget = 0, kOnnx = 1 };

inline constexpr PieceRuntime other_runtime(PieceRuntime runtime) {
  return runtime == PieceRuntime::kTarget ? PieceRuntime::kOnnx : PieceRuntime::kTarget;
}

// The cost of a unit in a runtime that cannot run it.
inline constexpr uint64_t kCannotRun = UINT64_MAX;

struct Unit {
  std::array<uint64_t, 2> work = {0, 0};  // by runtime; any unit of time. In ONNX every unit can run.
  uint64_t in(PieceRuntime runtime) const { return work[static_cast<size_t>(runtime)]; }
  bool in_target() const { return in(PieceRuntime::kTarget) != kCannotRun; }
};

// A value of a unit that other units use, or an order that must be kept (0 bytes).
struct SeamValue {
  size_t producer = 0;
  std::vector<size_t> users;  // none of them the producer
  uint64_t bytes = 0;
};

// Acyclic.
struct UnitGraph {
  std::vector<Unit> units;
  std::vector<SeamValue> values;
};

struct Division {
  std::vector<size_t> piece;  // of each unit
  size_t pieces = 0;
  PieceRuntime first = PieceRuntime::kTarget;  // of piece 0

  PieceRuntime runtime(size_t of_piece) const { return of_piece % 2 == 0 ? first : other_runtime(first); }
  size_t pieces_in_target() const { return (pieces + (first == PieceRuntime::kTarget ? 1 : 0)) / 2; }
};

// How many pieces a division may have.
struct PieceLimits {
  size_t pieces = SIZE_MAX, in_target = SIZE_MAX;  // at least 1

  bool allow(const Division& division) const {
    return division.pieces <= pieces && division.pieces_in_target() <= in_target;
  }
  // Pieces alternate: of an odd number the larger part may be in ONNX.
  size_t most() const { return in_target < pieces / 2 ? 2 * in_target + 1 : pieces; }
};

}  // namespace lowtide::layout
