#include "causeway/data/prepare.h"

#include <random>

#include "causeway/data/gpt2_tokenizer.h"
#include "causeway/data/inspect.h"
#include "causeway/data/text_source.h"
#include "causeway/data/token_dataset.h"
#include "data_test_support.h"

namespace causeway {
namespace {

const Gpt2Tokenizer& gpt2() {
  static const Gpt2Tokenizer tokenizer = Gpt2Tokenizer::load(gpt2_directory());
  return tokenizer;
}

std::vector<int32_t> all_tokens(const TokenDataset& dataset) {
  std::vector<int32_t> ids(dataset.token_count());
  dataset.read(0, ids);
  return ids;
}

std::string some_text(size_t bytes) {
  std::mt19937_64 generator(7);
  const std::vector<std::string> words = {"the", "river",  "Causeway's", "1984", "naïve",
                                          "--",  "walked", "\n\n",       "你好"};
  std::string text;
  while (text.size() < bytes) text += words[generator() % words.size()] + (generator() % 9 == 0 ? "\n" : " ");
  return text;
}

TEST(Prepare, OneTextBecomesOneDocument) {
  const TemporaryDirectory directory;
  const std::string text = some_text(1'500'000);
  PrepareOptions options;
  options.inputs = {directory.write("in.txt", text)};
  options.output = directory / "out";
  uint64_t bytes_done = 0;
  options.progress = [&](const PrepareProgress& progress) {
    EXPECT_EQ(progress.bytes_total, text.size());
    bytes_done = progress.bytes_done;
  };
  const PrepareSummary summary = prepare_dataset(options, gpt2());
  EXPECT_EQ(bytes_done, text.size());
  EXPECT_EQ(summary.text_bytes, text.size());
  const TokenDataset dataset = TokenDataset::open(directory / "out");
  std::vector<int32_t> expected = gpt2().encode(text);
  expected.push_back(50256);
  EXPECT_EQ(all_tokens(dataset), expected);
  EXPECT_EQ(dataset.tokenizer_identity()->fingerprint, gpt2().fingerprint());
  EXPECT_EQ(dataset.load_tokenizer()->encode("a b"), gpt2().encode("a b"));
  const Error error = caught([&] { TokenDataset::open(directory / "out", "validation"); });
  EXPECT_EQ(error.message(), "the dataset has no split \"validation\"");
  EXPECT_TRUE(contains(error.hint(), "It has: train."));
}

TEST(Prepare, TheResultDependsOnNeitherThreadsNorTime) {
  const TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += fmt::format("{{\"text\": \"document {} with some words, {}\"}}\n", i, i * i);
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl", lines), directory.write("b.txt", some_text(700'000))};
  options.validation_fraction = 0.1;
  options.tokens_per_shard = 50'000;
  for (const int threads : {1, 3}) {
    options.threads = threads;
    options.output = directory / fmt::format("out{}", threads);
    prepare_dataset(options, gpt2());
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "out1")) {
    if (entry.is_directory()) continue;
    EXPECT_EQ(read_text_file(entry.path()), read_text_file(directory / "out3" / entry.path().filename()));
    ++files;
  }
  EXPECT_GT(files, 4);
}

TEST(Prepare, DocumentsSpanShardsAndKeepTheirBoundaries) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {
      directory.write("a.jsonl", "{\"text\":\"abcde\"}\n\n{\"text\":\"\"}\n{\"text\":\"fg\"}\r\n{\"text\":\"h\"}")};
  options.output = directory / "out";
  options.tokens_per_shard = 3;
  const PrepareSummary summary = prepare_dataset(options, ByteTokenizer());
  EXPECT_EQ(summary.empty_documents, 1u);
  EXPECT_EQ(summary.manifest.splits.at("train").documents, 3u);
  EXPECT_EQ(summary.manifest.splits.at("train").shards.size(), 3u);
  const TokenDataset dataset = TokenDataset::open(directory / "out");
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(dataset)), "abcdefgh");
  std::vector<int32_t> documents(8);
  dataset.read_document_numbers(0, documents);
  EXPECT_EQ(documents, (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 2}));
  EXPECT_EQ(dataset.shards()[0].metadata()->sources[0].path, (directory / "a.jsonl").string());
  EXPECT_EQ(dataset.load_tokenizer()->name(), "bytes");
}

