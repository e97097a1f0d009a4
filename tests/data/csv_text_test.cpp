// CSV as text that a dataset is prepared from.
#include <random>

#include "causeway/data/prepare.h"
#include "causeway/data/text_source.h"
#include "causeway/data/token_dataset.h"
#include "causeway/formats/tokenizer/tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

// "LINE:TEXT" of each document.
std::vector<std::string> read(const std::filesystem::path& path, const TextReaderOptions& options = {}) {
  TextReader reader({path, TextFormat::kCsv}, options);
  std::vector<std::string> texts;
  while (const std::optional<TextBlock> block = reader.next()) {
    size_t begin = 0;
    for (const BlockDocument& document : block->documents) {
      texts.push_back(fmt::format("{}:{}", document.number, block->text.substr(begin, document.end - begin)));
      begin = document.end;
    }
    EXPECT_EQ(begin, block->text.size());
  }
  return texts;
}

TEST(CsvText, IsTheColumnOfTheTextOfEachRecord) {
  const TemporaryDirectory directory;
  const std::string csv =
      "\xEF\xBB\xBFid,\"text\",n\r\n1,one,\r\n\r\n2,\"two\nlines, and \"\"quotes\"\"\",x\r\n3,,\r\n4,last,";
  const std::vector<std::string> expected = {"2:one", "4:two\nlines, and \"quotes\"", "6:", "7:last"};
  for (const std::string& content : {csv, gzip(csv), zstd(csv)})
    EXPECT_EQ(read(directory.write("a.csv", content)), expected);
  TextReaderOptions options;
  options.column = "id";
  EXPECT_EQ(read(directory.write("a.csv", csv), options), (std::vector<std::string>{"2:1", "4:2", "6:3", "7:4"}));
  EXPECT_TRUE(read(directory.write("a.csv", "")).empty());
  EXPECT_TRUE(read(directory.write("a.csv", "text\n")).empty());
  EXPECT_EQ(read(directory.write("a.csv", "text\n\"\"\n\nx")), (std::vector<std::string>{"2:", "4:x"}));
}

