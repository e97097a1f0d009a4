#include "causeway/formats/tokenizer/json_tokenizer.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "causeway/formats/tokenizer/unicode_text.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::formats {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

const std::filesystem::path& fixtures() {
  static const std::filesystem::path path =
      std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/tokenizer_json";
  return path;
}

json fixture(const std::string& style) { return json::parse(read_text_file(fixtures() / style / "tokenizer.json")); }

// BPE of the letters a to d and what `merges` make of them.
json small_bpe(const std::vector<std::string>& merges = {}) {
  json vocabulary = {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {" ", 4}};
  for (const std::string& merge : merges) {
    std::string token = merge;
    std::erase(token, ' ');
    if (!vocabulary.contains(token)) vocabulary[token] = vocabulary.size();
  }
  return {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
}

Ids encode(const json& description, std::string_view text, const EncodeOptions& options = {}) {
  return JsonTokenizer::parse(description.dump()).encode(text, options);
}

Error error_of(const json& description) {
  return caught([&] { JsonTokenizer::parse(description.dump()); });
}

TEST(JsonTokenizer, EqualsTheIndependentImplementation) {
  int styles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures())) {
    SCOPED_TRACE(entry.path());
    const JsonTokenizer tokenizer = JsonTokenizer::load(entry.path());
    std::ifstream file(entry.path() / "cases.jsonl");
    int cases = 0;
    for (std::string line; std::getline(file, line); ++cases) {
      const json one = json::parse(line);
      const auto text = one["text"].get<std::string>();
      ASSERT_EQ(tokenizer.encode(text), one["ids"].get<Ids>()) << line;
      const Ids special = tokenizer.encode(text, {.read_special_tokens = true, .add_special_tokens = true});
      ASSERT_EQ(special, one["special"].get<Ids>()) << line;
      // Bytes that are not UTF-8 come as they are; there they are replaced.
      const std::string decoded = tokenizer.decode(special), expected = one["decoded"].get<std::string>();
      if (first_invalid_byte(decoded) == decoded.size()) {
        ASSERT_EQ(decoded, expected) << line;
      } else {
        ASSERT_NE(expected.find("\ufffd"), std::string::npos) << line;
      }
    }
    EXPECT_GT(cases, 150);
    ++styles;
  }
  EXPECT_EQ(styles, 9);
}

TEST(JsonTokenizer, ReadsAGpt2VocabularyAlike) {
  const JsonTokenizer tokenizer = JsonTokenizer::load(fixtures() / "gpt2");
  EXPECT_EQ(tokenizer.name(), "tokenizer.json");
  EXPECT_EQ(tokenizer.vocabulary_size(), 1001);
  EXPECT_EQ(tokenizer.end_of_text(), 1000);
  EXPECT_TRUE(tokenizer.is_special(1000));
  EXPECT_FALSE(tokenizer.is_special(999));
  EXPECT_EQ(tokenizer.encode("<|endoftext|>", {.read_special_tokens = true}), Ids{1000});
  EXPECT_GT(tokenizer.encode("<|endoftext|>").size(), 1u) << "text is never read as a special token";
  EXPECT_EQ(caught([&] { tokenizer.decode(Ids{1001}); }).message(),
            "token id 1001 is outside the vocabulary of 1001 tokens");
  EXPECT_EQ(caught([&] { tokenizer.encode("ab\xFF"); }).message(), "the text is not UTF-8 (byte 2 of it)");
}

