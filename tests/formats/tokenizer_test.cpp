#include "causeway/formats/tokenizer/tokenizer.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "causeway/formats/tokenizer/gpt2_scanner.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "tests/fixtures/data_test_support.h"
#include "tests/formats/gpt2.h"

namespace causeway::formats {
namespace {

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> result;
  for (size_t position = 0; position < text.size();) {
    const size_t size = gpt2_piece_size(text, position);
    result.emplace_back(text.substr(position, size));
    position += size;
  }
  return result;
}

std::string random_bytes(std::mt19937_64& generator, size_t most) {
  std::string text(generator() % (most + 1), '\0');
  for (char& byte : text) byte = static_cast<char>(generator());
  return text;
}

// The 256 tokens of one byte of the published vocabulary, and further tokens after them.
nlohmann::json byte_vocabulary(const std::vector<std::string>& further = {}) {
  static const nlohmann::json bytes = [] {
    nlohmann::json found;
    const nlohmann::json published = nlohmann::json::parse(read_text_file(gpt2_directory() / "encoder.json"));
    for (const auto& [token, id] : published.items()) {
      if (id.get<int>() < 256) found[token] = id;
    }
    return found;
  }();
  nlohmann::json json = bytes;
  for (const std::string& token : further) json[token] = json.size();
  return json;
}

Error gpt2_error(const std::string& vocabulary, const std::string& merges) {
  return caught([&] { Gpt2Tokenizer::parse(vocabulary, merges); });
}

TEST(Gpt2Scanner, SplitsAsTheRegularExpressionDoes) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces("Hello world's  end"), (Pieces{"Hello", " world", "'s", " ", " end"}));
  EXPECT_EQ(pieces("a   \n b  "), (Pieces{"a", "   \n", " b", "  "}));
  EXPECT_EQ(pieces("\n\nx \n"), (Pieces{"\n", "\n", "x", " \n"}));
  EXPECT_EQ(pieces("I'LL we'll ''tis"), (Pieces{"I", "'", "LL", " we", "'ll", " ''", "tis"}));
  EXPECT_EQ(pieces(" 's"), (Pieces{" '", "s"}));
  EXPECT_EQ(pieces("x2y 34,5"), (Pieces{"x", "2", "y", " 34", ",", "5"}));
  EXPECT_EQ(pieces("a\xC2\xA0 b"), (Pieces{"a", "\xC2\xA0", " b"}));
  EXPECT_EQ(pieces("a\xFF\xFE b"), (Pieces{"a", "\xFF\xFE", " b"}));
}

TEST(Gpt2Tokenizer, EqualsTheIndependentImplementation) {
  std::ifstream file(std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/data/gpt2_tokens.jsonl");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const nlohmann::json json = nlohmann::json::parse(line);
    const auto text = json["text"].get<std::string>();
    ASSERT_EQ(gpt2().encode(text), json["ids"].get<std::vector<int32_t>>()) << line;
    ASSERT_EQ(gpt2().decode(gpt2().encode(text)), text);
  }
  EXPECT_GT(count, 500);
}

TEST(Gpt2Tokenizer, DescribesThePublishedVocabulary) {
  EXPECT_EQ(gpt2().vocabulary_size(), 50257);
  EXPECT_EQ(gpt2().end_of_text(), 50256);
  EXPECT_EQ(gpt2().name(), "gpt2");
  EXPECT_EQ(gpt2().encode("<|endoftext|>").size(), 7u) << "text is never read as a special token";
  EXPECT_EQ(gpt2().decode(std::vector<int32_t>{50256}), "<|endoftext|>");
}

TEST(Gpt2Tokenizer, RoundTripsAnyBytes) {
  std::mt19937_64 generator(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_bytes(generator, 60);
    ASSERT_EQ(gpt2().decode(gpt2().encode(text)), text);
  }
  EXPECT_TRUE(gpt2().encode("").empty());
}

TEST(Gpt2Tokenizer, CachedPiecesAndThreadsGiveTheSameTokens) {
  std::mt19937_64 generator(2);
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> fresh;
  for (int i = 0; i < 200; ++i) {
    texts.push_back(random_bytes(generator, 200) + " the quick brown fox 12345 antidisestablishmentarianism");
    fresh.push_back(gpt2().encode(texts.back()));
  }
  std::vector<std::jthread> threads;
  std::atomic<int> different{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i) different += gpt2().encode(texts[i]) != fresh[i];
    });
  }
  threads.clear();
  EXPECT_EQ(different, 0);
}

