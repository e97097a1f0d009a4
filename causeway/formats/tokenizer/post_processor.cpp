#include "causeway/formats/tokenizer/post_processor.h"

#include <limits>
#include <optional>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

// Pieces in order: ids, or in place of nothing the text.
class Template final : public PostProcessor {
 public:
  using Piece = std::optional<std::vector<int32_t>>;
  explicit Template(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}
  std::vector<int32_t> apply(std::vector<int32_t> ids) const override {
    std::vector<int32_t> result;
    for (const Piece& piece : pieces_) {
      const std::vector<int32_t>& from = piece ? *piece : ids;
      result.insert(result.end(), from.begin(), from.end());
    }
    return result;
  }

 private:
  std::vector<Piece> pieces_;
};

class PostProcessorSequence final : public PostProcessor {
 public:
  explicit PostProcessorSequence(std::vector<std::unique_ptr<PostProcessor>> steps) : steps_(std::move(steps)) {}
  std::vector<int32_t> apply(std::vector<int32_t> ids) const override {
    for (const auto& step : steps_) ids = step->apply(std::move(ids));
    return ids;
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> steps_;
};

int32_t checked_id(const TokenizerPart& part, const nlohmann::json& id, int64_t vocabulary_size) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocabulary_size))
    part.fail(fmt::format("the id {} is outside the vocabulary of {} tokens",
                          id.is_number() ? id.dump() : std::string(id.type_name()), vocabulary_size));
  return id.get<int32_t>();
}

std::unique_ptr<PostProcessor> read_template(const TokenizerPart& part, int64_t vocabulary_size) {
  part.require_known_keys({"type", "single", "pair", "special_tokens"});
  const TokenizerPart special_tokens = part.part("special_tokens");
  std::vector<Template::Piece> pieces;
  bool has_text = false;
  for (const TokenizerPart& piece : part.parts("single")) {
    piece.require_known_keys({"SpecialToken", "Sequence"});
    if (piece.has("Sequence")) {
      if (piece.part("Sequence").text("id") != "A") piece.refuse("another text than A in a template of one");
      pieces.emplace_back();
      has_text = true;
      continue;
    }
    const std::string name = piece.part("SpecialToken").text("id");
    if (!special_tokens.has(name)) piece.fail(fmt::format("\"{}\" is not among the special_tokens", name));
    const TokenizerPart token = special_tokens.part(name);
    std::vector<int32_t> ids;
    for (const nlohmann::json& id : token.list("ids")) ids.push_back(checked_id(token, id, vocabulary_size));
    pieces.emplace_back(std::move(ids));
  }
  if (!has_text) part.refuse("a template without the text");
  return std::make_unique<Template>(std::move(pieces));
}

// BertProcessing and RobertaProcessing: ["[SEP]", 102] behind the text, ["[CLS]", 101] before it.
std::unique_ptr<PostProcessor> read_enclosure(const TokenizerPart& part, int64_t vocabulary_size) {
  part.require_known_keys({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const auto token = [&](std::string_view key) {
    const nlohmann::json& pair = part.list(key);
    if (pair.size() != 2) part.fail(fmt::format("\"{}\" is not a token and its id", key));
    return std::vector<int32_t>{checked_id(part, pair[1], vocabulary_size)};
  };
  return std::make_unique<Template>(std::vector<Template::Piece>{token("cls"), std::nullopt, token("sep")});
}

}  // namespace

std::unique_ptr<PostProcessor> read_post_processor(const TokenizerPart& part, int64_t vocabulary_size) {
  const std::string type = part.type();
  if (type == "TemplateProcessing") return read_template(part, vocabulary_size);
  if (type == "BertProcessing" || type == "RobertaProcessing") return read_enclosure(part, vocabulary_size);
  if (type == "ByteLevel") {
    part.require_known_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return std::make_unique<Template>(std::vector<Template::Piece>{std::nullopt});
  }
  if (type == "Sequence") {
    part.require_known_keys({"type", "processors"});
    std::vector<std::unique_ptr<PostProcessor>> steps;
    for (const TokenizerPart& one : part.parts("processors"))
      steps.push_back(read_post_processor(one, vocabulary_size));
    return std::make_unique<PostProcessorSequence>(std::move(steps));
  }
  part.refuse(fmt::format("the post-processor \"{}\"", type));
}

}  // namespace causeway::formats
