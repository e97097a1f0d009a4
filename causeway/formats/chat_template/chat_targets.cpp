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

// What the template writes because of add_generation_prompt, after `messages`.
std::string prompt_after(const ChatTemplate& chat_template, const ChatInput& input, nlohmann::ordered_json messages) {
  ChatInput asked = input;
  asked.messages = std::move(messages);
  asked.add_generation_prompt = true;
  std::string prompt;
  try {
    const RenderedChat chat = chat_template.render(asked);
    for (const ChatSpan& span : chat.spans)
      if (span.in_generation_prompt) prompt += chat.text.substr(span.begin, span.end - span.begin);
  } catch (const Error&) {
    // A template may refuse messages that end so.
  }
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
  for (size_t at = 0; at < prompt.size(); ++at) {
    const char open = prompt[at];
    if (open != '<' && open != '[') continue;
    const size_t end = prompt.find(open == '<' ? '>' : ']', at);
    if (end == std::string_view::npos) continue;
    const std::string closing = fmt::format("{}/{}", open, prompt.substr(at + 1, end - at));
    if (template_text.find(closing) != std::string_view::npos) return prompt.substr(0, at);
  }
  return prompt;
}

// Where the header ends in what a turn writes before anything of its message but the role; `role_end`: behind the role,
// where that is written.
size_t header_end(std::string_view head, std::string_view prompt, std::optional<size_t> role_end, bool has_content) {
  const std::string_view visible = prompt.substr(0, prompt.find_last_not_of(kWhiteSpace) + 1);
  const size_t place = visible.empty() ? std::string_view::npos : head.find(visible);
  if (place != std::string_view::npos) {
    size_t end = place + visible.size();
    for (size_t i = visible.size(); i < prompt.size() && end < head.size() && head[end] == prompt[i]; ++i) ++end;
    return end;
  }
  if (!head.empty() && prompt.starts_with(head)) return head.size();
  // A template without a prompt that stands here: what it writes around the role is the header.
  if (!role_end) return 0;
  return has_content ? head.size() : *role_end;
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
        if (chat_.spans[i].in_generation) add(chat_.spans[i], 0, turn_of(i));
      return std::move(targets_);
    }
    if (last_ < 0) return {};
    const std::string whole_prompt = generation_prompt(template_, input_, options_.role);
    const std::string prompt(without_opened_section(whole_prompt, template_.text()));
    for (int32_t message = 0; message < static_cast<int32_t>(is_answer_.size()); ++message)
      if (is_answer_[static_cast<size_t>(message)]) add_turn(message, prompt);
    std::ranges::sort(targets_, {}, &TargetSpan::begin);
    return std::move(targets_);
  }

 private:
  // The message whose turn a span is of: what follows all turns is of the last one.
  int32_t turn_of(size_t span) const {
    if (chat_.spans[span].turn >= 0) return chat_.spans[span].turn;
    return span >= end_of_turns_ && !is_answer_.empty() ? static_cast<int32_t>(is_answer_.size()) - 1 : -1;
  }

  void add_turn(int32_t message, std::string_view prompt) {
    std::vector<const ChatSpan*> turn;
    for (size_t i = 0; i < chat_.spans.size(); ++i)
      if (turn_of(i) == message && !chat_.spans[i].in_generation_prompt) turn.push_back(&chat_.spans[i]);
    // A template may keep a message and write it while it is at work on a later one.
    const auto is_own = [&](const ChatSpan& span) { return span.message == message && span.field != "role"; };
    if (std::ranges::none_of(turn, [&](const ChatSpan* span) { return is_own(*span); }))
      for (const ChatSpan& span : chat_.spans)
        if (is_own(span)) turn.push_back(&span);
    std::string head;
    std::optional<size_t> role_end;
    bool has_content = false;
    for (const ChatSpan* span : turn) {
      has_content = is_own(*span);
      if (has_content) break;
      head += chat_.text.substr(span->begin, span->end - span->begin);
      if (span->message == message) role_end = head.size();
    }
    size_t skipped = header_end(head, prompt, role_end, has_content);
    for (const ChatSpan* span : turn) {
      const size_t here = std::min(skipped, span->end - span->begin);
      // What another message says is not the answer's, wherever it stands.
      if (span->message < 0 || span->message == message) add(*span, here, message);
      skipped -= here;
    }
  }

  // The span without its first `skipped` bytes.
  void add(const ChatSpan& span, size_t skipped, int32_t message) {
    if (options_.turns == ChatTurns::kLast && message != last_) return;
    const size_t begin = span.begin + skipped;
    if (begin >= span.end) return;
    if (!targets_.empty() && targets_.back().end == begin && targets_.back().message == message)
      targets_.back().end = span.end;
    else
      targets_.push_back({begin, span.end, message});
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
