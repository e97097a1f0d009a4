#include "causeway/base/printable_text.h"

#include <gtest/gtest.h>

#include "causeway/base/text_table.h"

namespace causeway {
namespace {

TEST(PrintableTextTest, WhatATerminalActsOnIsShownInstead) {
  EXPECT_EQ(printable("plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \\ \""),
            "plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \\ \"");
  EXPECT_EQ(printable("\x1b[31mred\x1b]0;title\x07"), "\\x1b[31mred\\x1b]0;title\\x07");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("one\ntwo\r\tthree"), "one\\ntwo\\r\\tthree");
  EXPECT_EQ(printable("one\ntwo\r\tthree", LineBreaks::kKeep), "one\ntwo\\r\tthree");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // the one-character form of ESC [
  EXPECT_EQ(printable("abc\xe2\x80\xae"
                      "cba"),
            "abc\\u202ecba");  // right to left
  EXPECT_EQ(printable("a\xe2\x80\x8b"
                      "b\xef\xbb\xbf"),
            "a\\u200bb\\ufeff");  // without width
  EXPECT_EQ(printable("\xe2\x80\xa8"), "\\u2028");
}

TEST(PrintableTextTest, BytesThatAreNoTextAreShownAsSuch) {
  EXPECT_EQ(printable("a\xff"
                      "b"),
            "a\\xffb");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                    // cut off
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // not the shortest form
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(PrintableTextTest, TablesStayTables) {
  EXPECT_EQ(display_width("a\xc3\xa4\xcc\x88"), 2u);
  EXPECT_EQ(
      format_table(
          {{"run", "device", "command"}, {"1", "a device of a very long name", "x"}, {"12", "\x1b[2J\xc3\xa4\n", "y"}},
          {0}),
      "run  device                        command\n"
      "  1  a device of a very long name  x\n"
      " 12  \\x1b[2J\xc3\xa4\\n                    y\n");
}

}  // namespace
}  // namespace causeway
