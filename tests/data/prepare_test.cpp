#include "causeway/data/prepare.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "causeway/data/inspect.h"
#include "causeway/data/skipped_lines.h"
#include "causeway/data/text_source.h"
#include "causeway/data/token_dataset.h"
#include "causeway/formats/tokenizer/byte_level_json.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
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

// Bytes, and <s> (256) put before a text and </s> (257) behind it.
JsonTokenizer with_begin_and_end() {
  nlohmann::json json = nlohmann::json::parse(byte_tokenizer_json());
  const auto token = [](int id, const char* content) {
    return nlohmann::json{{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
  };
  json["added_tokens"] = {token(256, "<s>"), token(257, "</s>")};
  json["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing", "pair": [], "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "</s>", "type_id": 0}}], "special_tokens": {
      "<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [257], "tokens": ["</s>"]}}})");
  return JsonTokenizer::parse(json.dump());
}

TEST(Prepare, DocumentsHaveAroundThemWhatTheTokenizerSays) {
  const TemporaryDirectory directory;
  const JsonTokenizer tokenizer = with_begin_and_end();
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"\"}\n{\"text\":\"<s>\"}\n")};
  options.output = directory / "out";
  options.overwrite = true;
  const auto prepared = [&] {
    prepare_dataset(options, tokenizer);
    return TokenDataset::open(directory / "out");
  };
  // The end of a text comes once; nothing is around a document without text.
  TokenDataset dataset = prepared();
  EXPECT_EQ(all_tokens(dataset), (std::vector<int32_t>{256, 'a', 'b', 257, 256, '<', 's', '>', 257}));
  EXPECT_EQ(dataset.documents(), (DocumentTokens{{256}, {257}, false}));
  EXPECT_EQ(dataset.shards()[0].metadata()->documents, dataset.documents());
  EXPECT_EQ(inspect_dataset(directory / "out").documents, dataset.documents());
  options.read_special_tokens = true;
  dataset = prepared();
  EXPECT_EQ(all_tokens(dataset), (std::vector<int32_t>{256, 'a', 'b', 257, 256, 256, 257}));
  EXPECT_TRUE(dataset.documents()->read_special_tokens);
  options.add_special_tokens = false;
  dataset = prepared();
  EXPECT_EQ(all_tokens(dataset), (std::vector<int32_t>{'a', 'b', 257, 256, 257}));
  EXPECT_EQ(dataset.documents(), (DocumentTokens{{}, {257}, true}));
  options.append_end_of_text = false;
  EXPECT_EQ(all_tokens(prepared()), (std::vector<int32_t>{'a', 'b', 256}));
}

TEST(Prepare, ALongTextIsBegunOnce) {
  const TemporaryDirectory directory;
  nlohmann::json json = nlohmann::json::parse(with_begin_and_end().files().at("tokenizer.json"));
  json["pre_tokenizer"]["use_regex"] = true;  // so that it may be cut
  const JsonTokenizer tokenizer = JsonTokenizer::parse(json.dump());
  const std::string text = some_text(3 * kTextBlockBytes);
  PrepareOptions options;
  options.inputs = {directory.write("in.txt", text)};
  options.output = directory / "out";
  options.threads = 2;
  prepare_dataset(options, tokenizer);
  EXPECT_EQ(all_tokens(TokenDataset::open(directory / "out")), tokenizer.encode(text, {.add_special_tokens = true}));
}

TEST(TokenDataset, ReadsWhatWasPreparedBeforeTokensAroundDocumentsWereRecorded) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.txt", "ab")};
  options.output = directory / "out";
  prepare_dataset(options, with_begin_and_end());
  nlohmann::json manifest = nlohmann::json::parse(read_text_file(directory / "out" / "dataset.json"));
  EXPECT_EQ(manifest["documents"]["before"], nlohmann::json::array({256}));
  manifest.erase("documents");
  write_file_atomically(directory / "out" / "dataset.json", manifest.dump());
  EXPECT_EQ(TokenDataset::open(directory / "out").documents(), std::nullopt);
  manifest["documents"] = {{"before", {300}}, {"after", {}}, {"read_special_tokens", false}};
  write_file_atomically(directory / "out" / "dataset.json", manifest.dump());
  EXPECT_NE(caught([&] { TokenDataset::open(directory / "out"); }).message().find("no token"), std::string::npos);
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