TEST(Prepare, EndOfTextEndsEveryDocumentUnlessUnwanted) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl", "{\"body\":\"Hello\"}\n{\"body\":\"world\"}\n")};
  options.text_key = "body";
  options.output = directory / "out";
  prepare_dataset(options, gpt2());
  EXPECT_EQ(all_tokens(TokenDataset::open(directory / "out")), (std::vector<int32_t>{15496, 50256, 6894, 50256}));
  options.append_end_of_text = false;
  options.overwrite = true;
  prepare_dataset(options, gpt2());
  EXPECT_EQ(all_tokens(TokenDataset::open(directory / "out")), (std::vector<int32_t>{15496, 6894}));
}

TEST(Prepare, ValidationIsTheEndOfOneText) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("line {:03}\n", i);
  PrepareOptions options;
  options.inputs = {directory.write("a.txt", text)};
  options.output = directory / "out";
  options.validation_fraction = 0.2;
  prepare_dataset(options, ByteTokenizer());
  const std::string train = ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out")));
  const std::string validation =
      ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out", "validation")));
  EXPECT_EQ(train + validation, text);
  EXPECT_TRUE(validation.starts_with("line 081\n"));
}

TEST(Prepare, ValidationIsEveryNthDocument) {
  const TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += fmt::format("{{\"text\":\"{}\"}}\n", i);
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl", lines)};
  options.output = directory / "out";
  options.validation_fraction = 0.2;
  prepare_dataset(options, ByteTokenizer());
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out"))), "01235678");
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out", "validation"))), "49");
}

TEST(Prepare, ReadsDirectoriesAndValidationInputs) {
  const TemporaryDirectory directory;
  directory.write("in/b.txt", "bb");
  directory.write("in/a/z.txt", "aa");
  directory.write("in/c.jsonl", "{\"text\":\"cc\"}");
  directory.write("in/d.md", "dd");
  directory.write("in/e.txt", "");
  PrepareOptions options;
  options.inputs = {directory / "in"};
  options.validation_inputs = {directory.write("v.md", "vv")};
  options.output = directory / "out";
  EXPECT_EQ(prepare_dataset(options, ByteTokenizer()).empty_documents, 1u);
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out"))), "aabbcc");
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out", "validation"))), "vv");
}

TEST(Prepare, OverwritingLeavesNothingOfTheOldDataset) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.txt", "abcdefgh")};
  options.output = directory / "out";
  options.tokens_per_shard = 2;
  prepare_dataset(options, ByteTokenizer());
  const Error error = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_EQ(error.message(), "the output directory already holds a dataset");
  options.overwrite = true;
  options.tokens_per_shard = 100;
  prepare_dataset(options, ByteTokenizer());
  EXPECT_FALSE(std::filesystem::exists(directory / "out" / "train-00001.tokens"));
  options.inputs = {directory.write("bad.jsonl", "{\"text\":\"ok\"}\n{")};
  caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_FALSE(std::filesystem::exists(directory / "out" / "dataset.json")) << "a failed run leaves no dataset behind";
}

