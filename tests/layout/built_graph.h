// SPDX-License-Identifier: Apache-2.0
// What tests of passes start from: an empty graph and a builder for it.
#pragma once

#include <gtest/gtest.h>

#include "layout/core/builder.h"

namespace lowtide::layout {

struct BuiltGraph : testing::Test {
  stream::Budget budget{16 << 20};
  core::Symbols symbols;
  core::Graph graph{symbols, budget};
  core::Builder b{graph};
};

}  // namespace lowtide::layout