TEST(CsvText, ComesInBlocksWithLineNumbers) {
  const TemporaryDirectory directory;
  std::mt19937_64 random(4);
  std::string csv = "text,id\n";
  std::vector<std::string> expected;
  for (int line = 2; line < 4000;) {
    std::string text(random() % (line == 50 ? 900'000 : 900), 'x');
    int lines = 1;
    for (char& c : text)
      if (random() % 300 == 0) c = ",\n\r"[random() % 3];
    lines += static_cast<int>(std::ranges::count(text, '\n'));
    expected.push_back(fmt::format("{}:{}", line, text));
    csv += fmt::format("\"{}\",{}{}", text, line, random() % 2 == 0 ? "\n" : "\r\n");
    line += lines;
  }
  EXPECT_EQ(read(directory.write("a.csv", csv)), expected);
  EXPECT_EQ(read(directory.write("a.csv", zstd(csv))), expected);
}

TEST(CsvText, NamesWhatIsWrong) {
  const TemporaryDirectory directory;
  const std::string path = (directory / "a.csv").string();
  TextReaderOptions options;
  options.most_bytes_at_once = 1 << 20;
  const auto error_of = [&](const std::string& csv) {
    directory.write("a.csv", csv);
    const Error error = caught([&] { read(path, options); });
    EXPECT_TRUE(error.where().starts_with(path)) << error.where();
    return error.where().substr(path.size()) + ": " + error.message() + " | " + error.hint();
  };
  EXPECT_EQ(error_of("id,txet\n"), ", line 1: the header has no column \"text\" | Did you mean --text-key txet?");
  EXPECT_EQ(error_of("\nid,body\n"),
            ", line 2: the header has no column \"text\" | It has: \"id\", \"body\". Say with --text-key COLUMN which "
            "of them holds the text.");
  EXPECT_EQ(
      error_of("id;title;lines\n1;a;b\n"),
      ", line 1: the header has no column \"text\" | It has one column, \"id;title;lines\": fields are divided by "
      "commas, not by what divides them here.");
  EXPECT_EQ(error_of("text,text\n"), ", line 1: the header has 2 columns \"text\" | Give the columns different names.");
  EXPECT_EQ(error_of("id,text\n1,\"a\nb\"\n2,c,d\n"),
            ", line 4: the record has 3 fields, and the header 2 | Put fields with commas, quotes or line breaks in "
            "double quotes.");
  EXPECT_EQ(error_of("id,text\n1,5\" pipe\n"),
            ", line 2, column 4: there is a double quote in a field that does not begin with one | Put the whole field "
            "in double quotes, and write each quote within it twice.");
  EXPECT_TRUE(contains(error_of("text\n\"\xFF\"\n"), ", line 2 (byte 6): the text is not UTF-8"));
  EXPECT_TRUE(contains(error_of("text\n\"" + std::string(3 << 20, 'x') + "\"\n"),
                       ", line 2: the record is longer than 1048576 bytes, the most that is read"));
  EXPECT_TRUE(contains(error_of("text\n\"open" + std::string(100'000, 'x')),
                       ", line 2, column 1: the quoted field that begins here does not end"));
}

TEST(CsvText, RecordsOfOtherFieldsAreLeftOut) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.csv", "id,text\n1,one\n2,two,too many\n3\n4,four\n5,\"\xFF\"\n6,six\n")};
  options.output = directory / "out";
  const PrepareSummary summary = prepare_dataset(options, ByteTokenizer());
  EXPECT_EQ(summary.manifest.splits.at("train").documents, 3u);
  const std::string path = (directory / "a.csv").string();
  EXPECT_EQ(summary.skipped_named,
            (std::vector<std::string>{path + ", line 3: the record has 3 fields, and the header 2",
                                      path + ", line 4: the record has 1 fields, and the header 2",
                                      path + ", line 6: the record is not UTF-8, or holds a zero byte"}));
  options.overwrite = true;
  options.strict = true;
  options.inputs = {directory.write("a.csv", "id,text\n1,one\n2,two,too many\n")};
  EXPECT_EQ(caught([&] { prepare_dataset(options, ByteTokenizer()); }).where(), path + ", line 3");
}

TEST(CsvText, IsPreparedAsItsDocuments) {
  const TemporaryDirectory directory;
  directory.write("in/a.csv", "text,id\n\"one,\n\",1\n,2\ntwo,3\n");
  directory.write("in/b.csv.zst", zstd("id,text\n1,three\n"));
  directory.write("in/c.jsonl", "{\"text\": \"four\"}\n");
  PrepareOptions options;
  options.inputs = {directory / "in"};
  options.output = directory / "out";
  for (const int threads : {1, 3}) {
    options.threads = threads;
    options.overwrite = true;
    const PrepareSummary summary = prepare_dataset(options, ByteTokenizer());
    EXPECT_EQ(summary.empty_documents, 1u);
    EXPECT_EQ(summary.null_documents, 0u);
    EXPECT_EQ(summary.manifest.splits.at("train").documents, 4u);
    const TokenDataset dataset = TokenDataset::open(directory / "out");
    std::vector<int32_t> ids(dataset.token_count());
    dataset.read(0, ids);
    EXPECT_EQ(ByteTokenizer().decode(ids), "one,\ntwothreefour");
  }
  options.strict = true;
  const Error empty = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_EQ(empty.message(), "the text under \"text\" is empty");
  EXPECT_EQ(empty.where(), (directory / "in/a.csv").string() + ", line 4");
  options.strict = false;
  // What is held out is held out by its text, whatever format it is in.
  options.inputs = {directory / "in/a.csv"};
  options.validation_inputs = {directory.write("held.jsonl", "{\"text\": \"two\"}\n")};
  const Error shared = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_EQ(shared.where(), (directory / "in/a.csv").string() + ", line 5");
  // Named as something else.
  options.validation_inputs = {};
  options.inputs = {directory.write("table", "text\nfive\n")};
  options.format = TextFormat::kCsv;
  EXPECT_EQ(prepare_dataset(options, ByteTokenizer()).text_bytes, 4u);
}

}  // namespace
}  // namespace causeway::data
