// SPDX-License-Identifier: Apache-2.0
// Shapes and checked arithmetic on sizes. A static shape is a list of non-negative extents; a dimension that is not
// known at conversion time is a negative number that names a symbol (layout/core/symbols.h makes and combines those).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lowtide::stream {

using Dim = int64_t;
using Shape = std::vector<Dim>;
// As TRANSPOSE takes it: output axis i is input axis perm[i].
using Perm = std::vector<int>;

inline bool is_static(Dim dim) { return dim >= 0; }
bool is_static(std::span<const Dim> shape);

// Product and sum that throw Error(kMalformed, "... overflows") instead of wrapping.
uint64_t checked_mul(uint64_t a, uint64_t b);
uint64_t checked_add(uint64_t a, uint64_t b);
// Number of elements of a static shape; 1 for a scalar. Throws on overflow and on negative extents.
uint64_t element_count(std::span<const Dim> shape);
// Whether all extents are known and their product is at most `most`. A 0 counts as 1, so that loops over the other
// extents are short too.
bool has_at_most(uint64_t most, std::span<const Dim> shape);
// "[1,3,?,512]"
std::string to_string(std::span<const Dim> shape);

bool is_identity(const Perm& perm);
Perm identity_perm(int rank);
Perm inverse(const Perm& perm);
// The permutation that does `first`, then `second`: compose(f, s)[i] == f[s[i]].
Perm compose(const Perm& first, const Perm& second);
Shape permuted(std::span<const Dim> shape, const Perm& perm);
// True when only axes of extent 1 change their place among the others, so that the bytes stay as they are.
bool moves_no_bytes(std::span<const Dim> shape, const Perm& perm);

}  // namespace lowtide::stream
