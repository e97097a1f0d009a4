#include "causeway/formats/tokenizer/byte_level_json.h"

#include <nlohmann/json.hpp>

#include "causeway/formats/ordered_members.h"
#include "causeway/formats/tokenizer/byte_characters.h"

namespace causeway::formats {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct ByteLevelStyle {
  bool splits = false;  // as GPT-2 does
  OrderedJson added = OrderedJson::array();
  bool trims_offsets = false;  // a post-processor, which changes no id
};

std::string tokenizer_json(const TrainedBytePairs& vocabulary, const ByteLevelStyle& style) {
  const auto written = [&](size_t id) {
    std::string text;
    append_byte_characters(text, vocabulary.tokens[id]);
    return text;
  };
  OrderedJson ids = OrderedJson::object(), merges = OrderedJson::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) append_member(ids, written(id), id);
  for (const auto& [left, right] : vocabulary.merges)
    merges.push_back(written(static_cast<size_t>(left)) + " " + written(static_cast<size_t>(right)));
  const OrderedJson byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", style.splits}};
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", style.added},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", byte_level},
                            {"post_processor", style.trims_offsets ? byte_level : OrderedJson()},
                            {"decoder", byte_level},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", ids},
                              {"merges", merges}}}};
  return json.dump(1) + "\n";
}

}  // namespace

std::string byte_pair_tokenizer_json(const TrainedBytePairs& trained) {
  const OrderedJson end_of_text = {{"id", trained.tokens.size()},
                                   {"content", "<|endoftext|>"},
                                   {"single_word", false},
                                   {"lstrip", false},
                                   {"rstrip", false},
                                   {"normalized", false},
                                   {"special", true}};
  return tokenizer_json(trained, {.splits = true, .added = OrderedJson::array({end_of_text}), .trims_offsets = true});
}

std::string byte_tokenizer_json() {
  TrainedBytePairs bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.tokens.emplace_back(1, static_cast<char>(byte));
  return tokenizer_json(bytes, {});
}

}  // namespace causeway::formats
