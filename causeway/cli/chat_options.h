// How `causeway generate --chat` makes a conversation of what it is given.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "causeway/cli/model_argument.h"
#include "causeway/generate/conversation.h"

namespace causeway::cli {

struct ChatArguments {
  bool chat = false;
  std::string chat_template, system, date;
};

// --chat, --chat-template, --system and --date. Gives the first of them.
CLI::Option* add_chat_options(CLI::App& command, ChatArguments& arguments);

// By the template of --chat-template, or else the one that the model was trained with, or else its tokenizer's; with
// the system message. Throws Error(kNotFound) where there is none, and what Conversation throws.
generate::Conversation begin_conversation(const OpenedModel& model, const ChatArguments& arguments);

}  // namespace causeway::cli