TEST(Prepare, ADocumentIsHeldOutByItsText) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.output = directory / "out";
  options.validation_fraction = 0.2;
  options.overwrite = true;
  options.append_end_of_text = false;
  const auto line = [](const std::string& text) { return fmt::format("{{\"text\":\"{}\"}}\n", text); };
  const auto split = [&](std::string_view name) {
    const TokenDataset dataset = TokenDataset::open(directory / "out", name);
    std::istringstream text(ByteTokenizer().decode(all_tokens(dataset)));
    std::multiset<std::string> documents;
    for (std::string document; std::getline(text, document, ';');) documents.insert(document);
    return documents;
  };
  std::vector<std::string> documents;
  std::string lines;
  for (int i = 0; i < 2000; ++i) {
    documents.push_back(fmt::format("document {};", i));
    lines += line(documents.back());
  }
  options.inputs = {directory.write("a.jsonl", lines)};
  prepare_dataset(options, ByteTokenizer());
  const std::multiset<std::string> train = split("train"), validation = split("validation");
  EXPECT_NEAR(static_cast<double>(validation.size()), 400, 60);
  EXPECT_EQ(train.size() + validation.size(), 2000u);
  // The choice is the text's for good: datasets that are prepared apart, now and later, have the same sides.
  std::string first;
  for (int i = 0; i < 40; ++i) first += validation.contains(fmt::format("document {}", i)) ? 'v' : '.';
  EXPECT_EQ(first, "....v.vvv....v......v....vv.v..v....v..v");

  // In another order, in other files, some of them twice, as plain text.
  std::shuffle(documents.begin(), documents.end(), std::mt19937_64(3));
  std::string half;
  for (size_t i = 0; i < 1000; ++i) half += line(documents[i]) + (i % 3 == 0 ? line(documents[i]) : "");
  options.inputs = {directory.write("b.jsonl", half)};
  for (size_t i = 1000; i < 1100; ++i)
    options.inputs.push_back(directory.write(fmt::format("{}.txt", i), documents[i]));
  prepare_dataset(options, ByteTokenizer());
  for (const std::string& document : split("train")) EXPECT_TRUE(train.contains(document)) << document;
  for (const std::string& document : split("validation")) EXPECT_TRUE(validation.contains(document)) << document;
  EXPECT_EQ(split("train").size() + split("validation").size(), 1100u + 334);

  // With a larger part held out, what was stays it.
  options.inputs = {directory / "a.jsonl"};
  options.validation_fraction = 0.3;
  prepare_dataset(options, ByteTokenizer());
  for (const std::string& document : validation) EXPECT_TRUE(split("validation").contains(document)) << document;
}

TEST(Prepare, ALongDocumentIsHeldOutByItsBeginning) {
  const TemporaryDirectory directory;
  const std::string text = some_text(3 * kTextBlockBytes);
  PrepareOptions options;
  options.validation_fraction = 0.5;
  // Documents by which neither side is empty.
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += fmt::format("{{\"text\":\"{}\"}}\n", i);
  const std::filesystem::path others = directory.write("others.jsonl", lines);
  std::set<uint64_t> larger;
  for (const std::string& bytes : {text, text.substr(0, kHashedForSplit), text.substr(0, 2 * kTextBlockBytes + 5)}) {
    for (const std::string& name : {std::string("long.txt"), std::string("long.jsonl")}) {
      options.inputs = {others,
                        directory.write(name, name == "long.txt" ? bytes : nlohmann::json{{"text", bytes}}.dump())};
      options.output = directory / fmt::format("{}-{}", name, bytes.size());
      const DatasetManifest manifest = prepare_dataset(options, gpt2()).manifest;
      larger.insert(manifest.splits.at("train").tokens > manifest.splits.at("validation").tokens ? 0 : 1);
    }
  }
  EXPECT_EQ(larger.size(), 1u) << "they begin alike";
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
  directory.write("in/f.ndjson.gz", gzip("{\"text\":\"ff\"}"));
  const PrepareSummary summary = prepare_dataset(options, ByteTokenizer());
  EXPECT_EQ(summary.empty_documents, 1u);
  EXPECT_EQ(summary.files_left_out, (std::map<std::string, uint64_t>{{".md", 1}}));
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out"))), "aabbccff");
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
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"a.txt", "out"})) << "nothing is left beside it";
}

