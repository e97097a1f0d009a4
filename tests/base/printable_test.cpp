#include "causeway/base/printable.h"

#include <gtest/gtest.h>

namespace causeway {
namespace {

TEST(Printable, LeavesWhatIsVisible) {
  for (const char* text : {"", "plain text", "C:\\dir", "naïve 東京 🎉", "tilde~"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_TRUE(is_printable(text));
  }
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\nb\tc\rd\x7f"), "a\\nb\\tc\\rd\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");
  EXPECT_EQ(printable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(printable("exe.\u202Etxt"), "exe.\\u202etxt");
  EXPECT_FALSE(is_printable("\x1b"));
  EXPECT_FALSE(is_printable("a\nb"));
  EXPECT_FALSE(is_printable("\xc2\x85"));
}

TEST(Printable, KeepsLinesWhereAsked) {
  EXPECT_EQ(printable("a\nb\tc\rd", Whitespace::kLinesAndTabs), "a\nb\tc\\rd");
  EXPECT_TRUE(is_printable("a\nb\t", Whitespace::kLinesAndTabs));
  EXPECT_FALSE(is_printable("a\r\n", Whitespace::kLinesAndTabs));
}

}  // namespace
}  // namespace causeway
