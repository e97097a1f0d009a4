#include "causeway/base/text_table.h"

#include <gtest/gtest.h>

namespace causeway {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheirLongestCell) {
  EXPECT_EQ(
      format_table(
          {{"run", "device", "command"}, {"1", "a device of a very long name", "x"}, {"12", "\x1b[2J\xc3\xa4\n", "y"}},
          {0}),
      "run  device                        command\n"
      "  1  a device of a very long name  x\n"
      " 12  \\x1b[2J\xc3\xa4\\n                    y\n");
  EXPECT_EQ(format_table({}), "");
  EXPECT_EQ(format_table({{"a", ""}, {}, {"b"}}), "a\n\nb\n");
}

TEST(TextTableTest, WidthCountsWhatIsSeen) { EXPECT_EQ(display_width("a\xc3\xa4\xcc\x88"), 2u); }

}  // namespace
}  // namespace causeway
