// The chat templates of a Hugging Face directory, found as transformers finds them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/chat_template/chat_template.h"

namespace causeway::formats {

struct ChatTemplateFile {
  std::string name;   // "default", "tool_use", "rag"
  std::string text;   // Jinja
  std::string where;  // the file, for messages
};

// All templates that a directory has: chat_template.jinja ("default") and additional_chat_templates/NAME.jinja; without
// any of these, "chat_template" of tokenizer_config.json, a text or a list of {name, template}; without that,
// chat_template.json. Empty where there is none. Throws Error(kCorrupt) naming the file for what is not of the format.
std::vector<ChatTemplateFile> read_chat_template_files(const std::string& directory);

// The one called `name`; without a name "tool_use" where there are tools and it is there, otherwise "default". Throws
// Error(kNotFound) with what was looked for, or with the names that there are.
ChatTemplate load_chat_template(const std::string& directory, std::string_view name = {}, bool has_tools = false);

}  // namespace causeway::formats
