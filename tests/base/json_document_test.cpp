#include "causeway/base/json_document.h"

#include <gmock/gmock.h>

#include <string>

namespace causeway {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

Error error_of_parsing(std::string_view text, const JsonSubject& subject) {
  try {
    parse_json(text, subject);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error for " << text.substr(0, 40);
  return Error(ErrorKind::kIo, "");
}

TEST(JsonDocument, ReadsWhatIsJson) {
  EXPECT_EQ(parse_json(R"({"a": [1, "[[[{{{", {"b": null}]})", {.most_depth = 3})["a"][1], "[[[{{{");
  EXPECT_EQ(parse_json(R"("\"[")", {.most_depth = 0}), "\"[");
  EXPECT_EQ(parse_json(R"({"a": 1, "a": 2})", {})["a"], 2);
}

// Whatever is repeated and nested, as the library reads it.
TEST(JsonDocument, ReadsAsTheLibraryDoes) {
  for (const char* text :
       {"null", "-1", "18446744073709551615", "18446744073709551616", "1.5e-3", "[]", "{}", "[[],{},[{}]]",
        R"({"a": {"b": [1, {"c": true}]}, "b": [[1, 2], [3, [4, "x"]]], "a": [false]})",
        R"({"a": {"b": 1}, "a": {"c": 2}})", R"({"": {"": ""}, "\u00e9": "\ud83d\ude00"})", "\xEF\xBB\xBF[1]", " [1] "})
    EXPECT_EQ(parse_json(text, {}), nlohmann::json::parse(text)) << text;
}

// What took the square of its size: 300,000 members would take minutes.
TEST(JsonDocument, ReadsManyMembers) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("\"{}\": [{{}}],", i);
  const nlohmann::json json = parse_json(text + "\"last\": 0}", {.keys_may_repeat = false});
  EXPECT_EQ(json.size(), 300'001u);
  EXPECT_EQ(json["299999"][0], nlohmann::json::object());
  EXPECT_EQ(error_of_parsing(text + "\"7\": 0}", {.keys_may_repeat = false}).message(),
            "the file has the key '7' twice");
}

TEST(JsonDocument, NamesLineAndColumn) {
  const Error error =
      error_of_parsing("{\n  \"a\": 1,\n  b\n}", {.name = "the index", .where = "x.json", .hint = "Fetch it."});
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(error.where(), "x.json");
  EXPECT_EQ(error.hint(), "Fetch it.");
  EXPECT_THAT(error.message(), testing::StartsWith("the index is not valid JSON: "));
  EXPECT_THAT(error.message(), EndsWith("at line 3, column 3"));
  EXPECT_THAT(error_of_parsing("", {}).message(), EndsWith("at line 1, column 1"));
  EXPECT_THAT(error_of_parsing("[1, 2", {}).message(), EndsWith("at line 1, column 6"));
  EXPECT_THAT(error_of_parsing("[1, x]", {.name = "the line", .is_one_line = true}).message(), EndsWith("at column 5"));
  EXPECT_THAT(error_of_parsing("[1e999]", {}).message(), HasSubstr("number overflow parsing '1e999'"));
}

TEST(JsonDocument, MessagesHoldNothingThatATerminalObeys) {
  for (const char* text : {"[\x1b[31mred]", "\"\xff\xfe\"", "\"\x1b\"", "{\"\x9b\": 1}"})
    for (const char c : std::string(error_of_parsing(text, {}).what())) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << text;
  const Error twice = error_of_parsing("{\"\\u001b[2J\": 1, \"\\u001b[2J\": 2}", {.keys_may_repeat = false});
  EXPECT_EQ(twice.message(), "the file has the key '\\x1b[2J' twice");
}

TEST(JsonDocument, DepthIsCheckedBeforeAnythingIsBuilt) {
  EXPECT_NO_THROW(parse_json("[[1],[2],[3]]", {.most_depth = 2}));
  EXPECT_EQ(error_of_parsing("[[1],\n [[2]]]", {.most_depth = 2}).message(),
            "the file is nested too deeply: more than 2 objects and lists within one another, at line 2, column 3");
  const std::string lists(300'000, '['), ends(300'000, ']');
  EXPECT_THAT(error_of_parsing(lists, {}).message(), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of_parsing(lists + ends, {}).message(), HasSubstr("nested too deeply"));
  std::string objects;
  for (int i = 0; i < 300'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(error_of_parsing(objects, {}).message(), HasSubstr("nested too deeply"));
}

TEST(JsonDocument, RepeatedKeysAreRefusedWhereAsked) {
  const JsonSubject strict{.name = "the header", .keys_may_repeat = false};
  EXPECT_EQ(error_of_parsing(R"({"a": 1, "b": {"a": 2}, "a": 3})", strict).message(),
            "the header has the key 'a' twice");
  EXPECT_NO_THROW(parse_json(R"({"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]})", strict));
}

}  // namespace
}  // namespace causeway
