// SPDX-License-Identifier: Apache-2.0
#include "stream/nearest_name.h"

#include <gtest/gtest.h>

namespace lowtide::stream {
namespace {

const std::vector<std::string> kNames = {"output", "report", "verify-output", "weights", "weights-include", "x"};

TEST(NearestName, AllowsEditsOfAThirdOfTheLength) {
  EXPECT_EQ(nearest_name("ouput", kNames), "output");    // left out
  EXPECT_EQ(nearest_name("ouptut", kNames), "output");   // swapped
  EXPECT_EQ(nearest_name("outputs", kNames), "output");  // inserted
  EXPECT_EQ(nearest_name("putput", kNames), "output");   // replaced
  EXPECT_EQ(nearest_name("OUTPUT", kNames), "output");
  EXPECT_EQ(nearest_name("weight", kNames), "weights");
  EXPECT_EQ(nearest_name("input", kNames), "");  // three edits of five letters
  EXPECT_EQ(nearest_name("dry", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("output", {}), "");
}

TEST(NearestName, SingleLettersHaveNoNearestName) {
  EXPECT_EQ(nearest_name("y", kNames), "");
  EXPECT_EQ(nearest_name("X", kNames), "x");
}

TEST(NearestName, AUniquePrefixIsNearest) {
  EXPECT_EQ(nearest_name("verify", kNames), "verify-output");
  EXPECT_EQ(nearest_name("wei", kNames), "");  // two of them
  EXPECT_EQ(nearest_name("ve", kNames), "");   // too short
}

TEST(NearestName, NamesOfAnyLength) {
  const std::string long_name(1 << 20, 'a');
  EXPECT_EQ(nearest_name("aaaa", {long_name, "aaab"}), "aaab");
  EXPECT_EQ(nearest_name(long_name, {long_name}), "");
}

TEST(NearestName, Messages) {
  EXPECT_EQ(did_you_mean("repot", kNames), "; did you mean 'report'?");
  EXPECT_EQ(did_you_mean("zzz", kNames), "");
  EXPECT_EQ(listed({}), "none");
  EXPECT_EQ(listed({"a", "b"}), "a, b");
  EXPECT_EQ(listed({"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}),
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
}

}  // namespace
}  // namespace lowtide::stream
