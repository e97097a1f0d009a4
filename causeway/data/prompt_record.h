// A prompt that is to be answered as a line of JSON: "prompt" is a text or a list of messages. What stands beside it
// ("answer", say) is for whoever judges a completion.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "causeway/data/chat_record.h"

namespace causeway::data {

// The prompt alone: rendered by a chat template, which asks for an answer, or a text in ChatRecord::prompt. Throws
// Error naming `where`: kInvalidArgument for a record without "prompt" (with the fields that it has), with an empty one
// or with "completion" beside it; kUnsupported where the last message is the assistant's; and for messages as
// read_chat_record() does.
ChatRecord read_prompt_record(const nlohmann::ordered_json& record, const std::string& where);

}  // namespace causeway::data