TEST(JsonTokenizer, SavesAndLoadsWithItsConfiguration) {
  const TemporaryDirectory directory;
  const JsonTokenizer tokenizer = JsonTokenizer::parse(
      small_bpe({"a b"}).dump(), {{"tokenizer_config.json", R"({"eos_token": {"content": "d"}})"}});
  EXPECT_EQ(tokenizer.end_of_text(), 3);
  tokenizer.save(directory.path());
  const std::unique_ptr<Tokenizer> loaded = load_tokenizer(directory.path().string());
  EXPECT_EQ(loaded->fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(loaded->end_of_text(), 3);
  EXPECT_NE(JsonTokenizer::parse(small_bpe({"a b"}).dump()).fingerprint(), tokenizer.fingerprint());
}

TEST(JsonTokenizer, CutsChangeNoToken) {
  std::mt19937_64 generator(3);
  const std::vector<std::string> alphabet = {"a", "b", " ", " ", "'s", "\n", "\t", ".", "1", "\u00e9", "<tool>", "le "};
  for (const char* style : {"gpt2", "llama3", "mixed", "mistral"}) {
    const JsonTokenizer tokenizer = JsonTokenizer::load(fixtures() / style);
    int cuts = 0;
    for (int i = 0; i < 2000; ++i) {
      std::string text;
      for (size_t n = generator() % 40; n > 0; --n) text += alphabet[generator() % alphabet.size()];
      const size_t cut = tokenizer.cut_position(text, generator() % (text.size() + 1));
      ASSERT_LE(cut, text.size());
      cuts += cut < text.size();
      Ids ids = tokenizer.encode(text.substr(0, cut));
      tokenizer.encode_to(text.substr(cut), ids);
      ASSERT_EQ(ids, tokenizer.encode(text)) << text;
    }
    const bool may_cut = std::string(style) == "gpt2" || std::string(style) == "llama3";
    EXPECT_EQ(cuts > 300, may_cut) << style << ": " << cuts;
  }
}

TEST(JsonTokenizer, IsNotCutWhereATokenMayCrossASpace) {
  const std::string text = "ab ab ab";
  json unsplit = small_bpe({"b \u0120", "a b"});
  unsplit["model"]["vocab"]["\u0120"] = unsplit["model"]["vocab"].size();
  unsplit["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  EXPECT_EQ(JsonTokenizer::parse(unsplit.dump()).cut_position(text, 1), 2u);
  unsplit["pre_tokenizer"]["use_regex"] = false;
  EXPECT_EQ(JsonTokenizer::parse(unsplit.dump()).cut_position(text, 1), text.size());
  // A special token that is read as text hides what begins within it.
  json hidden = small_bpe();
  hidden["model"]["vocab"]["\u0120"] = 5;
  hidden["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  hidden["added_tokens"] = json::array({{{"id", 1}, {"content", "b"}, {"special", false}, {"normalized", false}},
                                        {{"id", 6}, {"content", "a b"}, {"special", true}, {"normalized", false}}});
  EXPECT_EQ(JsonTokenizer::parse(hidden.dump()).cut_position("a b", 1), 3u);
}

TEST(JsonTokenizer, ReplacementsDoNotMultiply) {
  const json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  json description = small_bpe(), steps = json::array();
  for (int i = 0; i < 60; ++i) steps.push_back(twice);
  description["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const JsonTokenizer normalizing = JsonTokenizer::parse(description.dump());
  const std::string message = caught([&] { normalizing.encode("aaaaaaa"); }).message();
  EXPECT_EQ(message, "a text of 7 bytes becomes one of 7168 or more");
  description = small_bpe();
  description["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
  const JsonTokenizer decoding = JsonTokenizer::parse(description.dump());
  EXPECT_EQ(caught([&] { decoding.decode(Ids{0}); }).kind(), ErrorKind::kResource);
}

TEST(JsonTokenizer, ReplacesInPartsOfCharacters) {
  json description = small_bpe();
  json& vocabulary = description["model"]["vocab"];
  vocabulary["\u00f0"] = vocabulary.size();  // how ByteLevel writes the byte 0xf0
  description["decoder"] = {{"type", "Sequence"},
                            {"decoders",
                             {{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}},
                              {{"type", "Replace"}, {"pattern", {{"Regex", "b+|\\p{L}+d"}}}, {"content", "y"}}}}};
  EXPECT_EQ(JsonTokenizer::parse(description.dump()).decode(Ids{1, 5}), "y\xf0");
}

TEST(JsonTokenizer, AddedTokensAreTheLeftmostAndLongest) {
  json description = small_bpe();
  const auto added = [&](const char* content, int id, const json& more = json::object()) {
    json token = {{"id", id}, {"content", content}, {"normalized", false}};
    token.update(more);
    description["added_tokens"].push_back(token);
  };
  added("<x>", 5);
  added("<x><y>", 6);
  added("word", 7, {{"single_word", true}});
  added("<l>", 8, {{"lstrip", true}});
  added("<r>", 9, {{"rstrip", true}, {"special", true}});
  EXPECT_EQ(encode(description, "a<x><y>b"), (Ids{0, 6, 1}));
  EXPECT_EQ(encode(description, "a<x><x>"), (Ids{0, 5, 5}));
  EXPECT_EQ(encode(description, "a word"), (Ids{0, 4, 7}));
  EXPECT_EQ(encode(description, "aword"), (Ids{0, 3})) << "characters without a token are left out";
  EXPECT_EQ(encode(description, "a  <l> b"), (Ids{0, 8, 4, 1}));
  EXPECT_EQ(encode(description, "a <r>  b", {.read_special_tokens = true}), (Ids{0, 4, 9, 1}));
}

TEST(JsonTokenizer, RefusesByTheNameOfThePart) {
  struct Case {
    const char* key;
    const char* value;
    const char* message;
    const char* where;
  };
  const Case cases[] = {
      {"model", R"({"type": "WordPiece", "vocab": {}})", "the model \"WordPiece\" is not interpreted", "model"},
      {"normalizer", R"({"type": "Precompiled"})", "the normalizer \"Precompiled\" is not interpreted", "normalizer"},
      {"pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}]})",
       "the pre-tokenizer \"UnicodeScripts\" is not interpreted", "pre_tokenizer.pretokenizers[0]"},
      {"pre_tokenizer", R"({"type": "Whitespace", "more": 1})", "the key \"more\" is not interpreted", "pre_tokenizer"},
      {"pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "(a)\\1"}, "behavior": "Isolated", "invert": false})",
       "\"\\1\" in the regular expression \"(a)\\1\" (byte 4) is not interpreted", "pre_tokenizer.pattern.Regex"},
      {"pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Gone", "invert": false})",
       "the behavior \"Gone\" is not interpreted", "pre_tokenizer"},
      {"decoder", R"({"type": "CTC"})", "the decoder \"CTC\" is not interpreted", "decoder"},
      {"post_processor", R"({"type": "Other"})", "the post-processor \"Other\" is not interpreted", "post_processor"},
      {"extra", "1", "the key \"extra\" is not interpreted", ""},
  };
  for (const Case& one : cases) {
    json description = small_bpe();
    description[one.key] = json::parse(one.value);
    const Error error = error_of(description);
    EXPECT_EQ(error.message(), one.message);
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << one.message;
    EXPECT_EQ(error.where(), std::string("tokenizer.json") + (*one.where == '\0' ? "" : ": ") + one.where);
  }
  json dropout = small_bpe();
  dropout["model"]["dropout"] = 0.1;
  EXPECT_EQ(error_of(dropout).message(), "dropout of merges is not interpreted");
  json first = fixture("metaspace");
  first["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}};
  EXPECT_TRUE(contains(error_of(first).message(), "prepend_scheme \"first\" behind a normalizer"));
}

TEST(JsonTokenizer, RefusesBrokenVocabularies) {
  const auto with_vocabulary = [](const char* vocabulary, const char* merges = "[]") {
    json description = small_bpe();
    description["model"]["vocab"] = json::parse(vocabulary);
    description["model"]["merges"] = json::parse(merges);
    return error_of(description).message();
  };
  EXPECT_EQ(with_vocabulary(R"({"a": -1})"), "token \"a\" has the id -1; the 1 tokens must have the ids 0 to 0");
  EXPECT_EQ(with_vocabulary(R"({"a": 0, "b": 2})"), "token \"b\" has the id 2; the 2 tokens must have the ids 0 to 1");
  EXPECT_EQ(with_vocabulary(R"({"a": 0, "b": 0})"), "two tokens have the id 0, one of them \"b\"");
  EXPECT_EQ(with_vocabulary(R"({"a": 123456789012345678901234567890})"),
            "token \"a\" has the id 1.2345678901234568e+29; the 1 tokens must have the ids 0 to 0");
  EXPECT_EQ(with_vocabulary("[]"), "\"vocab\" is not an object of token to id");
  EXPECT_EQ(with_vocabulary(R"({"a": 0})", R"(["a b"])"), "merges[0]: \"b\" is not in the vocabulary");
  EXPECT_EQ(with_vocabulary(R"({"a": 0})", R"([["a", "a"]])"), "merges[0]: \"aa\" is not in the vocabulary");
  EXPECT_EQ(with_vocabulary(R"({"a": 0})", R"(["a"])"), "merges[0] is not two tokens");
  EXPECT_EQ(with_vocabulary(R"({"a": 0, "aa": 1})", R"(["a a", "a a"])"), "merges[1]: \"a a\" is merged twice");
  EXPECT_EQ(caught([] { JsonTokenizer::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}}})"); }).message(),
            "the tokenizer has the key 'a' twice");
  json unigram = {{"model", {{"type", "Unigram"}, {"unk_id", 5}, {"vocab", json::parse(R"([["a", -1.0]])")}}}};
  EXPECT_EQ(error_of(unigram).message(), "unk_id is 5, and there are 1 tokens");
  unigram["model"]["unk_id"] = -1;
  EXPECT_EQ(error_of(unigram).message(), "\"unk_id\" is -1, not a number from 0 to 2147483647");
  unigram["model"]["unk_id"] = nullptr;
  EXPECT_EQ(caught([&] { encode(unigram, "b"); }).message(),
            "the text has a character without a token, and unk_id names none for it");
  unigram["model"]["vocab"] = json::parse(R"([["a", -1.0], ["a", -2.0]])");
  EXPECT_EQ(error_of(unigram).message(), "vocab[1] is \"a\", as vocab[0] is");
}

