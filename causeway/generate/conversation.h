// A conversation with a model, turn by turn: what its chat template makes of it, and by what the model ends an answer.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "causeway/formats/chat_template/chat_template.h"
#include "causeway/formats/chat_template/template_files.h"
#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::generate {

// What ends an answer by a template: the first special token that the template writes behind one; where it writes none
// there, the text that it writes, but for white space at its end. Empty where it writes nothing, or refuses the
// conversation by which it is asked.
struct AnswerEnd {
  std::optional<int32_t> token;
  std::string text;
};

class Conversation {
 public:
  // Keeps the tokenizer. `date`: what the template is told where it asks. Throws what ChatTemplate::parse() does.
  Conversation(const formats::ChatTemplateFile& file, const Tokenizer& tokenizer,
               const std::optional<formats::ChatDate>& date);

  const AnswerEnd& answer_end() const { return answer_end_; }

  // A turn's text. Where the template reads content in parts only, the text becomes one.
  void add(const std::string& role, const std::string& content);
  // Messages as ChatInput has them.
  void add(nlohmann::ordered_json messages);
  const nlohmann::ordered_json& messages() const { return messages_; }

  // Of all turns so far, up to where the answer begins (add_generation_prompt): text, and ids, encoded as the
  // conversations of training are (ChatEncoder). Throws Error(kInvalidArgument) naming the template where it refuses
  // the conversation, or writes nothing of what the last turn says.
  std::string prompt_text() const;
  std::vector<int32_t> prompt() const;

 private:
  formats::RenderedChat render(nlohmann::ordered_json messages, bool asks) const;
  bool writes_texts() const;
  AnswerEnd find_answer_end() const;

  const Tokenizer& tokenizer_;
  formats::ChatTemplate template_;
  nlohmann::ordered_json variables_;
  std::optional<formats::ChatDate> date_;
  bool takes_parts_ = false;
  AnswerEnd answer_end_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace causeway::generate
