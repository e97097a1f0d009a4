// The chat templates of a Hugging Face directory, found as transformers finds them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Names that templates go by: the one of all chats, and the one of chats with tools where there is such a one.
constexpr std::string_view kDefaultChatTemplate = "default";
constexpr std::string_view kToolChatTemplate = "tool_use";

// The file of the first one, beside a tokenizer's.
constexpr std::string_view kChatTemplateFileName = "chat_template.jinja";

struct ChatTemplateFile {
  std::string name;   // "default", "tool_use", "rag"
  std::string text;   // Jinja
  std::string where;  // the file, for messages
};

// All templates that a directory has: chat_template.jinja ("default") and additional_chat_templates/NAME.jinja; without
// any of these, "chat_template" of tokenizer_config.json, a text or a list of {name, template}; without that,
// chat_template.json. Empty where there is none. Throws Error(kCorrupt) naming the file for what is not of the format.
std::vector<ChatTemplateFile> read_chat_template_files(const std::string& directory);

}  // namespace causeway::formats