TEST(JsonTokenizer, RefusesBrokenAddedTokens) {
  const auto with_token = [](const json& token) {
    json description = small_bpe();
    description["added_tokens"] = json::array({token});
    return error_of(description).message();
  };
  EXPECT_EQ(with_token({{"id", 9}, {"content", "<x>"}}),
            "the added token \"<x>\" has the id 9 where 5 is the next one that is free");
  EXPECT_EQ(with_token({{"id", 5}, {"content", "b"}}),
            "the added token \"b\" has the id 5 where 1 is its id in the vocabulary");
  EXPECT_EQ(with_token({{"id", -5}, {"content", "b"}}), "\"id\" is -5, not a number from 0 to 2147483647");
  EXPECT_EQ(with_token({{"id", 5}, {"content", ""}}), "the added token \"\" (id 5) has no content");
  EXPECT_EQ(with_token({{"id", 5}, {"content", std::string(5000, 'x')}}),
            "the added token with the id 5 has 5000 bytes; at most 4096 are read");
}

TEST(JsonTokenizer, RefusesTemplatesOutsideTheVocabulary) {
  json description = small_bpe();
  description["post_processor"] = json::parse(R"({"type": "TemplateProcessing", "pair": [],
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [77], "tokens": ["<s>"]}}})");
  EXPECT_EQ(error_of(description).message(), "the id 77 is outside the vocabulary of 5 tokens");
  description["post_processor"]["special_tokens"] = json::object();
  EXPECT_EQ(error_of(description).message(), "\"<s>\" is not among the special_tokens");
}

