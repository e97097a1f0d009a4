// A conversation as a line of JSON, in one of the forms that data sets are published in. They are told by their fields:
//   messages                       a list of {"role", "content", ...}, as chat programs take them
//   conversations                  a list of {"from", "value"} (ShareGPT) or of {"role", "content"}
//   prompt, completion             both texts, or both lists of messages
//   instruction, output [, input]  (Alpaca)
// Of a record with the fields of several the first of these counts. Preference pairs are no conversations
// (preference_record.h). Beside them: "tools" (a list of JSON schemas, or
// the JSON text of one), "documents" (a list of objects), "system" (the first message), "chat_template_kwargs"
// (variables of the chat template). A message's "weight" is 1 where its turn is trained on and 0 where it is not.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "causeway/formats/chat_template/chat_template.h"

namespace causeway::data {

struct ChatRecord {
  // Rendered by a chat template, without what all records have in common (its variables, the date).
  formats::ChatInput input;
  std::vector<bool> is_trained;  // by message: whether its turn may be
  // In place of messages: texts that stand one after the other as they are, of which the completion is trained on.
  std::optional<std::string> prompt, completion;

  bool is_rendered() const { return !prompt.has_value(); }
};

// The names of a record's fields, for messages.
std::string names_of_fields(const nlohmann::ordered_json& record);

// Throws Error naming `where`: kInvalidArgument for a record of no known form (with the fields it has), and for
// messages that are none (with their number) and a system message beside another; kUnsupported for parts of a message
// that are no text, for weights other than 0 and 1, and for other keys that would say what is trained on.
ChatRecord read_chat_record(nlohmann::ordered_json record, const std::string& where);

}  // namespace causeway::data
