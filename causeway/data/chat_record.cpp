#include "causeway/data/chat_record.h"

#include <algorithm>
#include <array>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"
#include "causeway/base/printable.h"

namespace causeway::data {
namespace {

using ChatJson = nlohmann::ordered_json;

constexpr const char* kKnownForms =
    "Known are: messages; conversations (ShareGPT); prompt and completion; instruction, input and output (Alpaca); "
    "chosen and rejected (preference pairs).";

// At most so many fields of a record are listed.
constexpr size_t kMostFields = 20;

class ChatRecordReader {
 public:
  ChatRecordReader(ChatJson record, const std::string& where) : record_(std::move(record)), where_(where) {}

  ChatRecord read() {
    if (has("messages")) {
      add_system();
      add_messages("messages", true);
    } else if (has("conversations")) {
      add_system();
      add_messages("conversations", true);
    } else if (has("prompt") && has("completion")) {
      read_pair();
    } else if (has("instruction") && has("output")) {
      read_instruction();
    } else {
      refuse(ErrorKind::kInvalidArgument,
             fmt::format("the record is no conversation of a known form; its fields are {}", names_of_fields(record_)),
             kKnownForms);
    }
    if (result_.is_rendered() && result_.input.messages.empty())
      refuse(ErrorKind::kInvalidArgument, "the conversation has no messages", "Leave the record out.");
    read_beside();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(ErrorKind kind, const std::string& what, const std::string& hint) const {
    throw Error(kind, what, where_, hint);
  }

  // Null stands for a field that is not there.
  bool has(const char* field) const {
    const auto found = record_.find(field);
    return found != record_.end() && !found->is_null();
  }

  std::string text(const char* field) const {
    const ChatJson& value = record_.at(field);
    if (value.is_string()) return value.get<std::string>();
    refuse(ErrorKind::kInvalidArgument, fmt::format("\"{}\" is a JSON {}, not a text", field, value.type_name()),
           kKnownForms);
  }

  void add_message(std::string_view role, std::string content, bool is_trained) {
    if (result_.input.messages.is_null()) result_.input.messages = ChatJson::array();
    result_.input.messages.push_back({{"role", role}, {"content", std::move(content)}});
    result_.weights.push_back(is_trained ? 1.0f : 0.0f);
  }

  void add_system() {
    if (!has("system") || text("system").empty()) return;
    add_message("system", text("system"), false);
    has_system_beside_ = true;
  }

  void read_pair() {
    const ChatJson &prompt = record_["prompt"], &completion = record_["completion"];
    if (prompt.is_string() && completion.is_string()) {
      result_.prompt = prompt.get<std::string>();
      result_.completion = completion.get<std::string>();
    } else if (prompt.is_array() && completion.is_array()) {
      add_system();
      add_messages("prompt", false);
      add_messages("completion", true);
    } else {
      refuse(ErrorKind::kInvalidArgument,
             fmt::format("\"prompt\" is a JSON {} and \"completion\" a JSON {}", prompt.type_name(),
                         completion.type_name()),
             "Both must be texts, or both lists of messages.");
    }
  }

  void read_instruction() {
    add_system();
    std::string instruction = text("instruction");
    if (has("input") && !text("input").empty()) instruction += "\n" + text("input");
    add_message("user", std::move(instruction), false);
    add_message("assistant", text("output"), true);
  }

  void add_messages(const char* field, bool may_train) {
    ChatJson& messages = record_[field];
    if (!messages.is_array())
      refuse(ErrorKind::kInvalidArgument,
             fmt::format("\"{}\" is a JSON {}, not a list of messages", field, messages.type_name()), kKnownForms);
    if (result_.input.messages.is_null()) result_.input.messages = ChatJson::array();
    size_t number = 0;
    for (ChatJson& message : messages) {
      field_ = field;
      number_ = ++number;
      if (!message.is_object()) refuse_message(fmt::format("is a JSON {}, not an object", message.type_name()));
      if (message.contains("from") && message.contains("value") && !message.contains("role")) rename_fields(message);
      result_.weights.push_back(take_message(message, may_train));
      if (has_system_beside_ && result_.input.messages.size() == 1 && message["role"] == "system")
        refuse_message("is a system one, and \"system\" stands beside it", ErrorKind::kInvalidArgument,
                       "Give the system message once.");
      result_.input.messages.push_back(std::move(message));
    }
  }

  [[noreturn]] void refuse_message(const std::string& what, ErrorKind kind = ErrorKind::kInvalidArgument,
                                   const std::string& hint = "") const {
    refuse(kind, fmt::format("message {} of \"{}\" {}", number_, field_, what),
           hint.empty() ? "A message is an object with \"role\" and \"content\" (ShareGPT: \"from\" and \"value\")."
                        : hint);
  }

  // From ShareGPT's names of fields and roles.
  void rename_fields(ChatJson& message) const {
    static constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
        {"human", "user"},        {"user", "user"},      {"gpt", "assistant"},   {"assistant", "assistant"},
        {"chatgpt", "assistant"}, {"bing", "assistant"}, {"bard", "assistant"},  {"model", "assistant"},
        {"system", "system"},     {"tool", "tool"},      {"observation", "tool"}};
    if (!message["from"].is_string()) refuse_message("says \"from\" whom it is in something that is no text");
    const auto from = message["from"].get<std::string>();
    const auto* const role = std::ranges::find(kRoles, from, &std::pair<std::string_view, std::string_view>::first);
    if (role == std::end(kRoles))
      refuse_message(
          fmt::format("is from \"{}\"", printable(from)), ErrorKind::kUnsupported,
          "Known are human, gpt, system, tool and names that stand for the first two; write others, as calls "
          "of functions, as \"messages\".");
    ChatJson renamed = {{"role", role->second}, {"content", message["value"]}};
    for (const auto& [name, value] : message.items())
      if (name != "from" && name != "value") renamed[name] = value;
    message = std::move(renamed);
  }

