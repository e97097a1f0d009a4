#include "causeway/generate/conversation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/data/chat_encoder.h"
#include "causeway/formats/chat_template/chat_targets.h"

namespace causeway::generate {
namespace {

using ChatMessages = nlohmann::ordered_json;

ChatMessages message_of(const std::string& role, const std::string& content, bool as_part) {
  if (!as_part) return {{"role", role}, {"content", content}};
  return {{"role", role}, {"content", ChatMessages::array({ChatMessages{{"type", "text"}, {"text", content}}})}};
}

bool is_of_message(const formats::ChatSpan& span, int32_t message) {
  return span.message == message && span.field != "role";
}

}  // namespace

Conversation::Conversation(const formats::ChatTemplateFile& file, const Tokenizer& tokenizer,
                           const std::optional<formats::ChatDate>& date)
    : tokenizer_(tokenizer),
      template_(formats::ChatTemplate::parse(file.text, file.where)),
      variables_(data::chat_variables(tokenizer)),
      date_(date) {
  takes_parts_ = !writes_texts();
  answer_end_ = find_answer_end();
}

void Conversation::add(const std::string& role, const std::string& content) {
  messages_.push_back(message_of(role, content, takes_parts_));
}

void Conversation::add(ChatMessages messages) {
  for (ChatMessages& message : messages) messages_.push_back(std::move(message));
}

formats::RenderedChat Conversation::render(ChatMessages messages, bool asks) const {
  formats::ChatInput input;
  input.messages = std::move(messages);
  input.variables = variables_;
  input.date = date_;
  input.add_generation_prompt = asks;
  return template_.render(input);
}

bool Conversation::writes_texts() const {
  try {
    const formats::RenderedChat chat = render(ChatMessages::array({message_of("user", "question", false)}), false);
    return std::ranges::any_of(chat.spans, [](const formats::ChatSpan& span) { return is_of_message(span, 0); });
  } catch (const Error&) {
    return true;  // what is wrong shows with the conversation itself
  }
}

AnswerEnd Conversation::find_answer_end() const {
  constexpr int32_t kAnswer = 1;
  formats::ChatInput input;
  // Some templates end an answer by what begins the next turn.
  input.messages = ChatMessages::array({message_of("user", "question", takes_parts_),
                                        message_of("assistant", "answer", takes_parts_),
                                        message_of("user", "another", takes_parts_)});
  input.variables = variables_;
  input.date = date_;
  formats::RenderedChat chat;
  std::vector<formats::TargetSpan> targets;
  try {
    chat = template_.render(input);
    targets = formats::target_spans(template_, input, chat);
  } catch (const Error&) {
    return {};
  }
  size_t begin = 0, end = 0;
  for (const formats::ChatSpan& span : chat.spans)
    if (is_of_message(span, kAnswer)) begin = span.end;
  for (const formats::TargetSpan& target : targets)
    if (target.message == kAnswer) end = std::max(end, target.end);
  if (begin == 0 || end <= begin) return {};
  std::vector<int32_t> ids;
  std::vector<formats::TextSpan> tokens;
  tokenizer_.encode_spans_to(chat.text, true, ids, tokens);
  for (size_t i = 0; i < ids.size(); ++i)
    if (tokens[i].begin >= begin && tokens[i].begin < end && tokenizer_.is_special(ids[i])) return {ids[i], {}};
  const std::string tail = chat.text.substr(begin, end - begin);
  const size_t last = tail.find_last_not_of(" \t\r\n");
  return {std::nullopt, last == std::string::npos ? std::string() : tail.substr(0, last + 1)};
}

std::string Conversation::prompt_text() const {
  formats::RenderedChat chat = render(messages_, true);
  const auto last = static_cast<int32_t>(messages_.size()) - 1;
  const bool is_written =
      std::ranges::any_of(chat.spans, [&](const formats::ChatSpan& span) { return is_of_message(span, last); });
  if (!messages_.empty() && !is_written)
    throw Error(ErrorKind::kInvalidArgument, "the chat template writes nothing of what the last message says",
                template_.where(), "Give another template: --chat-template FILE.");
  return std::move(chat.text);
}

std::vector<int32_t> Conversation::prompt() const {
  return tokenizer_.encode(prompt_text(), {.read_special_tokens = true});
}

}  // namespace causeway::generate