TEST(Prepare, AFailedPreparationLeavesTheOldDataset) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.txt", "the old text")};
  options.output = directory / "out";
  prepare_dataset(options, ByteTokenizer());
  const auto require_old = [&] {
    EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out"))), "the old text");
    inspect_dataset(directory / "out");
    EXPECT_FALSE(std::filesystem::exists(directory / ".out.preparing"));
  };
  options.overwrite = true;
  options.tokens_per_shard = 300'000;
  // A bad line after many good ones, of which shards were written.
  options.strict = true;
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "{\"text\":\"new text\"}\n";
  options.inputs = {directory.write("bad.jsonl", lines + "{")};
  EXPECT_EQ(caught([&] { prepare_dataset(options, ByteTokenizer()); }).where(),
            (directory / "bad.jsonl").string() + ", line 100001");
  require_old();
  options.strict = false;
  // Somebody who does not want to wait.
  options.inputs = {directory.write("good.jsonl", lines)};
  options.progress = [](const PrepareProgress&) { throw Error(ErrorKind::kInterrupted, "stop"); };
  EXPECT_EQ(caught([&] { prepare_dataset(options, ByteTokenizer()); }).message(), "stop");
  require_old();
  options.progress = nullptr;
  // A disk that takes no more: files may not grow beyond some size.
  options.tokens_per_shard = 1'000'000;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100'000, before.rlim_max};
  const auto action = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Error full = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, action);
  EXPECT_TRUE(contains(full.message(), "cannot write")) << full.message();
  require_old();
  prepare_dataset(options, ByteTokenizer());
  EXPECT_EQ(TokenDataset::open(directory / "out").token_count(), 800'000u);
}

TEST(Prepare, NothingOfTheUsersIsReplaced) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.txt", "abc")};
  options.output = directory / "out";
  options.overwrite = true;
  directory.write("out/notes.md", "mine");
  const Error error = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_EQ(error.message(), "the output directory holds something that is no part of a dataset: notes.md");
  EXPECT_EQ(error.hint(), "Choose a directory of its own for the dataset.");
  EXPECT_EQ(read_text_file(directory / "out/notes.md"), "mine");
  std::filesystem::remove(directory / "out/notes.md");
  prepare_dataset(options, ByteTokenizer());
  // Shards without their description are somebody's, too.
  std::filesystem::remove(directory / "out/dataset.json");
  options.overwrite = false;
  EXPECT_EQ(caught([&] { prepare_dataset(options, ByteTokenizer()); }).message(),
            "the output directory already holds a dataset");
  directory.write("out/tokenizer/notes.md", "mine");
  options.overwrite = true;
  EXPECT_TRUE(contains(caught([&] { prepare_dataset(options, ByteTokenizer()); }).message(), "tokenizer/notes.md"));
  std::filesystem::remove(directory / "out/tokenizer/notes.md");
  // What an earlier version left when it was killed is nobody's.
  directory.write("out/train-00001.tokens.tmp-123-0", "half");
  // Through a link, the directory it points to is replaced.
  std::filesystem::create_directory_symlink(directory / "out", directory / "link");
  options.output = directory / "link";
  prepare_dataset(options, ByteTokenizer());
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "link"));
  EXPECT_EQ(TokenDataset::open(directory / "out").token_count(), 3u);
}

TEST(Prepare, CountsDocumentsWithoutTextUnlessStrict) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl", "{\"text\":\"a\"}\n{\"text\":null}\n{\"text\":\"\"}\n"),
                    directory.write("b.txt", ""), directory.write("c.txt", "c"), directory.write("d.jsonl", "\n \n")};
  options.output = directory / "out";
  const PrepareSummary summary = prepare_dataset(options, ByteTokenizer());
  EXPECT_EQ(summary.empty_documents, 4u);
  EXPECT_EQ(summary.null_documents, 1u);
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out"))), "ac");
  options.strict = true;
  options.overwrite = true;
  const auto error_of = [&](const std::filesystem::path& input) {
    options.inputs = {directory / "c.txt", input};
    return caught([&] { prepare_dataset(options, ByteTokenizer()); });
  };
  const Error null = error_of(directory / "a.jsonl");
  EXPECT_EQ(null.message(), "the text under \"text\" is null");
  EXPECT_EQ(null.where(), (directory / "a.jsonl").string() + ", line 2");
  EXPECT_EQ(error_of(directory.write("e.jsonl", "{\"text\":\"\"}")).message(), "the text under \"text\" is empty");
  const Error empty = error_of(directory / "b.txt");
  EXPECT_EQ(empty.message(), "the text is empty");
  EXPECT_EQ(empty.where(), (directory / "b.txt").string());
}

