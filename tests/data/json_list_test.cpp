#include "causeway/data/json_list.h"

#include "causeway/data/prepare.h"
#include "causeway/data/text_source.h"
#include "causeway/data/token_dataset.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

// The samples of a text that comes in pieces of so many bytes, each with its place.
std::vector<std::string> samples_of(std::string_view text, size_t piece, size_t most = 1 << 20) {
  JsonListCutter cutter("x.json", most);
  std::string buffer;
  const auto more = [&] {
    const size_t count = std::min(piece, text.size());
    buffer += text.substr(0, count);
    text.remove_prefix(count);
    return count > 0;
  };
  std::vector<std::string> samples;
  while (true) {
    std::string block;
    std::vector<ListedSample> found;
    cutter.cut(buffer, more, 8, block, found);
    if (found.empty()) return samples;
    for (const ListedSample& one : found)
      samples.push_back(
          fmt::format("{}:{}:{} {}", one.number, one.line, one.column, block.substr(one.begin, one.end - one.begin)));
  }
}

TEST(JsonList, IsCutIntoItsElements) {
  const std::string text = " [ {\"a\": \"] , \\\" {\"},\n  {\"b\": [1, {\"c\": \"}\"}]}\n, 3 ,\"x\",[]\n]\n";
  const std::vector<std::string> want = {"1:1:4 {\"a\": \"] , \\\" {\"}", "2:2:3 {\"b\": [1, {\"c\": \"}\"}]}",
                                         "3:3:3 3", "4:3:6 \"x\"", "5:3:10 []"};
  for (const size_t piece : {1, 2, 7, 1000}) EXPECT_EQ(samples_of(text, piece), want) << piece;
  EXPECT_TRUE(samples_of("[ ]", 1).empty());
  EXPECT_EQ(samples_of(std::string(100, ' ') + "[" + std::string(100, '\n') + "1" + std::string(100, ' ') + "]", 9),
            (std::vector<std::string>{"1:101:1 1"}));
}

TEST(JsonList, WhatIsNoneIsNamed) {
  struct Case {
    const char* text;
    const char* where;
    const char* message;
  };
  for (const Case& one :
       {Case{"{\"a\": 1}", "x.json, line 1, column 1", "the text is no list"},
        Case{"", "x.json, line 1, column 1", "the text is no list"},
        Case{"[{},\n{}", "x.json, line 2, column 3", "the list is not closed"},
        Case{"[{}\n {}]", "x.json, line 2, column 2", "sample 1 is followed by neither a comma nor a bracket"},
        Case{"[{},]", "x.json, line 1, column 5", "a sample is missing"},
        Case{"[,{}]", "x.json, line 1, column 2", "a sample is missing"},
        Case{"[}]", "x.json, line 1, column 2", "a sample is missing"},
        Case{"[{}]\n\n{}", "x.json, line 3, column 1", "something stands behind the list"},
        Case{"[{}, {\"a\": \"", "x.json, line 1, column 6", "the text ends within sample 2"}}) {
    for (const size_t piece : {1, 100}) {
      const Error error = caught([&] { samples_of(one.text, piece); });
      EXPECT_EQ(error.message(), one.message) << one.text;
      EXPECT_EQ(error.where(), one.where) << one.text;
    }
  }
  const Error error = caught([] { samples_of("[1, \"" + std::string(1000, 'x') + "\"]", 10, 100); });
  EXPECT_EQ(error.message(), "the sample is longer than 100 bytes, the most that is read");
  EXPECT_EQ(error.where(), "x.json, sample 2, line 1");
}

// Text and conversations alike, compressed or not, with the places of what is wrong.
TEST(JsonList, IsPreparedAsLinesAre) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.output = directory / "out";
  options.overwrite = true;
  const auto text_of = [&](const std::filesystem::path& input) {
    options.inputs = {input};
    prepare_dataset(options, ByteTokenizer());
    const TokenDataset dataset = TokenDataset::open(directory / "out");
    std::vector<int32_t> ids(dataset.token_count());
    dataset.read(0, ids);
    return ByteTokenizer().decode(ids);
  };
  const std::string list = "[\n  {\n    \"text\": \"one\"\n  },\n  {\"text\": \" two\"}\n]\n";
  EXPECT_EQ(text_of(directory.write("a.json", list)), "one two");
  EXPECT_EQ(text_of(directory.write("b.json.gz", gzip(list))), "one two");
  EXPECT_EQ(text_of(directory.write("c.json", "\xEF\xBB\xBF" + list)), "one two");
  options.format = TextFormat::kJsonList;
  EXPECT_EQ(text_of(directory.write("d.data", list)), "one two");
  options.format.reset();
  // Of a directory, lists of objects are taken, and others are not.
  directory.write("in/samples.json", list);
  directory.write("in/names.json", "[\"a\", \"b\"]");
  EXPECT_EQ(text_of(directory / "in"), "one two");
  options.strict = true;
  const auto error_of = [&](const std::string& content) {
    return caught([&] { text_of(directory.write("e.json", content)); });
  };
  const Error no_object = error_of("[{\"text\": \"a\"},\n \"b\"]");
  EXPECT_EQ(no_object.message(), "the sample is a JSON string, not an object");
  EXPECT_EQ(no_object.where(), (directory / "e.json").string() + ", sample 2, line 2");
  const Error broken = error_of("[{\"text\": \"a\"},\n  {\"text\":\n  \"b\" \"c\"}]");
  EXPECT_TRUE(contains(broken.message(), "the sample is not valid JSON")) << broken.message();
  EXPECT_TRUE(contains(broken.message(), ", at line 3, column ")) << broken.message();
  // Otherwise what is no document is counted, and the others are read.
  options.strict = false;
  options.inputs = {directory.write("f.json", "[{\"text\": \"a\"}, {\"text\" 1}, {\"text\": \"b\"}]")};
  EXPECT_EQ(prepare_dataset(options, ByteTokenizer()).skipped_lines, 1u);
  // Chats have their place, too.
  options.chat.emplace();
  options.inputs = {directory.write("g.json", "[\n{\"prompt\": \"a\", \"completion\": \"b\"},\n{\"x\": 1}]")};
  const Error chat = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_EQ(chat.where(), (directory / "g.json").string() + ", sample 2, line 3");
  EXPECT_TRUE(contains(chat.message(), "its fields are \"x\"")) << chat.message();
}

}  // namespace
}  // namespace causeway::data