  // Takes out of a message what is not the template's. What its turn weighs.
  float take_message(ChatJson& message, bool may_train) const {
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string()) refuse_message("has no \"role\"");
    for (const char* key : {"train", "training", "train_detail", "loss"})
      if (message.contains(key))
        refuse_message(fmt::format("has the key \"{}\"", key), ErrorKind::kUnsupported,
                       "Say with \"weight\" what a turn weighs in the loss: 1, or 0 where it is not trained on.");
    if (const auto content = message.find("content"); content != message.end()) check_content(*content);
    const bool is_assistant = *role == "assistant";
    const float usual = is_assistant && may_train ? 1 : 0;
    const auto found = message.find("weight");
    if (found == message.end()) return usual;
    const ChatJson value = *found;
    message.erase(found);
    if (value.is_null()) return usual;
    const std::string shown = printable(value.dump(-1, ' ', true));
    const auto weight = value.is_number() ? static_cast<float>(value.get<double>()) : -1.0f;
    if (weight != 0 && !(weight >= kLeastWeight && weight <= kMostWeight))
      refuse_message(
          fmt::format("has the weight {}", shown), ErrorKind::kUnsupported,
          fmt::format("A turn weighs 0, where it is not trained on, or from {:g} to {:g}.", kLeastWeight, kMostWeight));
    if (weight > 0 && !is_assistant)
      refuse_message(fmt::format("is the {}'s and has the weight {}", printable(role->get<std::string>()), shown),
                     ErrorKind::kUnsupported, "Turns of the assistant are trained on.");
    if (weight > 0 && !may_train)
      refuse_message(fmt::format("has the weight {}", shown), ErrorKind::kUnsupported,
                     "Nothing of a prompt is trained on: move the turn to the completion, or leave its weight out.");
    return weight;
  }

  void check_content(const ChatJson& content) const {
    if (content.is_string() || content.is_null()) return;
    if (!content.is_array()) refuse_message(fmt::format("has a JSON {} as its content", content.type_name()));
    for (const ChatJson& part : content) {
      if (part.is_object() && part.contains("type") && part["type"] == "text" && part.contains("text") &&
          part["text"].is_string())
        continue;
      const std::string type = part.is_object() && part.contains("type") && part["type"].is_string()
                                   ? fmt::format("the type \"{}\"", printable(part["type"].get<std::string>()))
                                   : "no type";
      refuse_message(fmt::format("has a part of {}", type), ErrorKind::kUnsupported,
                     "Parts are read of the type \"text\", with their text under \"text\".");
    }
  }

  // What stands beside the messages.
  void read_beside() {
    if (!result_.is_rendered()) {
      for (const char* field : {"tools", "documents", "system", "chat_template_kwargs"})
        if (has(field))
          refuse(ErrorKind::kInvalidArgument,
                 fmt::format("\"{}\" stands beside a prompt and a completion that are texts", field),
                 "No chat template is used for them; write the record as messages.");
      return;
    }
    if (has("tools")) {
      result_.input.tools = record_["tools"];
      if (result_.input.tools.is_string()) {
        const std::string tools_text = result_.input.tools.get<std::string>();
        result_.input.tools =
            tools_text.empty() ? ChatJson() : parse_ordered_json(tools_text, {.name = "\"tools\"", .where = where_});
      }
      if (!result_.input.tools.is_null() && !result_.input.tools.is_array())
        refuse(ErrorKind::kInvalidArgument, "\"tools\" is no list", "Give a list of JSON schemas, or its JSON text.");
      if (result_.input.tools.is_array() && result_.input.tools.empty()) result_.input.tools = nullptr;
    }
    if (has("documents")) {
      if (!record_["documents"].is_array())
        refuse(ErrorKind::kInvalidArgument, "\"documents\" is no list",
               "Give a list of objects, as the chat template reads them, or rename the field.");
      if (!record_["documents"].empty()) result_.input.documents = record_["documents"];
    }
    if (has("chat_template_kwargs")) {
      if (!record_["chat_template_kwargs"].is_object())
        refuse(ErrorKind::kInvalidArgument, "\"chat_template_kwargs\" is no object", "Give variables by their names.");
      result_.input.variables = record_["chat_template_kwargs"];
    }
  }

  ChatJson record_;
  const std::string& where_;
  ChatRecord result_;
  bool has_system_beside_ = false;  // it is the first message
  const char* field_ = "";
  size_t number_ = 0;
};

}  // namespace

std::string names_of_fields(const nlohmann::ordered_json& record) {
  std::string names;
  size_t count = 0;
  for (const auto& [name, value] : record.items()) {
    if (count++ == kMostFields) return names + ", ...";
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", printable(name));
  }
  return names.empty() ? "none" : names;
}

ChatRecord read_chat_record(nlohmann::ordered_json record, const std::string& where) {
  return ChatRecordReader(std::move(record), where).read();
}

}  // namespace causeway::data
