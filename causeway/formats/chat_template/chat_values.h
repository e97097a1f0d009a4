// What a chat is for its template: JSON as values, each with the mark of where it came from.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/chat_template/chat_template.h"
#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// Names of fields, which marks refer to by number; 0 is the empty name.
class FieldNames {
 public:
  int32_t number(std::string_view name);
  const std::string& name(int32_t number) const { return names_[static_cast<size_t>(number)]; }

 private:
  std::vector<std::string> names_ = {""};
};

// Throws Error for integers beyond 64 bits.
JinjaValue value_of_json(const nlohmann::ordered_json& json, const TextMark& mark);

// The variable `messages`. Throws Error for what is no list of objects.
JinjaValue value_of_messages(const nlohmann::ordered_json& messages, FieldNames& fields);

// The variable `name` of the input; none where it has no such.
std::optional<JinjaValue> find_chat_variable(const ChatInput& input, const std::string& name, FieldNames& fields);

}  // namespace causeway::formats