TEST(Prepare, LinesThatAreNoDocumentAreCountedAndNamed) {
  const TemporaryDirectory directory;
  const std::string odd =
      "{\"text\":\"one\",\"score\":NaN}\n"
      "{\"text\":\"two\",\"a\":[-Infinity,Infinity , NaN],\"b\":\"NaN \\\" NaN\"}\n"
      "{\"text\":\"\xFF\"}\n"
      "{\"txt\":\"x\"}\n"
      "{\"text\":7}\n"
      "{\"text\":NaN}\n"
      "not JSON\n"
      "{\"text\":\"three\"\n"
      "{\"text\":xNaN}\n"
      "[1]\n"
      "{\"text\":\"four\"}\n";
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl", odd), directory.write("b.jsonl", "{\"text\":\"five\"}\n{")};
  options.output = directory / "out";
  const std::string a = (directory / "a.jsonl").string();
  for (const int threads : {1, 3}) {
    options.threads = threads;
    const PrepareSummary summary = prepare_dataset(options, ByteTokenizer());
    EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out"))), "onetwofourfive");
    EXPECT_EQ(summary.skipped_lines, 9u);
    ASSERT_EQ(summary.skipped_named.size(), SkippedLines::kNamed);
    EXPECT_TRUE(summary.skipped_named[0].starts_with(a + ", line 3: the line is not valid JSON"))
        << summary.skipped_named[0];
    EXPECT_EQ(summary.skipped_named[1], a + ", line 4: the object has no text under \"text\"");
    EXPECT_EQ(summary.skipped_named[2], a + ", line 5: \"text\" is a JSON number, not a string");
    EXPECT_EQ(summary.skipped_named[3], a + ", line 6: \"text\" is a JSON number, not a string");
    EXPECT_TRUE(summary.skipped_named[4].starts_with(a + ", line 7: ")) << summary.skipped_named[4];
    options.overwrite = true;
  }
  options.strict = true;
  EXPECT_EQ(caught([&] { prepare_dataset(options, ByteTokenizer()); }).where(), a + ", line 3");
}

TEST(Prepare, HalvesOfSurrogatePairsAreReplaced) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl",
                                    "{\"text\":\"a\\ud800b\"}\n{\"text\":\"\\uDC00\\ud83d\\ude00\\ud83d\"}\n"
                                    "{\"text\":\"plain \\\\ud800\",\"title\":\"\\udfff\"}\n")};
  options.output = directory / "out";
  const PrepareSummary summary = prepare_dataset(options, ByteTokenizer());
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out"))),
            "a\uFFFDb\uFFFD\xF0\x9F\x98\x80\uFFFDplain \\ud800");
  EXPECT_EQ(summary.replaced_surrogates, 2u);
  EXPECT_EQ(summary.skipped_lines, 0u);
  options.strict = true;
  options.overwrite = true;
  const Error error = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_EQ(error.message(), "the text under \"text\" has an escaped half of a surrogate pair, which is no character");
  EXPECT_EQ(error.where(), (directory / "a.jsonl").string() + ", line 1");
}

