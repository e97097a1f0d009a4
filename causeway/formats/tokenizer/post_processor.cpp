#include "causeway/formats/tokenizer/post_processor.h"

#include <ranges>
#include <vector>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

int32_t checked_id(const TokenizerPart& part, const nlohmann::json& id, int64_t vocabulary_size) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocabulary_size))
    part.fail(fmt::format("the id {} is outside the vocabulary of {} tokens",
                          id.is_number() ? id.dump() : std::string(id.type_name()), vocabulary_size));
  return id.get<int32_t>();
}

AroundText read_template(const TokenizerPart& part, int64_t vocabulary_size) {
  part.require_known_keys({"type", "single", "pair", "special_tokens"});
  const TokenizerPart special_tokens = part.part("special_tokens");
  AroundText around;
  bool has_text = false;
  for (const TokenizerPart& piece : part.parts("single")) {
    piece.require_known_keys({"SpecialToken", "Sequence"});
    if (piece.has("Sequence")) {
      if (piece.part("Sequence").text("id") != "A") piece.refuse("another text than A in a template of one");
      if (has_text) piece.refuse("a template with the text twice");
      has_text = true;
      continue;
    }
    const std::string name = piece.part("SpecialToken").text("id");
    if (!special_tokens.has(name)) piece.fail(fmt::format("\"{}\" is not among the special_tokens", name));
    const TokenizerPart token = special_tokens.part(name);
    for (const nlohmann::json& id : token.list("ids"))
      (has_text ? around.after : around.before).push_back(checked_id(token, id, vocabulary_size));
  }
  if (!has_text) part.refuse("a template without the text");
  return around;
}

// BertProcessing and RobertaProcessing: ["[SEP]", 102] behind the text, ["[CLS]", 101] before it.
AroundText read_enclosure(const TokenizerPart& part, int64_t vocabulary_size) {
  part.require_known_keys({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const auto token = [&](std::string_view key) {
    const nlohmann::json& pair = part.list(key);
    if (pair.size() != 2) part.fail(fmt::format("\"{}\" is not a token and its id", key));
    return std::vector<int32_t>{checked_id(part, pair[1], vocabulary_size)};
  };
  return {token("cls"), token("sep")};
}

// Each around what those before it have made.
AroundText read_post_processors(const TokenizerPart& part, int64_t vocabulary_size) {
  part.require_known_keys({"type", "processors"});
  AroundText around;
  std::vector<std::vector<int32_t>> before;
  for (const TokenizerPart& one : part.parts("processors")) {
    AroundText outer = read_post_processor(one, vocabulary_size);
    before.push_back(std::move(outer.before));
    around.after.insert(around.after.end(), outer.after.begin(), outer.after.end());
  }
  for (const std::vector<int32_t>& ids : before | std::views::reverse)
    around.before.insert(around.before.end(), ids.begin(), ids.end());
  return around;
}

}  // namespace

AroundText read_post_processor(const TokenizerPart& part, int64_t vocabulary_size) {
  const std::string type = part.type();
  if (type == "TemplateProcessing") return read_template(part, vocabulary_size);
  if (type == "BertProcessing" || type == "RobertaProcessing") return read_enclosure(part, vocabulary_size);
  if (type == "Sequence") return read_post_processors(part, vocabulary_size);
  if (type == "ByteLevel") {
    part.require_known_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  part.refuse(fmt::format("the post-processor \"{}\"", type));
}

}  // namespace causeway::formats
