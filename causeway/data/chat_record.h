// A conversation as a line of JSON, in one of the forms that data sets are published in. They are told by their fields:
//   messages                       a list of {"role", "content", ...}, as chat programs take them
//   conversations                  a list of {"from", "value"} (ShareGPT) or of {"role", "content"}
//   prompt, completion             both texts, or both lists of messages
//   instruction, output [, input]  (Alpaca)
// Of a record with the fields of several the first of these counts. Preference pairs are no conversations
// (preference_record.h). Beside them: "tools" (a list of JSON schemas, or
// the JSON text of one), "documents" (a list of objects), "system" (the first message), "chat_template_kwargs"
// (variables of the chat template). A message's "weight" is what each target of its turn weighs in the loss: 1 where it
// is not given, 0 where the turn is not trained on.
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
  std::vector<float> weights;  // by message: of the targets of its turn; 0: it has none
  // In place of messages: texts that stand one after the other as they are, of which the completion is trained on.
  std::optional<std::string> prompt, completion;

  bool is_rendered() const { return !prompt.has_value(); }
};

// The names of a record's fields, for messages.
std::string names_of_fields(const nlohmann::ordered_json& record);

// Throws Error naming `where`: kInvalidArgument for a record of no known form (with the fields it has), and for
// messages that are none (with their number) and a system message beside another; kUnsupported for parts of a message
// that are no text, for a weight above 0 on what is not the assistant's or within a prompt, and for other keys that
// would say what is trained on. What a weight may be, beside 0.
constexpr float kLeastWeight = 1e-6f, kMostWeight = 1e6f;

ChatRecord read_chat_record(nlohmann::ordered_json record, const std::string& where);

}  // namespace causeway::data
