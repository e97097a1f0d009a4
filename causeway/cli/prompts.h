// The prompts that "causeway generate" continues, from its arguments or a file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::cli {

// A text, token ids that stand as they are, or the messages of a conversation.
struct Prompt {
  std::string text;
  std::vector<int32_t> tokens;
  bool is_tokens = false;
  std::string where;                     // for errors: the file and its line
  nlohmann::ordered_json messages = {};  // null where it is another kind
};

enum class PromptFormat { kText, kJsonLines, kChatLines };

// A prompt a line: of JSON Lines the "prompt" (a text) or "tokens" (a list of ids) of its objects, where they are of
// chats "prompt" or "messages"; of text the line itself without the carriage return that may end it; empty lines are
// none. `path` may be "-" for standard input. Throws Error naming the line that is neither, and where there is no
// prompt.
std::vector<Prompt> read_prompts(const std::string& path, PromptFormat format);

// "1, 2 3": ids with commas or spaces between them. Throws Error(kInvalidArgument) naming what is no id, and where
// there is none.
Prompt parse_prompt_tokens(const std::string& ids);

}  // namespace causeway::cli
