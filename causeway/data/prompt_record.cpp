#include "causeway/data/prompt_record.h"

#include "causeway/base/error.h"

namespace causeway::data {

ChatRecord read_prompt_record(const nlohmann::ordered_json& record, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& hint,
                          ErrorKind kind = ErrorKind::kInvalidArgument) { throw Error(kind, what, where, hint); };
  const auto prompt = record.find("prompt");
  if (prompt == record.end() || prompt->is_null())
    refuse(fmt::format("the record has no \"prompt\"; its fields are {}", names_of_fields(record)),
           "A prompt is a text or a list of messages under \"prompt\", with the right answer under \"answer\".");
  if (record.contains("completion"))
    refuse("\"completion\" stands beside the prompt, and is what the model is to write",
           "Rename the field to \"answer\" where it is the right one, or leave it out.");
  if (prompt->is_string()) {
    if (prompt->get_ref<const std::string&>().empty()) refuse("\"prompt\" is empty", "Give at least one character.");
    ChatRecord text;
    text.prompt = prompt->get<std::string>();
    return text;
  }
  if (!prompt->is_array())
    refuse(fmt::format("\"prompt\" is a JSON {}", prompt->type_name()), "Give a text, or a list of messages.");
  nlohmann::ordered_json messages = {{"messages", *prompt}};
  for (const char* beside : {"system", "tools", "documents", "chat_template_kwargs"})
    if (record.contains(beside)) messages[beside] = record[beside];
  ChatRecord chat = read_chat_record(std::move(messages), where);
  const nlohmann::ordered_json& last = chat.input.messages.back();
  if (last.value("role", "") == "assistant")
    refuse("the last message of \"prompt\" is the assistant's, which would have to be gone on with",
           "End the prompt with what is to be answered.", ErrorKind::kUnsupported);
  chat.input.add_generation_prompt = true;
  return chat;
}

}  // namespace causeway::data
