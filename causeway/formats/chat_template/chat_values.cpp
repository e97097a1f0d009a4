#include "causeway/formats/chat_template/chat_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

// Names of one and the same thing; transformers fills the first two from whichever a message has.
constexpr std::array<const char*, 3> kReasoningKeys = {"reasoning_content", "thinking", "reasoning"};

JinjaValue value_of_message(const nlohmann::ordered_json& message, int32_t index, FieldNames& fields) {
  const TextMark own{.message = index};
  const auto mark_of = [&](const std::string& key) {
    TextMark mark = own;
    mark.field = fields.number(key);
    return mark;
  };
  auto dict = std::make_shared<JinjaDict>();
  const auto add = [&](const std::string& key, const JinjaValue& value) {
    dict->set(JinjaValue::string(key, mark_of(key)), value);
  };
  std::optional<JinjaValue> reasoning;
  for (const char* key : kReasoningKeys) {
    const auto found = message.find(key);
    if (reasoning || found == message.end() || found->is_null()) continue;
    reasoning = value_of_json(*found, mark_of(key));
  }
  if (reasoning) add("thinking", *reasoning);
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) add(key, value_of_json(value, mark_of(key)));
  if (reasoning) add("reasoning_content", *reasoning);
  return JinjaValue::object(JinjaKind::kDict, std::move(dict), own);
}

}  // namespace

int32_t FieldNames::number(std::string_view name) {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<int32_t>(found - names_.begin());
  names_.emplace_back(name);
  return static_cast<int32_t>(names_.size() - 1);
}

JinjaValue value_of_json(const nlohmann::ordered_json& json, const TextMark& mark) {
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::object: {
      auto dict = std::make_shared<JinjaDict>();
      for (const auto& [key, value] : json.items())
        dict->set(JinjaValue::string(key, mark), value_of_json(value, mark));
      return JinjaValue::object(JinjaKind::kDict, std::move(dict), mark);
    }
    case nlohmann::ordered_json::value_t::array: {
      JinjaValues items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(value_of_json(item, mark));
      return JinjaValue::list(std::move(items), mark);
    }
    case nlohmann::ordered_json::value_t::string:
      return JinjaValue::string(json.get_ref<const std::string&>(), mark);
    case nlohmann::ordered_json::value_t::boolean:
      return JinjaValue::boolean(json.get<bool>(), mark);
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        throw Error(
            ErrorKind::kUnsupported,
            fmt::format("the chat has the integer {}, which 64 bits with a sign do not hold", json.get<uint64_t>()));
      return JinjaValue::integer(json.get<int64_t>(), mark);
    case nlohmann::ordered_json::value_t::number_integer:
      return JinjaValue::integer(json.get<int64_t>(), mark);
    case nlohmann::ordered_json::value_t::number_float:
      return JinjaValue::floating(json.get<double>(), mark);
    default:
      return JinjaValue::none(mark);
  }
}

JinjaValue value_of_messages(const nlohmann::ordered_json& messages, FieldNames& fields) {
  if (!messages.is_array() || messages.empty())
    throw Error(ErrorKind::kInvalidArgument, "a chat is a list of messages, at least one");
  JinjaValues values;
  for (const auto& message : messages) {
    if (!message.is_object())
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("message {} of the chat is no object with \"role\" and \"content\"", values.size()));
    values.push_back(value_of_message(message, static_cast<int32_t>(values.size()), fields));
  }
  return JinjaValue::list(std::move(values), {.field = fields.number("messages")});
}

std::optional<JinjaValue> find_chat_variable(const ChatInput& input, const std::string& name, FieldNames& fields) {
  const auto mark = [&] { return TextMark{.field = fields.number(name)}; };
  if (name == "messages") return value_of_messages(input.messages, fields);
  if (name == "tools") return value_of_json(input.tools, mark());
  if (name == "documents") return value_of_json(input.documents, mark());
  if (name == "add_generation_prompt") return JinjaValue::boolean(input.add_generation_prompt, mark());
  const auto found = input.variables.find(name);
  if (found == input.variables.end()) return std::nullopt;
  return value_of_json(*found, mark());
}

}  // namespace causeway::formats
