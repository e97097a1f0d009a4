#include <sys/stat.h>

#include <random>

#include "causeway/base/error.h"
#include "program_under_test.h"

namespace causeway::cli {
namespace {

class DataCommandTest : public CliTest {
 protected:
  // Runs the program with this file as its standard input.
  Outcome run_on(const std::string& name, const std::vector<std::string>& arguments) {
    const int before = ::dup(STDIN_FILENO);
    const int file = ::open(path(name).c_str(), O_RDONLY);
    EXPECT_GE(file, 0);
    ::dup2(file, STDIN_FILENO);
    Outcome outcome = run(arguments);
    ::dup2(before, STDIN_FILENO);
    ::close(before);
    ::close(file);
    return outcome;
  }

  uint64_t tokens_of(const std::string& dataset) {
    return run_json({"data", "inspect", dataset, "--json"})["splits"]["train"]["tokens"];
  }

  bool is_there(const std::string& name) const { return std::filesystem::exists(path(name)); }
};

TEST_F(DataCommandTest, ReadsStandardInput) {
  write("book", "Once upon a time");
  const Outcome text = run_on("book", {"data", "prepare", "-", "-o", "text"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("16 tokens in 1 documents"), std::string::npos) << text.out;
  write("lines", "{\"text\":\"Once\"}\n{\"text\":null}\n{\"text\":\"upon\"}\n");
  const Outcome lines = run_on("lines", {"data", "prepare", "-", "-o", "lines.data"});
  EXPECT_NE(lines.out.find("8 tokens in 2 documents"), std::string::npos) << lines.out << lines.err;
  EXPECT_NE(lines.out.find("left out    1 documents without text, 1 of them null"), std::string::npos) << lines.out;
  EXPECT_NE(run_on("lines", {"data", "prepare", "-", "-o", "as_text", "--format", "text"}).out.find(" in 1 documents"),
            std::string::npos);
  write("odd", "{\"text\":\"Once\",\"score\":NaN}\nnothing\n{\"text\":\"\\ud800\"}\n");
  const Outcome odd = run_on("odd", {"data", "prepare", "-", "-o", "odd.data"});
  EXPECT_NE(odd.out.find("7 tokens in 2 documents"), std::string::npos) << odd.out << odd.err;
  EXPECT_NE(
      odd.out.find("skipped     1 line that is no document:\n            standard input, line 2: the line is not "),
      std::string::npos)
      << odd.out;
  EXPECT_NE(odd.out.find("replaced    escaped halves of surrogate pairs in 1 documents by U+FFFD\n"), std::string::npos)
      << odd.out;
  EXPECT_EQ(run_on("odd", {"data", "prepare", "-", "-o", "odd.strict", "--strict"}).status, 1);
  write("table", "id,body\n1,\"Once\nmore\"\n2,\n3,upon\n");
  const Outcome table =
      run_on("table", {"data", "prepare", "-", "-o", "table.data", "--format", "csv", "--text-key", "body"});
  EXPECT_NE(table.out.find("13 tokens in 2 documents"), std::string::npos) << table.out << table.err;
  expect_failure({"data", "prepare", "table", "-o", "no", "--format", "csv"}, 1,
                 {"table, line 1: the header has no column \"text\"", "It has: \"id\", \"body\"."});
  const Outcome fraction = run_on("book", {"data", "prepare", "-", "-o", "f", "--validation-fraction", "0.1"});
  EXPECT_EQ(fraction.status, 1);
  EXPECT_NE(fraction.err.find("standard input: whether the input is one text or many documents cannot be told"),
            std::string::npos)
      << fraction.err;
}

TEST_F(DataCommandTest, SaysWhatOfADirectoryItDidNotRead) {
  std::filesystem::create_directories(path("texts"));
  write("texts/a.txt", "some text");
  write("texts/b.md", "more");
  write("texts/c.tsv", "x,y");
  write("texts/d.tsv", "x,y");
  const Outcome outcome = run({"data", "prepare", "texts", "-o", "data"});
  EXPECT_NE(outcome.out.find("not read    1 .md, 2 .tsv"), std::string::npos) << outcome.out << outcome.err;
}

TEST_F(DataCommandTest, AnotherPreparationOfTheSameOutputIsRefusedAndASignalChangesNothing) {
  prepare_data();
  const uint64_t tokens = tokens_of("data");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const int writer = ::open(path("fifo").c_str(), O_RDWR);  // held open: the reader waits for more
  ASSERT_GE(writer, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t first = start({"data", "prepare", "fifo", "-o", "data", "--overwrite"});
    for (int i = 0; i < 2000 && !is_there(".data.preparing/new"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(is_there(".data.preparing/new"));
    expect_failure(
        {"data", "prepare", "text.txt", "-o", "data", "--overwrite"}, 1,
        {fmt::format("another process is writing this directory: process {} on ", first), "Wait for it to end"});
    ASSERT_EQ(::kill(first, signal), 0);
    const Outcome outcome = wait_for(first);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("the preparation was interrupted"), std::string::npos) << outcome.err;
    EXPECT_FALSE(is_there(".data.preparing"));
    EXPECT_EQ(tokens_of("data"), tokens);
  }
  ::close(writer);
}

TEST_F(DataCommandTest, KilledAtAnyMomentTheDatasetIsTheOldOrTheNew) {
  write("old.txt", sample_text(1'000));
  write("new.txt", sample_text(3'000'000));
  const std::vector<std::string> command = {"data", "prepare", "new.txt", "-o", "data", "--overwrite"};
  std::mt19937_64 generator(13);
  int left_behind = 0;
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(run({"data", "prepare", "old.txt", "-o", "data", "--overwrite"}).status, 0);
    EXPECT_FALSE(is_there(".data.preparing")) << "what the killed one left is cleaned up";
    const pid_t child = start(command);
    std::this_thread::sleep_for(std::chrono::milliseconds(generator() % 150));
    ::kill(child, SIGKILL);
    wait_for(child);
    left_behind += is_there(".data.preparing");
    const uint64_t tokens = tokens_of("data");  // which checks every byte
    EXPECT_TRUE(tokens == 1'000 || tokens == 3'000'000) << tokens;
  }
  EXPECT_GT(left_behind, 0) << "none was killed at its work";
}

TEST_F(DataCommandTest, InspectShowsTokensAsText) {
  prepare_data();
  const nlohmann::json splits = run_json({"data", "inspect", "data", "--samples", "3", "--json"})["splits"];
  const std::string text = sample_text(20'000);
  ASSERT_EQ(splits["train"]["samples"].size(), 3u);
  ASSERT_EQ(splits["validation"]["samples"].size(), 3u);
  for (const nlohmann::json& sample : splits["train"]["samples"])
    EXPECT_EQ(sample["text"], text.substr(sample["position"].get<size_t>(), 64));
  EXPECT_EQ(splits["train"]["samples"][2]["position"], splits["train"]["tokens"].get<int>() * 2 / 3);
  const Outcome shown = run({"data", "inspect", "data", "--samples", "1"});
  EXPECT_NE(shown.out.find("--- 64 tokens from token 0 on ---\n" + text.substr(0, 64)), std::string::npos) << shown.out;
  EXPECT_EQ(run({"data", "inspect", "data"}).out.find("---"), std::string::npos);

  write("words.bin", std::string("\x48\0\x69\0\xFF\xFF", 6));
  expect_failure({"data", "inspect", "words.bin", "--token-bytes", "2", "--samples", "1"}, 1,
                 {"the token files do not say which tokenizer made them"});
  expect_failure({"data", "inspect", "words.bin", "--token-bytes", "2", "--samples", "1", "--tokenizer", "bytes"}, 1,
                 {"token id 65535 is beyond"});
  write("words.bin", std::string("\x48\0\x69\0", 4));
  const Outcome bytes =
      run({"data", "inspect", "words.bin", "--token-bytes", "2", "--samples", "1", "--tokenizer", "bytes"});
  EXPECT_NE(bytes.out.find("\nHi\n"), std::string::npos) << bytes.out << bytes.err;
}

TEST_F(DataCommandTest, InspectSaysHowMuchOfPackedSamplesIsPadding) {
  // Of 10, 21 and 6 bytes.
  write("lines.jsonl", R"({"text": "0123456789"}
{"text": "012345678901234567890"}
{"text": "abcdef"}
)");
  ASSERT_EQ(run({"data", "prepare", "lines.jsonl", "-o", "lines"}).status, 0);
  const Outcome shown = run({"data", "inspect", "lines", "--sequence-length", "16"});
  EXPECT_NE(shown.out.find("packed      3 documents in 3 samples of 16 tokens: 29.17 % padding, 1 documents cut"),
            std::string::npos)
      << shown.out;
  const nlohmann::json packing =
      run_json({"data", "inspect", "lines", "--sequence-length", "15", "--json"})["splits"]["train"]["packing"];
  EXPECT_EQ(packing["samples"], 3);
  EXPECT_DOUBLE_EQ(packing["padding"].get<double>(), 1 - 34.0 / 45);
  write("words.bin", std::string("\x48\0\x69\0", 4));
  expect_failure({"data", "inspect", "words.bin", "--token-bytes", "1", "--sequence-length", "2"}, 1,
                 {"words.bin: the token file does not tell where documents begin, which packing them needs"});
}

TEST_F(DataCommandTest, TokenFilesSayOrAreAskedHowWideTheirIdsAre) {
  std::string ids;
  for (int i = 0; i < 4000; ++i) ids += {static_cast<char>('a' + i % 26), 0, 0, 0};
  write("corpus.bin", ids);
  expect_failure({"train", "tiny.yaml", "data.path=corpus.bin", "--quiet"}, 1,
                 {"corpus.bin: the token ids are 32 bits wide by all appearance", "Set data.token_bytes to 4"});
  const nlohmann::json inspected = run_json({"data", "inspect", "corpus.bin", "--token-bytes", "4", "--json"});
  EXPECT_EQ(inspected["splits"][""]["tokens"], 4000);
  const Outcome outcome =
      run({"train", "tiny.yaml", "data.path=corpus.bin", "data.token_bytes=4", "train.steps=2", "--quiet"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

}  // namespace
}  // namespace causeway::cli
