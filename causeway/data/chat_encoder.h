// A conversation to token ids, each with what it weighs in the loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/data/chat_options.h"
#include "causeway/data/chat_record.h"
#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::data {

struct ChatSample {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<float> weights;  // of each id in the loss, 0 where it is no target
  ChatCounts counts;           // of this one
  size_t first_target = 0;     // the byte of the whole text at which the first target begins; its size without one
};

// Both sides of a preference pair; without ids where it is left out.
struct PreferenceSample {
  ChatSample chosen, rejected;
  ChatCounts counts;        // of the pair
  std::string prompt_text;  // what both begin with, before the first target
};

// The variables that transformers gives every chat template: bos_token, eos_token and what else the tokenizer's files
// name.
nlohmann::ordered_json chat_variables(const Tokenizer& tokenizer);

class ChatEncoder {
 public:
  // Keeps the tokenizer. `around` stands around the texts of a prompt and a completion. Throws what
  // ChatTemplate::parse() does.
  ChatEncoder(ChatOptions options, const Tokenizer& tokenizer, DocumentTokens around);

  // A rendered chat is encoded as transformers does: what spells a special token is one, nothing is put around it. A
  // token is a target where it covers a byte that is one, and so is what stands between two such tokens of a turn; the
  // first token of a sample never is, for nothing comes before it to predict it from. One that covers bytes of two
  // turns weighs what the heavier one does. Throws Error naming `where`
  // for records that are none (read_chat_record()), what the template refuses, what it leaves out of a message that is
  // trained on, messages without a template, and (unless they are left out: then ids are empty) samples without a
  // target, with their text.
  ChatSample encode(nlohmann::ordered_json record, const std::string& where) const;
  // The same of both sides of a pair, each with the prompt. What is an error of one side is one of the pair, and one is
  // left out with the other. Throws Error naming `where` as read_preference_record() does, too, for sides that are the
  // same tokens, and for weights other than 0 and 1.
  PreferenceSample encode_preference(nlohmann::ordered_json record, const std::string& where) const;
  // A prompt that asks for an answer, and behind it, as targets, the record as one line of JSON in ASCII. `text` is the
  // prompt's. Throws Error naming `where` as read_prompt_record() does, for what the template refuses, and where the
  // tokenizer does not give the record's text back.
  ChatSample encode_prompt(const nlohmann::ordered_json& record, const std::string& where) const;

 private:
  struct Rendered {
    std::string text;
    std::vector<formats::TargetSpan> targets;
  };
  struct NamedTemplate {
    std::string name;
    formats::ChatTemplate chat_template;
    bool reads_parts;  // of a message's content
  };
  void add_template(const formats::ChatTemplateFile& file);
  // The template of a record, which is given its variables and the date.
  const NamedTemplate& template_of(ChatRecord& record, const std::string& where) const;
  // Throws Error(kInvalidArgument) where the template leaves out the content of this message (from 0).
  static void require_content(const ChatRecord& record, const formats::RenderedChat& chat, size_t message);
  Rendered render(ChatRecord& record, ChatSample& sample, const std::string& where) const;
  void encode_pair(const ChatRecord& record, ChatSample& sample) const;
  void truncate(ChatSample& sample) const;

  ChatOptions options_;
  const Tokenizer& tokenizer_;
  DocumentTokens around_;
  nlohmann::ordered_json variables_;
  std::vector<NamedTemplate> templates_;
};

}  // namespace causeway::data
