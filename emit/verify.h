// SPDX-License-Identifier: Apache-2.0
// Compares the bytes of constants with what their recipes give, streaming: after a conversion, before the output gets
// its name (--verify-output), or at any later time (lowtide check).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "emit/plan.h"
#include "stream/file/budget.h"
#include "stream/file/file.h"

namespace lowtide::emit {

// The result for one constant. The digest is the 128-bit XXH3 hash, in hexadecimal (`xxhsum -H2` prints the same), of
// its bytes in the file. It detects damage and differences; it is not a cryptographic signature.
struct VerifiedTensor {
  std::string tensor;
  uint64_t bytes = 0;
  std::string digest;
  std::optional<uint64_t> difference;  // the first byte that is not what the recipe gives
};
// "<digest> <bytes> <tensor>" and a newline.
std::string digest_line(const VerifiedTensor& tensor);
using OnVerified = std::function<void(const VerifiedTensor&)>;

// Both must have the same type and shape; the digest is that of `written`.
VerifiedTensor compare_constants(const stream::RecipeRef& expected, const stream::RecipeRef& written,
                                 stream::Budget& budget, Progress* progress);

// The digest of a constant's bytes alone.
std::string digest_of(const stream::RecipeRef& constant, stream::Budget& budget, Progress* progress);
// The smallest budget for both, where the recipes of two constants need `scratch` together.
uint64_t least_for_comparing(uint64_t scratch);

// The smallest budget for verify_payloads.
uint64_t least_for_verifying(const Plan& plan);
// Compares the header and all payloads of a plan, by ascending position, with a file. Throws Error(kMalformed) when the
// file's size or header differs.
void verify_payloads(const Plan& plan, const std::shared_ptr<stream::Source>& written, stream::Budget& budget,
                     Progress* progress, const OnVerified& on_verified);

// The position of the first byte of the plan's header that differs in `file`, or that is after the file's end.
std::optional<uint64_t> header_difference(const Plan& plan, const stream::Source& file);
// Whether `file` begins with the plan's header and has its size, so that all payloads have the same positions.
bool has_header_of(const Plan& plan, const stream::Source& file);

}  // namespace lowtide::emit
