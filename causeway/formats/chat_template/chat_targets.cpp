#include "causeway/formats/chat_template/chat_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

std::optional<RenderedChat> rendered_prompt(const ChatTemplate& chat_template, const ChatInput& input,
                                            nlohmann::ordered_json messages) {
  ChatInput asked = input;
  asked.messages = std::move(messages);
  asked.add_generation_prompt = true;
  try {
    return chat_template.render(asked);
  } catch (const Error&) {
    return std::nullopt;  // a template may refuse messages that end so
  }
}

// What the template writes because of add_generation_prompt, after `messages`.
std::string prompt_after(const ChatTemplate& chat_template, const ChatInput& input, nlohmann::ordered_json messages) {
  std::string prompt;
  const std::optional<RenderedChat> chat = rendered_prompt(chat_template, input, std::move(messages));
  if (chat)
    for (const ChatSpan& span : chat->spans)
      if (span.in_generation_prompt) prompt += chat->text.substr(span.begin, span.end - span.begin);
  return prompt;
}

// The generation prompt, asked for where the first answer of this chat begins; where the template refuses that, after a
// question of its own.
std::string generation_prompt(const ChatTemplate& chat_template, const ChatInput& input, const std::string& role) {
  using Json = nlohmann::ordered_json;
  Json before = Json::array();
  for (const Json& message : input.messages) {
    if (message.value("role", Json()) == role) break;
    before.push_back(message);
  }
  std::string prompt = before.empty() ? "" : prompt_after(chat_template, input, std::move(before));
  for (const Json& content : {Json("?"), Json::array({{{"type", "text"}, {"text", "?"}}})})
    if (prompt.empty())
      prompt = prompt_after(chat_template, input, Json::array({{{"role", "user"}, {"content", content}}}));
  return prompt;
}

// Up to a section that it opens and that an answer closes, as <think> and </think>: that is the answer's beginning.
std::string_view without_opened_section(std::string_view prompt, std::string_view template_text) {
  for (size_t at = prompt.find_first_of("<["); at != std::string_view::npos; at = prompt.find_first_of("<[", at + 1)) {
    const size_t end = prompt.find(prompt[at] == '<' ? '>' : ']', at);
    const bool is_first = prompt.find_first_not_of(kWhiteSpace) == at;  // <assistant> is the header itself
    if (is_first || end == std::string_view::npos) continue;
    const std::string closing = fmt::format("{}/{}", prompt[at], prompt.substr(at + 1, end - at));
    if (template_text.find(closing) != std::string_view::npos) return prompt.substr(0, at);
  }
  return prompt;
}

// How long `head` and `prompt` begin alike; where both go on, up to the last whole tag or line.
size_t common_beginning(std::string_view head, std::string_view prompt) {
  const size_t most = std::min(head.size(), prompt.size());
  size_t size = 0;
  while (size < most && head[size] == prompt[size]) ++size;
  if (size == most) return size;
  const size_t last = head.substr(0, size).find_last_of("<[>]\n");
  if (last == std::string_view::npos) return 0;
  const size_t end = head[last] == '<' || head[last] == '[' ? last : last + 1;
  return head.substr(0, end).find_first_not_of(kWhiteSpace) == std::string_view::npos ? 0 : end;
}

// How much of the prompt stands in what a turn writes before anything of its message but the role: the end of that, or
// 0.
size_t prompted_end(std::string_view head, std::string_view prompt) {
  const size_t last = prompt.find_last_not_of(kWhiteSpace);
  if (last == std::string_view::npos) return 0;
  const size_t place = head.find(prompt.substr(0, last + 1));
  if (place == std::string_view::npos) return common_beginning(head, prompt);
  size_t end = place + last + 1;
  for (size_t i = last + 1; i < prompt.size() && end < head.size() && head[end] == prompt[i]; ++i) ++end;
  return end;
}

// Whether the template writes anything of its own behind the content of an answer that ends so and is not the last
// message, of one of them at least. None where no answer is such.
std::optional<bool> closes_answers(const std::vector<ChatSpan>& spans, const std::vector<bool>& is_answer) {
  std::optional<bool> closes;
  for (size_t message = 0; message + 1 < is_answer.size(); ++message) {
    if (!is_answer[message]) continue;
    size_t last = spans.size();
    for (size_t i = 0; i < spans.size(); ++i)
      if (spans[i].message == static_cast<int32_t>(message)) last = i;
    if (last + 1 >= spans.size() || spans[last].field != "content" || spans[last].turn != spans[last].message) continue;
    closes = spans[last + 1].turn == spans[last].turn;
    if (*closes) break;
  }
  return closes;
}

