#include "causeway/formats/csv_record.h"

#include <random>

#include "tests/fixtures/data_test_support.h"

namespace causeway::formats {
namespace {

using Values = std::vector<std::string>;

Values values_of(const CsvRecord& record) {
  Values values;
  for (const CsvField& field : record.fields) append_csv_value(field, values.emplace_back());
  return values;
}

std::vector<Values> read(std::string_view text) {
  std::vector<Values> records;
  while (!text.empty()) {
    const std::optional<CsvRecord> record = parse_csv_record(text, true, "a.csv", 1);
    records.push_back(values_of(record.value()));
    text.remove_prefix(record->size);
  }
  return records;
}

TEST(CsvRecord, ReadsWhatTheRfcShows) {
  EXPECT_EQ(read("aaa,bbb,ccc\r\nzzz,yyy,xxx\r\n"),
            (std::vector<Values>{{"aaa", "bbb", "ccc"}, {"zzz", "yyy", "xxx"}}));
  EXPECT_EQ(read("aaa,bbb,ccc\r\nzzz,yyy,xxx"), (std::vector<Values>{{"aaa", "bbb", "ccc"}, {"zzz", "yyy", "xxx"}}));
  EXPECT_EQ(read("\"aaa\",\"b \r\nbb\",\"ccc\"\r\nzzz,yyy,xxx"),
            (std::vector<Values>{{"aaa", "b \r\nbb", "ccc"}, {"zzz", "yyy", "xxx"}}));
  EXPECT_EQ(read("\"aaa\",\"b\"\"bb\",\"ccc\""), (std::vector<Values>{{"aaa", "b\"bb", "ccc"}}));
}

TEST(CsvRecord, ReadsEmptyFieldsAndSpaces) {
  EXPECT_EQ(read(",\n"), (std::vector<Values>{{"", ""}}));
  EXPECT_EQ(read("a,"), (std::vector<Values>{{"a", ""}}));
  EXPECT_EQ(read("\"\",\"\"\"\"\n"), (std::vector<Values>{{"", "\""}}));
  EXPECT_EQ(read("\"\"\"a\"\"\""), (std::vector<Values>{{"\"a\""}}));
  EXPECT_EQ(read(" a , b\n"), (std::vector<Values>{{" a ", " b"}}));
  EXPECT_EQ(read("\n\na"), (std::vector<Values>{{""}, {""}, {"a"}}));
  EXPECT_TRUE(parse_csv_record("\r\n", true, "", 1)->is_blank());
  EXPECT_FALSE(parse_csv_record("\"\"\n", true, "", 1)->is_blank());
  EXPECT_FALSE(parse_csv_record(",\n", true, "", 1)->is_blank());
}

TEST(CsvRecord, WaitsForTheRestOfARecord) {
  const std::string text = "a,\"b\"\"\r\n,c\",\r\nnext";
  for (size_t size = 1; size < text.size(); ++size) {
    const std::optional<CsvRecord> record = parse_csv_record(text.substr(0, size), false, "", 1);
    ASSERT_EQ(record.has_value(), size >= 14) << size;
    if (record) EXPECT_EQ(record->size, 14u);
  }
  EXPECT_EQ(values_of(*parse_csv_record(text, false, "", 1)), (Values{"a", "b\"\r\n,c", ""}));
}

TEST(CsvRecord, NamesLineAndColumnOfWhatIsWrong) {
  const auto error_of = [](std::string_view text) {
    const Error error = caught([&] { parse_csv_record(text, true, "a.csv", 7); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_FALSE(error.hint().empty());
    return error.where() + ": " + error.message();
  };
  EXPECT_EQ(error_of("a,5\" pipe\n"),
            "a.csv, line 7, column 4: there is a double quote in a field that does not begin with one");
  EXPECT_EQ(error_of("a,\"x\ny\"z\n"), "a.csv, line 8, column 2: a quoted field goes on after the quote that ends it");
  EXPECT_EQ(error_of("\"a\nb\",\"c\nd,e\n"), "a.csv, line 8, column 4: the quoted field that begins here does not end");
  EXPECT_EQ(error_of("a,b\rc\n"), "a.csv, line 7, column 4: a carriage return ends no line here");
}

TEST(CsvRecord, ReadsBackWhatIsWritten) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::vector<Values> records(1 + random() % 3);
    std::string text;
    for (Values& values : records) {
      values.resize(2 + random() % 3);
      for (size_t field = 0; field < values.size(); ++field) {
        for (size_t size = random() % 6; size > 0; --size) values[field] += "ab,\"\r\n "[random() % 7];
        std::string quoted;
        for (const char c : values[field]) quoted += c == '"' ? "\"\"" : std::string(1, c);
        const bool needs_quotes = values[field].find_first_of(",\"\r\n") != std::string::npos;
        text += (field > 0 ? "," : "") + (needs_quotes || random() % 2 == 0 ? "\"" + quoted + "\"" : quoted);
      }
      text += random() % 2 == 0 ? "\n" : "\r\n";
    }
    ASSERT_EQ(read(text), records) << text;
  }
}

}  // namespace
}  // namespace causeway::formats