TEST(Prepare, NamesBadInput) {
  const TemporaryDirectory directory;
  const auto error_of = [&](std::string_view name, std::string_view content) {
    PrepareOptions options;
    options.inputs = {directory.write(name, content)};
    options.output = directory / "out";
    return caught([&] { prepare_dataset(options, ByteTokenizer()); });
  };
  const Error empty = error_of("empty.txt", "");
  EXPECT_EQ(empty.message(), "the text is empty: the file has no bytes");
  EXPECT_EQ(empty.where(), (directory / "empty.txt").string());
  EXPECT_EQ(empty.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of("a.parquet", "PAR1").message(), "a .parquet file is not an input that can be tokenized");
  EXPECT_EQ(error_of("a.jsonl", "{\"text\":\"\"}\n").message(), "the inputs hold no text (1 empty documents)");
  const Error key = error_of("a.jsonl", "{\"text\":\"x\"}\n\n{\"test\":\"x\"}\n");
  EXPECT_EQ(key.message(), "the object has no text under \"text\"");
  EXPECT_EQ(key.where(), (directory / "a.jsonl").string() + ", line 3");
  EXPECT_EQ(key.hint(), "Did you mean the key \"test\"?");
  EXPECT_EQ(error_of("a.jsonl", "{\"content\":\"x\"}").hint(),
            "It has: \"content\". Name the key that holds the text.");
  EXPECT_EQ(error_of("a.jsonl", "{\"text\":7}").message(), "\"text\" is a JSON number, not a string");
  EXPECT_EQ(error_of("a.jsonl", "[1]").message(), "the line is a JSON array, not an object");
  EXPECT_TRUE(contains(error_of("a.jsonl", "{\"text\":\"\xFF\"}").message(), "the line is not valid JSON"));

  PrepareOptions options;
  options.output = directory / "out";
  options.inputs = {directory / "emty.txt"};
  const Error missing = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_EQ(missing.message(), "the text does not exist");
  EXPECT_EQ(missing.hint(), fmt::format("Did you mean \"{}\"?", (directory / "empty.txt").string()));
  options.inputs = {directory.write("a.txt", "abc")};
  options.output = directory / "a.txt" / "out";
  EXPECT_EQ(caught([&] { prepare_dataset(options, ByteTokenizer()); }).kind(), ErrorKind::kIo);
  options.output = directory / "out";
  std::filesystem::create_directories(directory / "nothing");
  options.inputs = {directory / "nothing"};
  EXPECT_EQ(caught([&] { prepare_dataset(options, ByteTokenizer()); }).message(),
            "the directory holds no .txt or .jsonl file");
}

TEST(Prepare, NamesBadOptions) {
  const TemporaryDirectory directory;
  PrepareOptions good;
  good.inputs = {directory.write("in/a.txt", "abc\ndef\n")};
  good.output = directory / "out";
  const auto message = [&](auto&& change) {
    PrepareOptions options = good;
    change(options);
    return caught([&] { prepare_dataset(options, ByteTokenizer()); }).message();
  };
  EXPECT_EQ(message([](PrepareOptions& o) { o.inputs.clear(); }), "no input is given");
  EXPECT_EQ(message([](PrepareOptions& o) { o.output.clear(); }), "no output directory is given");
  EXPECT_EQ(message([](PrepareOptions& o) { o.validation_fraction = 1; }), "the validation fraction is 1");
  EXPECT_EQ(message([](PrepareOptions& o) { o.validation_fraction = std::nan(""); }), "the validation fraction is nan");
  EXPECT_EQ(message([](PrepareOptions& o) { o.tokens_per_shard = 0; }), "shards of 0 tokens are asked for");
  EXPECT_EQ(message([](PrepareOptions& o) {
              o.validation_fraction = 0.1;
              o.validation_inputs = o.inputs;
            }),
            "both a validation fraction and validation files are given");
  EXPECT_EQ(message([](PrepareOptions& o) { o.validation_fraction = 0.01; }),
            "the text is too short to give 0.01 of it to validation");
  EXPECT_EQ(message([&](PrepareOptions& o) {
              o.inputs = {directory / "in"};
              o.output = directory / "in/out";
            }),
            "the output directory is inside an input directory");
  directory.write("two.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
  EXPECT_EQ(message([&](PrepareOptions& o) {
              o.inputs = {directory / "two.jsonl"};
              o.validation_fraction = 0.1;
            }),
            "the split \"validation\" is empty: 2 documents at a validation fraction of 0.1");
}

TEST(Prepare, SurvivesRandomJsonLines) {
  const TemporaryDirectory directory;
  std::mt19937_64 generator(8);
  const std::string alphabet = "{}[]\",:\\u00d8text\n 019e.-\xFF";
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string line = i % 2 == 0 ? "{\"text\":\"" : "";
    for (size_t n = generator() % 30; n > 0; --n) line += alphabet[generator() % alphabet.size()];
    try {
      parse_json_line({line, 1}, "text", "x.jsonl");
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "x.jsonl, line 1");
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
  EXPECT_THROW(parse_json_line({std::string(1'000'000, '['), 1}, "text", "x.jsonl"), Error);
}

TEST(Inspect, ReportsAndChecksEveryShard) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl", "{\"text\":\"Hello\"}\n{\"text\":\"world\"}\n")};
  options.output = directory / "out";
  options.validation_fraction = 0.5;
  prepare_dataset(options, gpt2());
  int shards = 0;
  const DatasetInspection report = inspect_dataset(directory / "out", [&](const ShardInspection&) { ++shards; });
  EXPECT_EQ(shards, 2);
  ASSERT_EQ(report.splits.size(), 2u);
  EXPECT_EQ(report.splits[0].name, "train");
  EXPECT_EQ(report.splits[0].tokens, 2u);
  EXPECT_EQ(report.splits[0].documents, 1u);
  EXPECT_EQ(report.splits[0].shards[0].largest_token, 50256);
  EXPECT_TRUE(report.splits[0].shards[0].hash_checked);
  EXPECT_EQ(report.tokenizer->vocabulary_size, 50257);
  EXPECT_EQ(report.sources.size(), 1u);

  std::string shard = read_text_file(directory / "out" / "train-00000.tokens");
  shard[128] ^= 1;
  directory.write("out/train-00000.tokens", shard);
  const Error error = caught([&] { inspect_dataset(directory / "out"); });
  EXPECT_EQ(error.message(), "the shard's tokens are damaged: their hash is not the one in the header");
  EXPECT_EQ(error.where(), (directory / "out" / "train-00000.tokens").string());
}