class TargetFinder {
 public:
  TargetFinder(const ChatTemplate& chat_template, const ChatInput& input, const RenderedChat& chat,
               const TargetOptions& options)
      : template_(chat_template), input_(input), chat_(chat), options_(options) {
    for (const auto& message : input.messages) {
      const bool is_own = message.value("role", nlohmann::ordered_json()) == options.role;
      if (is_own) last_ = static_cast<int32_t>(is_answer_.size());
      is_answer_.push_back(is_own);
    }
    end_of_turns_ = chat.spans.size();
    while (end_of_turns_ > 0 && chat.spans[end_of_turns_ - 1].turn < 0) --end_of_turns_;
  }

  std::vector<TargetSpan> run() {
    if (template_.has_generation_marks()) {
      for (size_t i = 0; i < chat_.spans.size(); ++i)
        if (chat_.spans[i].in_generation) add(chat_.spans[i].begin, chat_.spans[i].end, generated_turn_of(i));
      return std::move(targets_);
    }
    if (last_ < 0) return {};
    const std::string whole_prompt = generation_prompt(template_, input_, options_.role);
    const std::string prompt(without_opened_section(whole_prompt, template_.text()));
    const bool closes = closes_answers_here();
    for (int32_t message = 0; message < static_cast<int32_t>(is_answer_.size()); ++message) {
      if (!is_answer_[static_cast<size_t>(message)]) continue;
      add_turn(message, prompt);
      if (!closes) add_next_tag(message);
    }
    std::ranges::sort(targets_, {}, &TargetSpan::begin);
    return std::move(targets_);
  }

 private:
  // The message whose turn a span is of: what follows all turns is of the last one.
  int32_t turn_of(size_t span) const {
    if (chat_.spans[span].turn >= 0) return chat_.spans[span].turn;
    return span >= end_of_turns_ && !is_answer_.empty() ? static_cast<int32_t>(is_answer_.size()) - 1 : -1;
  }

  // The same within {% generation %}: what is of no turn is of the nearest one in the same block.
  int32_t generated_turn_of(size_t span) const {
    const std::vector<ChatSpan>& spans = chat_.spans;
    if (spans[span].turn >= 0) return spans[span].turn;
    size_t before = span, after = span;
    while (true) {
      const bool goes_back = before > 0 && spans[before - 1].in_generation;
      const bool goes_on = after + 1 < spans.size() && spans[after + 1].in_generation;
      if (!goes_back && !goes_on) return turn_of(span);
      if (goes_back && spans[--before].turn >= 0) return spans[before].turn;
      if (goes_on && spans[++after].turn >= 0) return spans[after].turn;
    }
  }

  // Whether the template closes answers itself, which this chat shows or one of its own.
  bool closes_answers_here() const {
    if (closes_answers(chat_.spans, is_answer_).value_or(false)) return true;
    using Json = nlohmann::ordered_json;
    const auto says = [](const std::string& role) { return Json{{"role", role}, {"content", "?"}}; };
    ChatInput plain = input_;
    plain.messages = Json::array({says("user"), says(options_.role), says("user")});
    plain.add_generation_prompt = false;
    try {
      return closes_answers(template_.render(plain).spans, {false, true, false}).value_or(true);
    } catch (const Error&) {
      return true;
    }
  }

  // Of a template that does not: the tag by which the next message begins ends this one.
  void add_next_tag(int32_t message) {
    const auto is_turn = [&](const ChatSpan& span) { return span.turn == message; };
    const auto last = std::find_if(chat_.spans.rbegin(), chat_.spans.rend(), is_turn);
    if (last == chat_.spans.rbegin() || last == chat_.spans.rend()) return;
    const ChatSpan& next = *last.base();
    const bool is_answer = next.turn >= 0 && is_answer_[static_cast<size_t>(next.turn)];
    if (is_answer || next.message >= 0 || !next.field.empty() || next.in_generation_prompt) return;
    const std::string_view text = std::string_view(chat_.text).substr(next.begin, next.end - next.begin);
    if (!text.starts_with('<') && !text.starts_with('[')) return;
    const size_t end = text.find(text[0] == '<' ? '>' : ']');
    if (end != std::string_view::npos) add(next.begin, next.begin + end + 1, message);
  }

