// Chat templates: the Jinja texts by which Hugging Face models say how a conversation becomes one text. What is
// rendered equals what transformers' apply_chat_template() renders (its sandbox, trim_blocks, lstrip_blocks, break and
// continue,
// {% generation %}); a construct beyond docs/chat_templates.md's list is refused by its name. Every rendered character
// knows where it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// What strftime_now() sees as now.
struct ChatDate {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;

  // "2026-11-30" or "2026-11-30 17:50:00". Throws Error(kInvalidArgument).
  static ChatDate parse(std::string_view text);
};

// What a template is rendered with. Objects keep the order of their keys, which `tojson` shows.
struct ChatInput {
  // A list of objects with "role" and "content" or whatever the template reads. As in transformers, a message's keys
  // whose value is null count as absent, and reasoning_content, thinking and reasoning stand for one another.
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools = nullptr;      // a list of JSON schemas; null: none
  nlohmann::ordered_json documents = nullptr;  // a list of objects; null: none
  // Every other variable: bos_token, eos_token, enable_thinking and what else the template knows.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = false;
  std::optional<ChatDate> date;  // a template that asks for the time without it fails
};

// A run of rendered characters of one origin.
struct ChatSpan {
  size_t begin = 0, end = 0;  // bytes of RenderedChat::text
  // The message whose value this is (its index in ChatInput::messages); -1 for the template's own text and for other
  // variables.
  int32_t message = -1;
  // The message's key ("content", "role", "tool_calls"); of another variable its name ("tools", "bos_token"); empty for
  // the template's own text.
  std::string field;
  // The message that the template was at work on when it wrote this: the one that a loop goes through or a macro is
  // given, or in a loop over numbers the first that it has written something of. Without these it is `message`; -1:
  // none, as before and after the messages.
  int32_t turn = -1;
  bool in_generation = false;         // within {% generation %}
  bool in_generation_prompt = false;  // written because add_generation_prompt is set

  bool operator==(const ChatSpan&) const = default;
};

struct RenderedChat {
  std::string text;             // UTF-8
  std::vector<ChatSpan> spans;  // in order, covering all of `text`; neighbours differ
  bool used_date = false;       // the text depends on ChatInput::date
};

class ChatTemplateProgram;  // what a template is parsed into

// A parsed template. Immutable: threads may render at the same time.
class ChatTemplate {
 public:
  // `where`: the file, for messages, which add the template's line. Throws Error(kInvalidArgument) for what is not
  // Jinja and Error(kUnsupported) for a construct that is not here.
  static ChatTemplate parse(std::string_view text, std::string where);

  // Throws Error(kInvalidArgument): what the template says by raise_exception(), what it does wrong with this input,
  // and what takes more steps, nesting or text than any chat needs.
  RenderedChat render(const ChatInput& input) const;

  // Whether the template has {% generation %}.
  bool has_generation_marks() const;

  const std::string& text() const;  // the template itself
  const std::string& where() const;

 private:
  explicit ChatTemplate(std::shared_ptr<const ChatTemplateProgram> program) : program_(std::move(program)) {}

  std::shared_ptr<const ChatTemplateProgram> program_;
};

}  // namespace causeway::formats
