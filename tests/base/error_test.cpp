#include "causeway/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway {
namespace {

TEST(NearestName, OfLongNamesIsLookedForInTimeOfTheirNumber) {
  EXPECT_EQ(nearest_name("lm_head.weigth", {"model.norm.weight", "lm_head.weight"}), "lm_head.weight");
  // Each would take a distance of 10^12 steps.
  const std::string megabyte(1'000'000, 'a');
  EXPECT_EQ(nearest_name(megabyte + "b", {megabyte}), "");
  EXPECT_EQ(nearest_name("ab", std::vector<std::string>(100, megabyte)), "");
}

// A name out of a file may hold anything: what is said of it neither ends there nor commands a terminal.
TEST(ErrorTest, AForeignNameIsEscapedAndDoesNotEndTheMessage) {
  const std::string name("a\0b\x1b[2J", 7);
  const Error error(ErrorKind::kCorrupt, fmt::format("tensor '{}' is damaged", name), name, "Look at it.");
  EXPECT_STREQ(error.what(), "a\\x00b\\x1b[2J: tensor 'a\\x00b\\x1b[2J' is damaged\n  Look at it.");
  EXPECT_EQ(error.where(), name);
  try {
    CAUSEWAY_CHECK(name.empty(), "of '{}', once", name);
  } catch (const InternalError& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("of 'a\\x00b\\x1b[2J', once"));
  }
}

}  // namespace
}  // namespace causeway