  // What a turn writes before anything of its message but the role.
  struct Head {
    std::string text;
    size_t begin = 0;                // in the chat
    std::optional<size_t> role_end;  // behind the role, where that is written
    bool has_content = false;        // something of the message follows
  };

  static bool is_own(const ChatSpan& span, int32_t message) { return span.message == message && span.field != "role"; }

  Head head_of(const std::vector<const ChatSpan*>& turn, int32_t message) const {
    Head head;
    if (!turn.empty()) head.begin = turn[0]->begin;
    for (const ChatSpan* span : turn) {
      head.has_content = is_own(*span, message);
      if (head.has_content) break;
      head.text += chat_.text.substr(span->begin, span->end - span->begin);
      if (span->message == message) head.role_end = head.text.size();
    }
    return head;
  }

  size_t header_end(const Head& head, int32_t message, std::string_view prompt) const {
    if (head.text.find_first_not_of(kWhiteSpace) == std::string::npos) return 0;
    if (const size_t end = prompted_end(head.text, prompt); end > 0) return end;
    // What the template would write after the messages before this one, where this chat begins so.
    if (message > 0) {
      const std::optional<RenderedChat> before = rendered_prompt(
          template_, input_,
          nlohmann::ordered_json(input_.messages.begin(), input_.messages.begin() + static_cast<ptrdiff_t>(message)));
      const std::string_view written = before ? before->text : std::string_view();
      const std::string_view here = std::string_view(chat_.text).substr(0, head.begin);
      if (before && written.starts_with(here))
        if (const size_t end = common_beginning(head.text, written.substr(head.begin)); end > 0) return end;
    }
    // What stands around the role.
    return !head.role_end ? 0 : head.has_content ? head.text.size() : *head.role_end;
  }

  // How many bytes at the end of the chat's last turn are a header for an answer to come, which some templates write
  // whether they are asked or not.
  size_t next_header_size(const std::vector<const ChatSpan*>& turn, int32_t message, std::string_view header) const {
    if (header.empty() || message + 1 != static_cast<int32_t>(is_answer_.size())) return 0;
    std::string tail;
    bool has_content = false;
    for (const ChatSpan* span : turn) {
      if (is_own(*span, message)) {
        tail.clear();
        has_content = true;
      } else {
        tail += chat_.text.substr(span->begin, span->end - span->begin);
      }
    }
    return has_content && tail.ends_with(header) ? header.size() : 0;
  }

  void add_turn(int32_t message, std::string_view prompt) {
    std::vector<const ChatSpan*> turn;
    for (size_t i = 0; i < chat_.spans.size(); ++i)
      if (turn_of(i) == message && !chat_.spans[i].in_generation_prompt) turn.push_back(&chat_.spans[i]);
    // A template may keep a message and write it while it is at work on a later one.
    if (std::ranges::none_of(turn, [&](const ChatSpan* span) { return is_own(*span, message); }))
      for (const ChatSpan& span : chat_.spans)
        if (is_own(span, message)) turn.push_back(&span);
    const Head head = head_of(turn, message);
    size_t skipped = header_end(head, message, prompt);
    const size_t end =
        turn.empty() ? 0 : turn.back()->end - next_header_size(turn, message, head.text.substr(0, skipped));
    for (const ChatSpan* span : turn) {
      const size_t here = std::min(skipped, span->end - span->begin);
      // What another message says is not the answer's, wherever it stands.
      if (span->message < 0 || span->message == message) add(span->begin + here, std::min(span->end, end), message);
      skipped -= here;
    }
  }

  void add(size_t begin, size_t end, int32_t message) {
    if (begin >= end || (options_.turns == ChatTurns::kLast && message != last_)) return;
    if (!targets_.empty() && targets_.back().end == begin && targets_.back().message == message)
      targets_.back().end = end;
    else
      targets_.push_back({begin, end, message});
  }

  const ChatTemplate& template_;
  const ChatInput& input_;
  const RenderedChat& chat_;
  const TargetOptions& options_;
  std::vector<bool> is_answer_;  // by message
  int32_t last_ = -1;            // the last answer
  size_t end_of_turns_ = 0;      // the spans from here on are of no turn
  std::vector<TargetSpan> targets_;
};

}  // namespace

std::vector<TargetSpan> target_spans(const ChatTemplate& chat_template, const ChatInput& input,
                                     const RenderedChat& chat, const TargetOptions& options) {
  return TargetFinder(chat_template, input, chat, options).run();
}

}  // namespace causeway::formats