TEST(Prepare, AFileOfWhichNoLineIsADocumentIsRefused) {
  const TemporaryDirectory directory;
  PrepareOptions options;
  options.output = directory / "out";
  const auto error_of = [&](const std::string& content) {
    options.inputs = {directory.write("good.jsonl", "{\"text\":\"x\"}\n"), directory.write("a.jsonl", content)};
    return caught([&] { prepare_dataset(options, ByteTokenizer()); });
  };
  const Error three = error_of("{\"body\":\"x\"}\n{\"body\":\"y\"}\n{\n");
  EXPECT_EQ(three.message(), "the object has no text under \"text\"; none of the first 3 here is a document");
  EXPECT_EQ(three.where(), (directory / "a.jsonl").string() + ", line 1");
  EXPECT_TRUE(contains(three.hint(), "--text-key")) << three.hint();
  // It is not read to its end for that.
  std::string lines;
  for (int i = 0; i < 30'000; ++i) lines += "{\"body\":\"some words of a line\"}\n";
  EXPECT_TRUE(contains(error_of(lines + "{\"text\":\"z\"}\n").message(), "none of the first 1000 here"))
      << lines.size();
}

TEST(Prepare, TakesJsonLinesThatAreCalledJson) {
  const TemporaryDirectory directory;
  const std::string two = "{\"text\":\"a\"}\n{\"text\":\"b\"}\n";
  directory.write("in/c4.json.gz", gzip(two));
  directory.write("in/c5.json.zst", zstd(two));
  directory.write("in/c6.jsonl.gzip", gzip("{\"text\":\"c\",\"score\":NaN}\n"));
  directory.write("in/c7.json", two);
  directory.write("in/c8.json", "\xEF\xBB\xBF" + two);
  directory.write("in/dataset_info.json", "{\n  \"text\": \"no document\"\n}\n");
  directory.write("in/state.json", "{\"text\": \"no document\"}\n");
  PrepareOptions options;
  options.inputs = {directory / "in"};
  options.output = directory / "out";
  const PrepareSummary summary = prepare_dataset(options, ByteTokenizer());
  EXPECT_EQ(ByteTokenizer().decode(all_tokens(TokenDataset::open(directory / "out"))), "ababcabab");
  EXPECT_EQ(summary.files_left_out, (std::map<std::string, uint64_t>{{".json", 2}}));
  // Named, they are taken or refused.
  options.overwrite = true;
  options.inputs = {directory / "in/state.json"};
  EXPECT_EQ(prepare_dataset(options, ByteTokenizer()).manifest.splits.at("train").documents, 1u);
  options.inputs = {directory / "in/dataset_info.json"};
  const Error error = caught([&] { prepare_dataset(options, ByteTokenizer()); });
  EXPECT_EQ(error.message(), "the file is JSON, but neither a list of objects nor an object a line (JSON Lines)");
  EXPECT_TRUE(contains(error.hint(), "jq -c")) << error.hint();
}

TEST(Prepare, RefusesTheSameTextInBothSplits) {
  const TemporaryDirectory directory;
  const std::filesystem::path text = directory.write("a.txt", "the same text");
  PrepareOptions options;
  options.inputs = {text};
  options.validation_inputs = {text};
  options.output = directory / "out";
  const auto error_of = [&] { return caught([&] { prepare_dataset(options, ByteTokenizer()); }); };
  EXPECT_EQ(error_of().message(), "the same text is given for training and for validation");
  std::filesystem::create_hard_link(text, directory / "b.txt");
  options.validation_inputs = {directory / "b.txt"};
  EXPECT_EQ(error_of().message(),
            fmt::format("the same text is given for training and for validation (as {})", text.string()));
  // The same words in another file, and in a document among others.
  options.validation_inputs = {directory.write("c.txt", "the same text")};
  const Error copy = error_of();
  EXPECT_EQ(copy.message(), fmt::format("1 document of training is also held out for validation; the first of them is "
                                        "also in {}",
                                        (directory / "c.txt").string()));
  EXPECT_EQ(copy.where(), text.string());
  options.validation_inputs = {
      directory.write("d.jsonl", "{\"text\":\"other\"}\n\n{\"text\":\"the same text\",\"id\":7}\n")};
  EXPECT_TRUE(error_of().message().ends_with((directory / "d.jsonl").string() + ", line 3")) << error_of().message();
  EXPECT_FALSE(std::filesystem::exists(directory / "out"));
  options.allow_shared_documents = true;
  prepare_dataset(options, ByteTokenizer());
  options.allow_shared_documents = false;
  // A part of the documents held out: equal ones stay together.
  options.validation_inputs.clear();
  options.validation_fraction = 0.5;
  options.overwrite = true;
  std::string lines;
  for (const int word : {0, 1, 2, 0, 3, 0, 4, 5}) lines += fmt::format("{{\"text\":\"{}\"}}\n", word);
  options.inputs = {directory.write("e.jsonl", lines)};
  prepare_dataset(options, ByteTokenizer());
  const std::vector<int32_t> train = all_tokens(TokenDataset::open(directory / "out"));
  EXPECT_EQ(std::count(train.begin(), train.end(), '0') % 3, 0);
  // Documents without text are not the same text.
  options.inputs = {
      directory.write("f.jsonl", "{\"text\":\"\"}\n{\"text\":\"\"}\n{\"text\":\"x\"}\n{\"text\":\"y\"}\n")};
  EXPECT_EQ(prepare_dataset(options, ByteTokenizer()).empty_documents, 2u);
}

TEST(Prepare, ReadsCompressedTextAsIfItWereNot) {
  const TemporaryDirectory directory;
  const std::string text = some_text(700'000);
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += fmt::format("{{\"text\":\"line {} of many\"}}\n", i);
  PrepareOptions options;
  const auto tokens_of = [&](const std::string& name, std::vector<std::filesystem::path> inputs) {
    options.inputs = std::move(inputs);
    options.output = directory / name;
    uint64_t done = 0, total = 0;
    options.progress = [&](const PrepareProgress& progress) {
      done = progress.bytes_done;
      total = progress.bytes_total;
    };
    prepare_dataset(options, gpt2());
    EXPECT_GT(total, 0u);
    EXPECT_EQ(done, total);
    return std::pair{all_tokens(TokenDataset::open(directory / name)),
                     options.validation_fraction > 0 ? all_tokens(TokenDataset::open(directory / name, "validation"))
                                                     : std::vector<int32_t>()};
  };
  const auto expected = tokens_of("plain", {directory.write("a.txt", text), directory.write("b.jsonl", lines)});
  EXPECT_EQ(tokens_of("gzip", {directory.write("a.txt.gz", gzip(text)), directory.write("b.jsonl.gz", gzip(lines))}),
            expected);
  EXPECT_EQ(tokens_of("zstd", {directory.write("a.txt.zst", zstd(text)), directory.write("b.jsonl.zst", zstd(lines))}),
            expected);
  // What it is shows in the file, not in its name; and both may be several streams one after the other.
  EXPECT_EQ(tokens_of("parts", {directory.write("a.txt", gzip(text.substr(0, 1000)) + gzip(text.substr(1000))),
                                directory.write("b", zstd(lines.substr(0, 4000)) + zstd(lines.substr(4000)))}),
            expected);
  options.validation_fraction = 0.3;
  EXPECT_EQ(tokens_of("cut.zst", {directory / "a.txt.zst"}), tokens_of("cut", {directory.write("a.txt", text)}));
}

TEST(Prepare, ManyThreadsGiveTheSameFiles) {
  const TemporaryDirectory directory;
  std::string lines, text;
  for (int i = 0; i < 30'000; ++i) lines += fmt::format("{{\"text\": \"document {} has words, {}\"}}\n", i, i * i);
  for (int i = 0; i < 60'000; ++i) text += fmt::format("第{}行\n", i);
  PrepareOptions options;
  options.inputs = {directory.write("a.jsonl", lines), directory.write("b.txt.gz", gzip(text)),
                    directory.write("c.txt", "")};
  options.validation_fraction = 0.01;
  options.tokens_per_shard = 77'777;
  std::map<std::string, std::string> first;
  for (const int threads : {1, 2, 8}) {
    options.threads = threads;
    options.output = directory / fmt::format("out{}", threads);
    prepare_dataset(options, gpt2());
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options.output))
      if (entry.is_regular_file())
        files[std::filesystem::relative(entry.path(), options.output)] = read_text_file(entry.path());
    EXPECT_GT(files.size(), 8u);
    if (first.empty()) first = files;
    EXPECT_TRUE(files == first) << threads;
  }
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
  EXPECT_EQ(empty.message(), "the inputs hold no text (1 empty documents)");
  EXPECT_EQ(empty.where(), (directory / "empty.txt").string());
  EXPECT_EQ(empty.kind(), ErrorKind::kInvalidArgument);
  const Error parquet = error_of("a.parquet", "PAR1");
  EXPECT_EQ(parquet.message(), "a .parquet file is not an input that can be tokenized");
  const std::string table = (directory / "a.parquet").string();
  EXPECT_EQ(parquet.hint(),
            fmt::format("Convert it: python3 -c \"import sys, pandas; pandas.read_parquet(sys.argv[1])"
                        ".to_json(sys.argv[1] + '.jsonl', orient='records', lines=True)\" '{0}', and prepare "
                        "'{0}.jsonl'.",
                        table));
  EXPECT_TRUE(contains(error_of("it's", "PAR1\x15\x04\x15").hint(), "it'\\''s'"));
  EXPECT_EQ(error_of("a.jsonl", "{\"text\":\"\"}\n").message(), "the inputs hold no text (1 empty documents)");
  const Error key = error_of("a.jsonl", "\n\n{\"test\":\"x\"}\n");
  EXPECT_EQ(key.message(), "the object has no text under \"text\"");
  EXPECT_EQ(key.where(), (directory / "a.jsonl").string() + ", line 3");
  EXPECT_EQ(key.hint(), "Did you mean --text-key test?");
  EXPECT_EQ(error_of("a.jsonl", "{\"content\":\"x\"}").hint(),
            "It has: \"content\". Say with --text-key KEY which of them holds the text.");
  EXPECT_EQ(
      error_of("a.jsonl", "{\"messages\":[]}").hint(),
      "It has \"messages\": conversations, pairs and prompts are prepared with --chat; or say with --text-key KEY "
      "what holds the text.");
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
  EXPECT_EQ(
      caught([&] { prepare_dataset(options, ByteTokenizer()); }).message(),
      "the directory holds no file of .txt, .jsonl, .ndjson, .json (with an object a line, or one list of objects) "
      "or .csv");
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

TEST(Prepare, HalvesOfPairsCountWhereTheyAre) {
  const auto parse = [](std::string_view line) { return parse_json_line({line, 1}, "text", "x.jsonl"); };
  EXPECT_EQ(parse(R"({"text":"\ufffd","x":"\ud800"})"), (JsonText{"\uFFFD", false}));
  EXPECT_EQ(parse(R"({"text":"\ufffd\ud800","x":NaN})"), (JsonText{"\uFFFD\uFFFD", true}));
  for (const char* line : {R"({"texts":"a"})", R"({"text":1})"})
    EXPECT_EQ(caught([&] { parse_json_line({line, 1}, "text", "x.jsonl", ""); }).hint(),
              "Each line must have the text under \"text\".");
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

TEST(TokenDataset, SplitsOfADirectoryAreWholeWordsOfItsNames) {
  const std::vector<uint16_t> train = {1, 2, 3}, held_out = {4, 5};
  const auto tokens_of = [](const std::filesystem::path& path, std::string_view split) {
    return all_tokens(TokenDataset::open(path, split, {.token_bytes = 2}));
  };
  for (const std::string name : {"web", "pretrain", "retrieval", "trainee_evaluate", "VAL2x"}) {
    const TemporaryDirectory directory;
    const std::string prefix = name == "VAL2x" ? "" : name + "_";
    directory.write(prefix + "train_000001.bin", as_text(std::span(train)));
    directory.write(prefix + (name == "VAL2x" ? "VAL2.bin"
                              : name == "web" ? "valid-0.bin"
                                              : "val_000000.bin"),
                    as_text(std::span(held_out)));
    EXPECT_EQ(tokens_of(directory.path(), kTrainSplit), (std::vector<int32_t>{1, 2, 3})) << name;
    EXPECT_EQ(tokens_of(directory.path(), kValidationSplit), (std::vector<int32_t>{4, 5})) << name;
    EXPECT_EQ(inspect_dataset(directory.path(), {}, {.token_bytes = 2}).splits.size(), 2u);
  }
  const TemporaryDirectory directory;
  directory.write("train.bin", as_text(std::span(train)));
  directory.write("test.bin", as_text(std::span(held_out)));
  directory.write("extra.bin", as_text(std::span(held_out)));
  EXPECT_EQ(tokens_of(directory.path(), kTrainSplit), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(TokenDataset::open(directory.path(), kTrainSplit, {.token_bytes = 2}).left_out(),
            std::vector<std::string>{(directory / "extra.bin").string() + ": its name tells no split"});
  EXPECT_EQ(inspect_dataset(directory.path(), {}, {.token_bytes = 2}).left_out.size(), 1u);
  EXPECT_EQ(caught([&] { tokens_of(directory.path(), kValidationSplit); }).message(),
            "the directory has no .bin file with the word \"val\" or \"validation\" or \"valid\" in its name");
  for (const std::string both : {"train_val_000.bin", "val-train.bin", "test_train_1.bin", "training.validation.bin"}) {
    const std::filesystem::path path = directory.write(both, as_text(std::span(held_out)));
    for (const std::string_view split : {kTrainSplit, kValidationSplit}) {
      const Error error = caught([&] { tokens_of(directory.path(), split); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_EQ(error.where(), path.string());
      EXPECT_TRUE(contains(error.message(), "which split the file is of cannot be told")) << error.message();
    }
    // Named, it is what the caller wants.
    EXPECT_EQ(tokens_of(path, kTrainSplit).size(), 2u);
    std::filesystem::remove(path);
  }
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
}  // namespace causeway::data
