#include "causeway/base/named_values.h"

#include <gtest/gtest.h>

namespace causeway::orchard {

enum class Fruit { kApple, kPear, kNameless };
constexpr auto named_values(Fruit) {
  return std::to_array<NamedValue<Fruit>>({{Fruit::kApple, "apple"}, {Fruit::kPear, "pear"}});
}

enum class Tree { kOak };

TEST(NamedValues, OneTableParsesPrintsAndLists) {
  EXPECT_EQ(name_of(Fruit::kPear), "pear");
  EXPECT_EQ(name_of(Fruit::kNameless), "");
  EXPECT_EQ(value_named<Fruit>("apple"), Fruit::kApple);
  EXPECT_EQ(value_named<Fruit>("Apple"), std::nullopt);
  EXPECT_EQ(value_named<Fruit>(""), std::nullopt);
  EXPECT_EQ(names_of<Fruit>(), (std::vector<std::string>{"apple", "pear"}));
  EXPECT_EQ(fmt::format("{} and {:>6}", Fruit::kApple, Fruit::kPear), "apple and   pear");
  static_assert(!NamedEnum<Tree> && !NamedEnum<int>);
}

}  // namespace causeway::orchard