// transformers writes there what it was trained with, and encodes texts whole all the same.
TEST(JsonTokenizer, TruncationAndPaddingChangeNothing) {
  json description = small_bpe({"a b"});
  const std::string fingerprint = JsonTokenizer::parse(description.dump()).fingerprint();
  EXPECT_EQ(encode(description, "abcd"), (Ids{5, 2, 3}));
  description["truncation"] = description["padding"] = nullptr;
  EXPECT_NE(JsonTokenizer::parse(description.dump()).fingerprint(), "");
  const std::string with_nulls = JsonTokenizer::parse(description.dump()).fingerprint();
  description["truncation"] = {{"max_length", 2}, {"strategy", "LongestFirst"}};
  description["padding"] = {{"strategy", {{"Fixed", 8}}}, {"pad_id", 0}};
  EXPECT_EQ(encode(description, "abcd"), (Ids{5, 2, 3}));
  EXPECT_EQ(JsonTokenizer::parse(description.dump()).fingerprint(), with_nulls);
  description["padding"] = 1;
  EXPECT_EQ(error_of(description).message(), "\"padding\" is not an object");
}

TEST(JsonTokenizer, ManyWaysToReadATextAreAnError) {
  // A token that begins at every character and ends nowhere, as an added token and as one of the model.
  json description = small_bpe();
  description["added_tokens"] = json::array({{{"id", 5}, {"content", std::string(4000, 'a') + "x"}}});
  const std::string text(50'000, 'a');
  const Error error = caught([&] { encode(description, text); });
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_EQ(error.message(), "a text of 50000 bytes takes more than 29577216 steps");
  EXPECT_EQ(error.where(), "tokenizer.json: added_tokens");
  json unigram = {{"model", {{"type", "Unigram"}, {"unk_id", 0}}}};
  unigram["model"]["vocab"] = json::array(
      {json::array({"?", -9.0}), json::array({"a", -1.0}), json::array({std::string(4000, 'a') + "x", -2.0})});
  EXPECT_EQ(caught([&] { encode(unigram, text); }).where(), "tokenizer.json: model");
  EXPECT_EQ(encode(unigram, std::string(2'000, 'a')).size(), 2'000u);
}

TEST(JsonTokenizer, TokensThatAreNoTextAreRefused) {
  json description = small_bpe();
  description["model"]["vocab"][std::string(5'000, 'a')] = 5;
  EXPECT_EQ(error_of(description).message(), "the token with the id 5 has 5000 bytes; at most 4096 are read");
  description = {{"model", {{"type", "Unigram"}, {"unk_id", 0}}}};
  description["model"]["vocab"] = json::array({json::array({std::string(5'000, 'a'), -1.0})});
  EXPECT_EQ(error_of(description).message(), "the token with the id 0 has 5000 bytes; at most 4096 are read");
  description = small_bpe();
  description["model"]["end_of_word_suffix"] = std::string(5'000, 'a');
  EXPECT_EQ(error_of(description).message(), "a prefix or suffix of 5000 bytes; at most 4096 are read");
}

// In time that grows with what is decoded, whatever stands how often in it.
TEST(JsonTokenizer, SuffixesBecomeSpaces) {
  json description = small_bpe();
  description["decoder"] = {{"type", "BPEDecoder"}, {"suffix", "ab"}};
  description["model"]["vocab"]["aabbab"] = 5;
  description["model"]["vocab"]["abab"] = 6;
  EXPECT_EQ(JsonTokenizer::parse(description.dump()).decode(Ids{5, 6, 2, 5}), "a b   cab");
  description["decoder"] = {{"type", "Sequence"},
                            {"decoders", {{{"type", "Fuse"}}, {{"type", "BPEDecoder"}, {"suffix", "a"}}}}};
  const Ids ids(2'000'000, 0);
  EXPECT_EQ(JsonTokenizer::parse(description.dump()).decode(ids), "");
}

TEST(JsonTokenizer, DeepNestingIsAnError) {
  std::string deep = R"({"type": "Sequence", "normalizers": [)", end = "]}";
  std::string text = R"({"type": "NFC"})";
  for (int i = 0; i < 500; ++i) text = deep + text + end;
  EXPECT_EQ(caught([&] { JsonTokenizer::parse(R"({"normalizer": )" + text + "}"); }).kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace causeway::formats
