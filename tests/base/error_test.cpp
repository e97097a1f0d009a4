#include "causeway/base/error.h"

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

}  // namespace
}  // namespace causeway
