// SPDX-License-Identifier: Apache-2.0
// The line of an error, and how names from files are printed.
#include "stream/error.h"

#include <gtest/gtest.h>

#include "stream/printable.h"

namespace lowtide::stream {
namespace {

TEST(Error, NamesFileNodeAndKind) {
  Error error(Code::kMalformed, "group 3 does not divide 64 channels", {.slot = "input 1 'w17'"});
  error.add_place({.file = "net.onnx", .node = "conv_17", .op = "Conv", .slot = "outer"});
  EXPECT_STREQ(error.what(),
               "net.onnx: node 'conv_17' (Conv), input 1 'w17': group 3 does not divide 64 channels [malformed]");
}

TEST(Printable, LongTextsLoseTheirMiddle) {
  EXPECT_EQ(shortened("short", 64), "short");
  const std::string begin(47, 'b'), end(100, 'e');
  const std::string found = shortened(begin + "\xc3\xa4" + std::string(1000, 'm') + "\xe2\x82\xac" + end, 152);
  EXPECT_EQ(found, begin + "..." + end);  // characters are not cut
}

TEST(Printable, KeepsPrintableTextAndEscapesTheRest) {
  EXPECT_EQ(printable("a\nb\x1b[2J\x7f"), "a\\x0ab\\x1b[2J\\x7f");
  EXPECT_EQ(printable("\xc3\xa4 \xe2\x82\xac"), "\xc3\xa4 \xe2\x82\xac");
  EXPECT_EQ(printable("\xc3"), "\\xc3");           // cut
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");  // overlong
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // a control character of eight bits
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
}

}  // namespace
}  // namespace lowtide::stream
