// What stands beside a vocabulary, compared with the ids that transformers 5.24 gives for the same files.
#include "causeway/formats/tokenizer/tokenizer_settings.h"

#include <nlohmann/json.hpp>

#include "causeway/formats/tokenizer/byte_level_json.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/data_test_support.h"
#include "tests/formats/gpt2.h"

namespace causeway::formats {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

constexpr EncodeOptions kAll{.read_special_tokens = true, .add_special_tokens = true};

json special_token(int id, const std::string& content) {
  return {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
}

// A token a byte, then <s> (256) and </s> (257).
json bytes_and_ends() {
  json description = json::parse(byte_tokenizer_json());
  description["added_tokens"] = {special_token(256, "<s>"), special_token(257, "</s>")};
  description["pre_tokenizer"]["use_regex"] = true;
  return description;
}

JsonTokenizer with(const TokenizerSettingsFiles& files) { return JsonTokenizer::parse(bytes_and_ends().dump(), files); }

std::string refusal_of_settings(const TokenizerSettingsFiles& files) {
  return caught([&] { with(files); }).message();
}

Gpt2Tokenizer gpt2_with(const TokenizerSettingsFiles& files) {
  const std::map<std::string, std::string> own = gpt2().files();
  return Gpt2Tokenizer::parse(own.at("vocab.json"), own.at("merges.txt"), "vocab.json", "merges.txt", files);
}

TEST(TokenizerSettings, TokensOfTheDecoderMapAreAdded) {
  const JsonTokenizer tokenizer = with({{"tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast",
      "added_tokens_decoder": {"259": {"content": "<x>", "special": true, "normalized": false},
                               "258": {"content": "ACME", "special": false}}})"}});
  EXPECT_EQ(tokenizer.encode("ab ACME <x>", kAll), (Ids{97, 98, 32, 258, 32, 259}));
  EXPECT_EQ(tokenizer.encode("ACME<x>"), (Ids{258, '<', 'x', '>'})) << "special ones are read where that is asked for";
  EXPECT_EQ(tokenizer.vocabulary_size(), 260);
  EXPECT_TRUE(tokenizer.is_special(259));
  EXPECT_EQ(tokenizer.decode(Ids{258, 259}), "ACME<x>");
  EXPECT_NE(tokenizer.fingerprint(), with({}).fingerprint());
  // Its flags count.
  const JsonTokenizer stripping = with({{"tokenizer_config.json", R"({"added_tokens_decoder": {
      "256": {"content": "<s>", "special": true, "normalized": false, "lstrip": true}}})"}});
  EXPECT_EQ(stripping.encode("ab <s>", kAll), (Ids{97, 98, 256}));
  EXPECT_EQ(with({}).encode("ab <s>", kAll), (Ids{97, 98, 32, 256}));
  EXPECT_EQ(
      refusal_of_settings({{"tokenizer_config.json", R"({"added_tokens_decoder": {"300": {"content": "ACME"}}})"}}),
      "the added token \"ACME\" has the id 300 where 258 is the next one that is free");
  EXPECT_EQ(refusal_of_settings({{"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "ACME"}}})"}}),
            "\"x\" is not the id of a token");
}

TEST(TokenizerSettings, AddedTokensAndTheMapCountWithoutADecoderMap) {
  const TokenizerSettingsFiles files = {
      {"added_tokens.json", R"({"ACME": 258})"},
      {"special_tokens_map.json",
       R"({"pad_token": "<pad>", "eos_token": {"content": "</s>"}, "additional_special_tokens": ["<q>"]})"},
      {"tokenizer_config.json", R"({"eos_token": "<s>", "bos_token": "<s>"})"}};
  const JsonTokenizer tokenizer = with(files);
  EXPECT_EQ(tokenizer.encode("ACME <pad><q>", kAll), (Ids{258, 32, 259, 260}));
  EXPECT_EQ(tokenizer.encode("ACME"), Ids{258});
  EXPECT_EQ(tokenizer.end_of_text(), 257) << "the map is read after the configuration";
  EXPECT_EQ(tokenizer.begin_of_text(), 256);
  EXPECT_EQ(tokenizer.files().size(), 4u);
  // With a decoder map neither file says anything.
  TokenizerSettingsFiles newer = files;
  newer["tokenizer_config.json"] = R"({"eos_token": "<s>", "added_tokens_decoder": {}})";
  EXPECT_EQ(with(newer).end_of_text(), 256);
  EXPECT_EQ(with(newer).vocabulary_size(), 258);
}

TEST(TokenizerSettings, NamedTokensAreAddedInTheirOrder) {
  const JsonTokenizer tokenizer = with(
      {{"tokenizer_config.json",
        R"({"additional_special_tokens": ["<a>", "<b>"], "image_token": "<image>", "pad_token": "[PAD]", "eos_token": "a"})"}});
  EXPECT_EQ(tokenizer.encode("[PAD]<image><a><b>", kAll), (Ids{258, 259, 260, 261}));
  EXPECT_EQ(tokenizer.end_of_text(), 'a');
  const JsonTokenizer twice =
      with({{"tokenizer_config.json", R"({"bos_token": "<e>"})"},
            {"special_tokens_map.json", R"({"eos_token": {"content": "<e>", "lstrip": true}})"}});
  EXPECT_EQ(twice.encode("a <e>", kAll), (Ids{'a', 258}));
  EXPECT_EQ(refusal_of_settings({{"tokenizer_config.json", R"({"image_token": "<i>", "audio_token": "<o>"})"}}),
            "\"<i>\" is not the only token without an id: which one each gets depends on the order of keys");
  // What names tokens that are there changes no id.
  EXPECT_EQ(with({{"tokenizer_config.json", R"({"pad_token": "</s>", "unk_token": null})"}}).fingerprint(),
            with({}).fingerprint());
}

TEST(TokenizerSettings, ASpaceInFrontIsWhereTheClassTakesItFrom) {
  const auto ids = [](const std::string& name, const std::string& value) {
    const std::string text = R"({"tokenizer_class": ")" + name + R"(", "add_prefix_space": )" + value + "}";
    return with({{"tokenizer_config.json", text}}).encode("ab");
  };
  EXPECT_EQ(ids("PreTrainedTokenizerFast", "true"), (Ids{97, 98}));
  EXPECT_EQ(ids("GPT2Tokenizer", "true"), (Ids{32, 97, 98}));
  EXPECT_EQ(ids("Qwen2Tokenizer", "true"), (Ids{32, 97, 98}));
  EXPECT_EQ(ids("GPT2Tokenizer", "false"), (Ids{97, 98}));
  json metaspace = bytes_and_ends();
  metaspace["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  const auto parse = [&](const std::string& value) {
    return JsonTokenizer::parse(metaspace.dump(), {{"tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer",
        "add_prefix_space": )" + value + "}"}});
  };
  parse("true");
  EXPECT_EQ(caught([&] { parse("false"); }).message(),
            "add_prefix_space is false, and tokenizer.json puts a space in front of a text");
}

TEST(TokenizerSettings, AGpt2VocabularyHasThemToo) {
  const Gpt2Tokenizer added = gpt2_with({{"added_tokens.json", R"({"<pad>": 50257, "ACME": 50258})"}});
  EXPECT_EQ(added.encode("ACME <pad> x"), (Ids{50258, 220, 50257, 2124}));
  EXPECT_EQ(added.decode(Ids{50258, 220, 50257, 2124}), "ACME <pad> x");
  EXPECT_EQ(added.encode("x<|endoftext|>", kAll), (Ids{87, 50256}));
  EXPECT_NE(added.fingerprint(), gpt2().fingerprint());
  const Gpt2Tokenizer spaced =
      gpt2_with({{"tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})"}});
  EXPECT_EQ(spaced.encode("Hello world"), (Ids{18435, 995}));
  EXPECT_EQ(spaced.encode("\nx"), (Ids{220, 198, 87}));
  EXPECT_EQ(spaced.encode("a<|endoftext|>b", kAll), (Ids{257, 50256, 275}));
  EXPECT_EQ(spaced.cut_position("ab\nab ab", 1), 5u);
  const Gpt2Tokenizer flags = gpt2_with({{"tokenizer_config.json", R"({"added_tokens_decoder": {
      "50256": {"content": "<|endoftext|>", "special": true, "normalized": false, "rstrip": true},
      "50257": {"content": "ACME", "special": false, "normalized": false, "lstrip": true, "rstrip": true,
                "single_word": true}}})"}});
  EXPECT_EQ(flags.encode("Hello ACME world", kAll), (Ids{15496, 50257, 6894}));
  EXPECT_EQ(flags.encode("HelloACME world<|endoftext|>  x", kAll), (Ids{15496, 2246, 11682, 995, 50256, 87}));
  EXPECT_EQ(flags.cut_position("ab ab", 1), 5u);
  EXPECT_EQ(
      caught([] { gpt2_with({{"tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})"}}); }).message(),
      "tokenizer_class is \"Qwen2Tokenizer\": of a vocabulary and its merges, GPT2Tokenizer's splitting of text "
      "alone is known");
  // What says what is so anyway changes nothing.
  EXPECT_EQ(gpt2_with({{"tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>",
      "add_prefix_space": false})"}})
                .fingerprint(),
            gpt2().fingerprint());
}

TEST(TokenizerSettings, AGpt2VocabularyIsToldWhatStandsAroundATextATokenizerJsonSaysIt) {
  const auto ids = [](const std::string& settings) {
    return gpt2_with({{"tokenizer_config.json", settings}}).encode("Hello world", kAll);
  };
  EXPECT_EQ(ids("{}"), (Ids{15496, 995}));
  EXPECT_EQ(ids(R"({"add_bos_token": true})"), (Ids{50256, 15496, 995}));
  EXPECT_EQ(ids(R"({"add_bos_token": true, "add_eos_token": true})"), (Ids{50256, 15496, 995, 50256}));
  EXPECT_EQ(ids(R"({"add_bos_token": true, "bos_token": "<s>"})"), (Ids{50257, 15496, 995}));
  const TokenizerSettingsFiles both = {
      {"tokenizer_config.json",
       R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true, "add_eos_token": true})"}};
  EXPECT_EQ(with(both).encode("ab", kAll), (Ids{97, 98}));
  json description = bytes_and_ends();
  description["post_processor"] = json::parse(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
      {"type": "TemplateProcessing", "pair": [], "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}},
      {"type": "BertProcessing", "cls": ["", 65], "sep": ["</s>", 257]}]})");
  const JsonTokenizer tokenizer = JsonTokenizer::parse(description.dump(), both);
  EXPECT_EQ(tokenizer.around_text(), (AroundText{{65, 256}, {257}}));
  EXPECT_EQ(tokenizer.encode("ab", kAll), (Ids{65, 256, 97, 98, 257}));
  description["post_processor"]["processors"][1]["single"].push_back({{"Sequence", {{"id", "A"}}}});
  EXPECT_EQ(caught([&] { JsonTokenizer::parse(description.dump()); }).message(),
            "a template with the text twice is not interpreted");
}

TEST(TokenizerSettings, TextIsNotCutWhereATokenThatIsReadCrosses) {
  const JsonTokenizer tokenizer = with({{"tokenizer_config.json", R"({"added_tokens_decoder": {
      "258": {"content": "ab", "special": true, "normalized": false, "rstrip": true}}})"}});
  EXPECT_EQ(tokenizer.cut_position("ab ab", 1), 2u);
  EXPECT_EQ(tokenizer.cut_position("ab ab", 1, true), 5u);
}

TEST(ByteTokenizer, HasATokenizerJsonForOthers) {
  const JsonTokenizer tokenizer = JsonTokenizer::parse(byte_tokenizer_json());
  EXPECT_EQ(tokenizer.vocabulary_size(), 256);
  std::string text;
  for (int c = 1; c < 0x3000; c += 7)
    text += c < 128 ? std::string(1, static_cast<char>(c)) : "\u00e9\u4e16\U0001F600 ";
  EXPECT_EQ(tokenizer.encode(text), ByteTokenizer().encode(text));
  EXPECT_EQ(tokenizer.decode(ByteTokenizer().encode(text)), text);
  // What reads it knows it again, unless something stands beside it.
  const TemporaryDirectory directory;
  directory.write("tokenizer.json", json::parse(byte_tokenizer_json()).dump());
  EXPECT_EQ(load_tokenizer(directory.path().string())->name(), "bytes");
  directory.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_EQ(load_tokenizer(directory.path().string())->name(), "bytes");
  directory.write("tokenizer_config.json", R"({"pad_token": "<pad>"})");
  EXPECT_EQ(load_tokenizer(directory.path().string())->name(), "tokenizer.json");
}

}  // namespace
}  // namespace causeway::formats
