#include "causeway/base/fields.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace causeway {
namespace {

enum class Color : unsigned char { kRed, kBlue = 7 };

struct Inner {
  int64_t size = 1;
  Color color = Color::kRed;
  static constexpr auto fields() {
    return std::tuple{ListedField{"size", &Inner::size}, ListedField{"color", &Inner::color}};
  }
};

struct Outer {
  bool wide = false;
  Inner inner;
  double share = 0;
  static constexpr auto fields() {
    return std::tuple{ListedField{"wide", &Outer::wide}, ListedField{"inner", &Outer::inner},
                      ListedField{"share", &Outer::share}};
  }
};

// Of every kind of type that structures with lists have.
struct Mixed {
  std::vector<int64_t> list;
  std::string text;
  std::shared_ptr<const Inner> pointer;
  std::function<int(int)> function;
  static constexpr auto fields() {
    return std::tuple{ListedField{"list", &Mixed::list}, ListedField{"text", &Mixed::text},
                      ListedField{"pointer", &Mixed::pointer}, ListedField{"function", &Mixed::function}};
  }
};

struct Forgetful {
  std::vector<int64_t> list;
  Inner inner;
  bool forgotten = false;
  static constexpr auto fields() {
    return std::tuple{ListedField{"list", &Forgetful::list}, ListedField{"inner", &Forgetful::inner}};
  }
};

static_assert(lists_every_field<Inner> && lists_every_field<Outer> && lists_every_field<Mixed>);
static_assert(!lists_every_field<Forgetful>);

TEST(Fields, TextNamesEveryFieldWithItsValue) {
  EXPECT_EQ(fields_text(Outer{}), "wide=false, inner={size=1, color=0}, share=0");
  EXPECT_EQ(fields_text(Outer{true, {-2, Color::kBlue}, 0.1}), "wide=true, inner={size=-2, color=7}, share=0.1");
}

TEST(Fields, VisitsInOrderAndStopsAtTheFirstThatDoesNotHold) {
  std::vector<std::string_view> seen;
  for_each_field<Mixed>([&](const auto& field) { seen.push_back(field.name); });
  EXPECT_EQ(seen, (std::vector<std::string_view>{"list", "text", "pointer", "function"}));
  seen.clear();
  EXPECT_FALSE(all_fields<Mixed>([&](const auto& field) {
    seen.push_back(field.name);
    return field.name != "text";
  }));
  EXPECT_EQ(seen, (std::vector<std::string_view>{"list", "text"}));
}

}  // namespace
}  // namespace causeway