TEST(Inspect, NamesATokenBeyondTheVocabulary) {
  const TemporaryDirectory directory;
  TokenShardBuilder builder(2, false);
  builder.start_document();
  builder.append(std::vector<int32_t>{1, 2, 300});
  builder.write(directory / "a.tokens", {{"small", "f", 300, std::nullopt}, {}});
  const Error error = caught([&] { inspect_dataset(directory / "a.tokens"); });
  EXPECT_EQ(error.message(), "token id 300 is beyond the tokenizer's vocabulary of 300");
  EXPECT_EQ(error.where(), (directory / "a.tokens").string() + ", token 2");
}

TEST(Inspect, TakesForeignFilesAndDirectories) {
  const TemporaryDirectory directory;
  const std::vector<uint16_t> tokens = {1, 50256, 2};
  directory.write("train.bin", as_text(std::span(tokens)));
  const DatasetInspection report = inspect_dataset(directory.path());
  ASSERT_EQ(report.splits.size(), 1u);
  EXPECT_EQ(report.splits[0].name, "train");
  EXPECT_EQ(report.splits[0].shards[0].format, ShardFormat::kNanoGpt);
  EXPECT_FALSE(report.splits[0].shards[0].hash_checked);
  EXPECT_EQ(inspect_dataset(directory / "train.bin").splits[0].tokens, 3u);
  EXPECT_EQ(caught([&] { inspect_dataset(directory / "absent"); }).kind(), ErrorKind::kNotFound);
}

TEST(TokenDataset, NoticesAShardThatIsNotTheManifestsOwn) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.txt", "one text")};
  options.output = directory / "out";
  prepare_dataset(options, ByteTokenizer());
  options.inputs = {directory.write("b.txt", "two text")};
  options.output = directory / "other";
  prepare_dataset(options, ByteTokenizer());
  directory.write("out/train-00000.tokens", read_text_file(directory / "other" / "train-00000.tokens"));
  EXPECT_TRUE(contains(caught([&] { TokenDataset::open(directory / "out"); }).message(),
                       "the shard is not the one that dataset.json describes"));
}

}  // namespace
}  // namespace causeway
