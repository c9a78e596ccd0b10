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

// What was found of one constant. The digest is XXH3's of 128 bits, in hexadecimal (`xxhsum -H2` prints the same), of
// the bytes as they stand in the file: it tells damage and differences, it is no signature.
struct VerifiedTensor {
  std::string tensor;
  uint64_t bytes = 0;
  std::string digest;
  std::optional<uint64_t> difference;  // the first byte that is not what the recipe gives
};
// "<digest> <bytes> <tensor>" and a newline.
std::string digest_line(const VerifiedTensor& tensor);
using OnVerified = std::function<void(const VerifiedTensor&)>;

// Both of one type and shape; the digest is of `written`.
VerifiedTensor compare_constants(const stream::RecipeRef& expected, const stream::RecipeRef& written,
                                 stream::Budget& budget, Progress* progress);

// The least budget that verify_payloads works with.
uint64_t least_for_verifying(const Plan& plan);
// All payloads of a plan against a file in which they stand at their places, by ascending position, and the header.
// Throws Error(kMalformed) when the file's size or header is another.
void verify_payloads(const Plan& plan, const std::shared_ptr<stream::Source>& written, stream::Budget& budget,
                     Progress* progress, const OnVerified& on_verified);

// True when `file` begins with the plan's header and has its size: then every payload has its place there.
bool has_header_of(const Plan& plan, const stream::Source& file);

}  // namespace lowtide::emit