TEST(Gpt2Tokenizer, CutsChangeNoToken) {
  std::mt19937_64 generator(3);
  const std::string alphabet = "ab 's\n\t .1\xC3\xA9\xE2\x80\x83";
  int cuts = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (size_t n = generator() % 40; n > 0; --n) text += alphabet[generator() % alphabet.size()];
    const size_t cut = gpt2().cut_position(text, generator() % (text.size() + 1));
    ASSERT_LE(cut, text.size());
    cuts += cut < text.size();
    std::vector<int32_t> ids = gpt2().encode(text.substr(0, cut));
    gpt2().encode_to(text.substr(cut), ids);
    ASSERT_EQ(ids, gpt2().encode(text)) << text;
  }
  EXPECT_GT(cuts, 1000);
}

TEST(Gpt2Tokenizer, LongRunsRoundTrip) {
  const std::string text(1'000'000, 'a');
  const std::vector<int32_t> ids = gpt2().encode(text);
  EXPECT_EQ(gpt2().decode(ids), text);
}

TEST(Gpt2Tokenizer, SavesAndLoadsUnderTheOtherNames) {
  const TemporaryDirectory directory;
  gpt2().save(directory.path());
  EXPECT_TRUE(std::filesystem::exists(directory / "vocab.json"));
  EXPECT_TRUE(std::filesystem::exists(directory / "merges.txt"));
  const std::unique_ptr<Tokenizer> loaded = load_tokenizer(directory.path().string());
  EXPECT_EQ(loaded->fingerprint(), gpt2().fingerprint());
  EXPECT_EQ(loaded->encode("Hello, world"), gpt2().encode("Hello, world"));
}

TEST(Gpt2Tokenizer, FingerprintDependsOnTokensAndMerges) {
  const auto print = [](const std::string& vocabulary, const std::string& merges) {
    return Gpt2Tokenizer::parse(vocabulary, merges).fingerprint();
  };
  const std::string both = byte_vocabulary({"ab", "bc"}).dump();
  EXPECT_EQ(print(both, "#version: 0.2\na b\nb c\n"), print(both, "a b\r\nb c"));
  EXPECT_NE(print(both, "a b\nb c\n"), print(both, "b c\na b\n"));
  EXPECT_NE(print(byte_vocabulary({"ab"}).dump(), "a b"), print(byte_vocabulary({"ab", "x!"}).dump(), "a b"));
}

TEST(Gpt2Tokenizer, MergesByRankThenLeftmost) {
  const std::string vocabulary = byte_vocabulary({"bc", "ab", "aa", "abbc"}).dump();
  const Gpt2Tokenizer tokenizer = Gpt2Tokenizer::parse(vocabulary, "b c\na b\na a\nab bc\n");
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<int32_t>{tokenizer.encode("a")[0], 256}));
  EXPECT_EQ(tokenizer.encode("abbc"), (std::vector<int32_t>{259}));
  EXPECT_EQ(tokenizer.encode("aaa"), (std::vector<int32_t>{258, tokenizer.encode("a")[0]}));
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
}

TEST(Gpt2Tokenizer, RefusesBrokenVocabularies) {
  const nlohmann::json bytes = byte_vocabulary();
  EXPECT_TRUE(contains(gpt2_error("{", "").what(), "the vocabulary is not valid JSON"));
  EXPECT_TRUE(contains(gpt2_error("[1]", "").what(), "not a JSON object of token to id"));
  EXPECT_TRUE(contains(gpt2_error("{}", "").what(), "not a JSON object of token to id"));
  for (const nlohmann::json& id : {nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json("x"), nlohmann::json(257)}) {
    nlohmann::json json = bytes;
    json["new"] = id;
    const Error error = gpt2_error(json.dump(), "");
    EXPECT_EQ(error.message(),
              fmt::format("token \"new\" has the id {}; the 257 tokens must have the ids 0 to 256", id.dump()));
    EXPECT_EQ(error.where(), "vocab.json");
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  }
  nlohmann::json twice = bytes;
  twice["new"] = 7;
  EXPECT_TRUE(contains(gpt2_error(twice.dump(), "").what(), "two tokens have the id 7"));
  nlohmann::json foreign = bytes;
  foreign["\u4f60"] = 256;
  EXPECT_TRUE(contains(gpt2_error(foreign.dump(), "").what(), "is not in GPT-2's writing of bytes"));
  EXPECT_EQ(gpt2_error(R"({"a": 0})", "").message(), "the vocabulary has no token for byte 0");
}

