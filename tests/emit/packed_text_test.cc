// SPDX-License-Identifier: Apache-2.0
#include "emit/packed_text.h"

#include <gtest/gtest.h>

#include <string>

namespace lowtide::emit {
namespace {

std::string whole(const PackedText& text) {
  std::string out;
  text.read([&](std::string_view piece) { out += piece; });
  return out;
}

TEST(PackedText, GivesBackWhatWasAdded) {
  PackedText text;
  EXPECT_EQ(whole(text), "");
  std::string expected;
  for (int i = 0; i < 200'000; ++i) {
    const std::string row = "row " + std::to_string(i * 7919) + "\n";
    text.add(row);
    expected += row;
    if (i == 10) {
      EXPECT_EQ(whole(text), expected);
    }
  }
  const std::string large(1 << 20, 'x');  // several blocks at once
  text.add(large);
  expected += large;
  EXPECT_EQ(text.size(), expected.size());
  EXPECT_EQ(whole(text), expected);
  EXPECT_EQ(whole(text), expected);  // again
}

}  // namespace
}  // namespace lowtide::emit