TEST(Gpt2Tokenizer, RefusesBrokenMerges) {
  const std::string vocabulary = byte_vocabulary({"ab", "abc"}).dump();
  const auto check = [&](const std::string& merges, const std::string& message, const std::string& where) {
    const Error error = gpt2_error(vocabulary, merges);
    EXPECT_EQ(error.message(), message);
    EXPECT_EQ(error.where(), where);
  };
  check("#version: 0.2\na b\nab", "\"ab\" is not a merge: two tokens with one space between them",
        "merges.txt, line 3");
  check("a b c\n", "\"a b c\" is not a merge: two tokens with one space between them", "merges.txt, line 1");
  check("a xyz\n", "\"xyz\" is not in the vocabulary", "merges.txt, line 1");
  check("a b\nb c\n", "\"b c\" makes a token that is not in the vocabulary", "merges.txt, line 2");
  check("a b\na b\n", "\"a b\" is merged twice", "merges.txt, line 2");
  check("ab c\na b\n", "\"ab\" is merged before any line makes it", "merges.txt, line 1");
}

TEST(Gpt2Tokenizer, NamesWhatADirectoryLacks) {
  const TemporaryDirectory directory;
  const Error vocabulary = caught([&] { Gpt2Tokenizer::load(directory.path()); });
  EXPECT_EQ(vocabulary.message(), "the tokenizer directory holds neither vocab.json nor encoder.json");
  EXPECT_EQ(vocabulary.kind(), ErrorKind::kNotFound);
  directory.write("vocab.json", "{}");
  const Error merges = caught([&] { Gpt2Tokenizer::load(directory.path()); });
  EXPECT_EQ(merges.message(), "the tokenizer directory holds neither merges.txt nor vocab.bpe");
}

TEST(Gpt2Tokenizer, RefusesIdsBeyondTheVocabulary) {
  EXPECT_EQ(caught([] { gpt2().decode(std::vector<int32_t>{50257}); }).message(),
            "token id 50257 is outside the vocabulary of 50257 tokens");
  EXPECT_EQ(caught([] { gpt2().decode(std::vector<int32_t>{-1}); }).message(),
            "token id -1 is outside the vocabulary of 50257 tokens");
}

TEST(Gpt2Tokenizer, SurvivesDamagedFiles) {
  std::mt19937_64 generator(4);
  const std::string vocabulary = byte_vocabulary({"ab", "abc", "<|endoftext|>"}).dump();
  const std::string merges = "#version: 0.2\na b\nab c\n";
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string damaged_vocabulary = vocabulary;
    std::string damaged_merges = merges;
    if (i % 3 == 0) {
      damaged_vocabulary = random_bytes(generator, 300);
    } else if (i % 3 == 1) {
      for (int n = 0; n < 3; ++n) damaged_vocabulary[generator() % vocabulary.size()] = static_cast<char>(generator());
    } else {
      damaged_merges = random_bytes(generator, 100);
    }
    try {
      const Gpt2Tokenizer tokenizer = Gpt2Tokenizer::parse(damaged_vocabulary, damaged_merges);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode("abc abc\xFF")), "abc abc\xFF");
    } catch (const Error& error) {
      EXPECT_FALSE(error.where().empty());
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(ByteTokenizer, IsTheBytes) {
  const ByteTokenizer tokenizer;
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  const std::vector<int32_t> ids = tokenizer.encode(text);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[static_cast<size_t>(byte)], byte);
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_EQ(tokenizer.vocabulary_size(), 256);
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
  EXPECT_EQ(caught([&] { tokenizer.decode(std::vector<int32_t>{256}); }).message(),
            "token id 256 is outside the vocabulary of 256 bytes");
}

TEST(LoadTokenizer, NamesWhatItDoesNotKnow) {
  EXPECT_EQ(load_tokenizer("bytes")->name(), "bytes");
  const Error near = caught([] { load_tokenizer("byte"); });
  EXPECT_EQ(near.message(), "no tokenizer is called \"byte\" and no directory has that name");
  EXPECT_EQ(near.hint(), "Did you mean \"bytes\"?");
  EXPECT_TRUE(contains(caught([] { load_tokenizer("/nowhere/at/all"); }).hint(), "merges.txt"));
}

}  // namespace
}  // namespace causeway::formats
