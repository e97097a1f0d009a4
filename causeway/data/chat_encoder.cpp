#include "causeway/data/chat_encoder.h"

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/utf8.h"
#include "causeway/data/preference_record.h"
#include "causeway/data/prompt_record.h"
#include "causeway/formats/tokenizer/tokenizer_settings.h"

namespace causeway::data {
namespace {

using formats::TargetSpan;
using formats::TextSpan;

// Bytes of a sample's text that a message shows.
constexpr size_t kShownBytes = 400;

std::string shown_text(const std::string& text) {
  if (text.size() <= kShownBytes) return printable(text);
  size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return printable(text.substr(0, end)) + "...";
}

// Tokens that cover a byte of a span, and what stands between two of them, have the weight of the span's message.
// Spans of tokens do not go back.
std::vector<float> weigh_tokens(const std::vector<TextSpan>& tokens, const std::vector<TargetSpan>& targets,
                                const std::vector<float>& weights) {
  std::vector<float> marks(tokens.size());
  for (const TargetSpan& target : targets) {
    // Empty spans end where they begin, and are passed over at either side.
    size_t first = static_cast<size_t>(
        std::ranges::partition_point(tokens, [&](const TextSpan& token) { return token.end <= target.begin; }) -
        tokens.begin());
    const auto covers = [&](size_t i) {
      return tokens[i].begin < tokens[i].end && tokens[i].begin < target.end && tokens[i].end > target.begin;
    };
    while (first < tokens.size() && tokens[first].begin < target.end && !covers(first)) ++first;
    size_t last = first;
    for (size_t i = first; i < tokens.size() && tokens[i].begin < target.end; ++i)
      if (covers(i)) last = i + 1;
    const float weight = target.message < 0 ? 1.0f : weights[static_cast<size_t>(target.message)];
    for (size_t i = first; i < last; ++i) marks[i] = std::max(marks[i], weight);
  }
  return marks;
}

// Whether a template goes through the parts of a message's content, which a chat of its own shows: it writes their
// texts, and not the list as Python or JSON shows it. Of another one parts are joined, as if the message were one text.
bool reads_parts(const formats::ChatTemplate& chat_template, const nlohmann::ordered_json& variables) {
  formats::ChatInput input;
  input.messages = nlohmann::ordered_json::array();
  input.variables = variables;
  input.date.emplace();
  constexpr std::pair<const char*, const char*> kMessages[] = {{"user", "qzpartsofuserqz"},
                                                               {"assistant", "qzpartsofanswerqz"}};
  for (const auto& [role, marker] : kMessages)
    input.messages.push_back(
        {{"role", role},
         {"content", nlohmann::ordered_json::array({nlohmann::ordered_json{{"type", "text"}, {"text", marker}}})}});
  std::string text;
  try {
    text = chat_template.render(input).text;
  } catch (const Error&) {
    return false;  // as one that takes a list for a text does
  }
  return std::ranges::all_of(kMessages, [&](const auto& message) {
    const std::string marker = message.second;
    const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
    return has(marker) && !has("'text': '" + marker) && !has("\"text\": \"" + marker) && !has("\"text\":\"" + marker);
  });
}

// Where the template says it, and of which record.
Error naming_template(const Error& error, const formats::ChatTemplate& chat_template, const std::string& where) {
  const std::string place = error.where().empty() ? chat_template.where() : error.where();
  return Error(error.kind(), error.message(), fmt::format("{} ({})", where, place), error.hint());
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

bool has_content(const nlohmann::ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return false;
  if (content->is_string()) return !is_blank(content->get_ref<const std::string&>());
  return std::ranges::any_of(*content, [](const nlohmann::ordered_json& part) {
    return !is_blank(part["text"].get_ref<const std::string&>());
  });
}

// Whether the template wrote anything of a message but its role.
bool is_own(const formats::ChatSpan& span, size_t message) {
  return span.message == static_cast<int32_t>(message) && span.field != "role";
}

// Whether something is to be learned behind what the message itself says: by that a model knows to stop.
bool has_end(const formats::RenderedChat& chat, const std::vector<TargetSpan>& targets, size_t message) {
  size_t own_end = 0;
  for (const formats::ChatSpan& span : chat.spans)
    if (is_own(span, message)) own_end = span.end;
  return std::ranges::any_of(targets, [&](const TargetSpan& target) {
    const size_t begin = std::max(target.begin, own_end);
    return target.message == static_cast<int32_t>(message) && begin < target.end &&
           !is_blank(std::string_view(chat.text).substr(begin, target.end - begin));
  });
}

void join_parts(nlohmann::ordered_json& messages) {
  for (nlohmann::ordered_json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    std::string joined;
    for (const nlohmann::ordered_json& part : *content) joined += part["text"].get_ref<const std::string&>();
    *content = std::move(joined);
  }
}

}  // namespace

nlohmann::ordered_json chat_variables(const Tokenizer& tokenizer) {
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  for (const auto& [name, content] : formats::read_tokenizer_settings(tokenizer.files(), "").named)
    variables[name] = content;
  // GPT-2's vocabulary names no others: the same token stands for all.
  if (const std::optional<int32_t> end = tokenizer.end_of_text(); end && tokenizer.name() == "gpt2") {
    for (const char* name : {"bos_token", "eos_token", "unk_token"})
      if (!variables.contains(name)) variables[name] = tokenizer.decode({{*end}});
  }
  return variables;
}

ChatEncoder::ChatEncoder(ChatOptions options, const Tokenizer& tokenizer, DocumentTokens around)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      around_(std::move(around)),
      variables_(chat_variables(tokenizer)) {
  for (const formats::ChatTemplateFile& one : options_.templates) add_template(one);
}

void ChatEncoder::add_template(const formats::ChatTemplateFile& file) {
  formats::ChatTemplate chat_template = formats::ChatTemplate::parse(file.text, file.where);
  const bool has_parts = reads_parts(chat_template, variables_);
  templates_.push_back({file.name, std::move(chat_template), has_parts});
}

ChatSample ChatEncoder::encode(nlohmann::ordered_json object, const std::string& where) const {
  ChatRecord record = read_chat_record(std::move(object), where);
  ChatSample sample;
  if (record.is_rendered()) {
    Rendered rendered = render(record, sample, where);
    std::vector<TextSpan> tokens;
    tokenizer_.encode_spans_to(rendered.text, true, sample.ids, tokens);
    sample.weights = weigh_tokens(tokens, rendered.targets, record.weights);
    sample.text = std::move(rendered.text);
    sample.first_target = rendered.targets.empty() ? sample.text.size() : rendered.targets.front().begin;
    sample.counts.rendered = 1;
  } else {
    encode_pair(record, sample);
    sample.counts.pairs = 1;
  }
  truncate(sample);
  if (!sample.weights.empty()) sample.weights.front() = 0;
  if (std::ranges::any_of(sample.weights, [](float weight) { return weight > 0; })) return sample;
  if (!options_.skip_without_target) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("nothing of the sample is trained on{}: {}",
                            sample.counts.truncated > 0 ? " once it is cut" : "", shown_text(sample.text)),
                where,
                "Turns of the assistant are, unless their weight is 0. --skip-without-target counts such samples and "
                "leaves them out.");
  }
  sample.ids.clear();
  sample.weights.clear();
  sample.counts = {.without_target = 1};
  return sample;
}

PreferenceSample ChatEncoder::encode_preference(nlohmann::ordered_json object, const std::string& where) const {
  PreferenceRecord record = read_preference_record(std::move(object), where);
  PreferenceSample pair;
  const auto encode_side = [&](const char* name, nlohmann::ordered_json& side, ChatSample& sample) {
    try {
      sample = encode(std::move(side), where);
      if (std::ranges::any_of(sample.weights, [](float weight) { return weight != 0 && weight != 1; }))
        throw Error(ErrorKind::kUnsupported, "has a turn of another weight than 0 and 1", where,
                    "Losses of pairs count completions as they are: train on a turn (1) or not (0).");
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("\"{}\": {}", name, error.message()), error.where(), error.hint());
    }
  };
  encode_side("chosen", record.chosen, pair.chosen);
  encode_side("rejected", record.rejected, pair.rejected);
  pair.counts = pair.chosen.counts;
  pair.counts += pair.rejected.counts;
  bool is_left_out = pair.chosen.ids.empty() || pair.rejected.ids.empty();
  if (!is_left_out && pair.chosen.ids == pair.rejected.ids) {
    if (!options_.skip_without_target)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("\"chosen\" and \"rejected\" are the same tokens{}: {}",
                              pair.counts.truncated > 0 ? " once they are cut" : "", shown_text(pair.chosen.text)),
                  where, "Leave the record out, or --skip-without-target counts such pairs and leaves them out.");
    is_left_out = true;
  }
  if (is_left_out) {
    pair.chosen.ids.clear();
    pair.rejected.ids.clear();
    pair.counts = {.without_target = 1};
    return pair;
  }
  pair.counts.preferences = 1;
  // Answers that begin alike are no part of the prompt: pairs of one prompt belong to one split.
  const auto alike = std::ranges::mismatch(pair.chosen.text, pair.rejected.text).in1 - pair.chosen.text.begin();
  pair.prompt_text = pair.chosen.text.substr(
      0, std::min({pair.chosen.first_target, pair.rejected.first_target, static_cast<size_t>(alike)}));
  return pair;
}

ChatSample ChatEncoder::encode_prompt(const nlohmann::ordered_json& object, const std::string& where) const {
  ChatRecord record = read_prompt_record(object, where);
  ChatSample sample;
  if (record.is_rendered()) {
    const NamedTemplate& used = template_of(record, where);
    try {
      formats::RenderedChat chat = used.chat_template.render(record.input);
      sample.counts = {.rendered = 1, .dated = chat.used_date ? uint64_t{1} : 0};
      sample.text = std::move(chat.text);
    } catch (const Error& error) {
      throw naming_template(error, used.chat_template, where);
    }
  } else {
    sample.counts.pairs = 1;
    sample.ids = around_.before;
    sample.text = *record.prompt;
  }
  tokenizer_.encode_to(sample.text, true, sample.ids);
  if (sample.ids.empty()) throw Error(ErrorKind::kInvalidArgument, "the prompt has no token", where, "Leave it out.");
  sample.weights.assign(sample.ids.size(), 0);
  const std::string line = object.dump(-1, ' ', true);
  std::vector<int32_t> ids;
  tokenizer_.encode_to(line, false, ids);
  if (tokenizer_.decode(ids) != line)
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the tokenizer \"{}\" does not give the text of the record back, and so cannot keep it: {}",
                            tokenizer_.name(), shown_text(line)),
                where, "Write the record with other characters.");
  sample.ids.insert(sample.ids.end(), ids.begin(), ids.end());
  sample.weights.resize(sample.ids.size(), 1);
  sample.first_target = sample.text.size();
  return sample;
}

const ChatEncoder::NamedTemplate& ChatEncoder::template_of(ChatRecord& record, const std::string& where) const {
  if (templates_.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "the record is a list of messages, and the tokenizer has no chat template",
                where, "Give one: --chat-template FILE.");
  }
  auto used = templates_.begin();
  if (!record.input.tools.is_null())
    used = std::ranges::find(templates_, formats::kToolChatTemplate, &NamedTemplate::name);
  if (used == templates_.end()) used = templates_.begin();
  if (!used->reads_parts) join_parts(record.input.messages);
  nlohmann::ordered_json variables = variables_;
  for (const auto& [name, value] : record.input.variables.items()) variables[name] = value;
  record.input.variables = std::move(variables);
  record.input.date = options_.date;
  return *used;
}

ChatEncoder::Rendered ChatEncoder::render(ChatRecord& record, ChatSample& sample, const std::string& where) const {
  const NamedTemplate& used = template_of(record, where);
  try {
    formats::RenderedChat chat = used.chat_template.render(record.input);
    std::vector<TargetSpan> targets =
        formats::target_spans(used.chat_template, record.input, chat, {.turns = options_.turns});
    std::erase_if(targets, [&](const TargetSpan& target) {
      return target.message >= 0 && record.weights[static_cast<size_t>(target.message)] == 0;
    });
    std::optional<size_t> last;  // that is trained on
    for (size_t message = record.weights.size(); message-- > 0;) {
      if (record.weights[message] == 0 || (last && options_.turns == formats::ChatTurns::kLast)) continue;
      require_content(record, chat, message);
      if (!last) last = message;
    }
    sample.counts.without_end = last && !has_end(chat, targets, *last) ? 1 : 0;
    sample.counts.dated = chat.used_date ? 1 : 0;
    return {std::move(chat.text), std::move(targets)};
  } catch (const Error& error) {
    throw naming_template(error, used.chat_template, where);
  }
}

void ChatEncoder::require_content(const ChatRecord& record, const formats::RenderedChat& chat, size_t message) {
  if (!has_content(record.input.messages[message])) return;
  if (std::ranges::any_of(chat.spans, [&](const formats::ChatSpan& span) { return is_own(span, message); })) return;
  const bool is_text = record.input.messages[message]["content"].is_string();
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the chat template writes nothing of the content of message {}, which is to be trained on",
                          message + 1),
              "",
              is_text
                  ? "Some templates read content in parts only: [{\"type\": \"text\", \"text\": ...}]. Write it so, or "
                    "give another template."
                  : "Give another template, or give the turn the weight 0.");
}

void ChatEncoder::encode_pair(const ChatRecord& record, ChatSample& sample) const {
  sample.text = *record.prompt + *record.completion;
  sample.first_target = record.prompt->size();
  sample.ids = around_.before;
  std::vector<TextSpan> tokens;
  tokenizer_.encode_spans_to(sample.text, true, sample.ids, tokens);
  sample.weights.assign(around_.before.size(), 0);
  const std::vector<float> marks = weigh_tokens(tokens, {{record.prompt->size(), sample.text.size(), -1}}, {});
  sample.weights.insert(sample.weights.end(), marks.begin(), marks.end());
  // The end is what a model has to learn to say, too.
  sample.ids.insert(sample.ids.end(), around_.after.begin(), around_.after.end());
  sample.weights.insert(sample.weights.end(), around_.after.size(), record.completion->empty() ? 0.0f : 1.0f);
}

void ChatEncoder::truncate(ChatSample& sample) const {
  if (options_.max_length == 0 || sample.ids.size() <= options_.max_length) return;
  const auto kept = static_cast<ptrdiff_t>(options_.max_length);
  sample.counts.truncated = 1;
  sample.counts.truncated_tokens = sample.ids.size() - options_.max_length;
  if (options_.truncated_side == TruncatedSide::kLeft) {
    sample.ids.erase(sample.ids.begin(), sample.ids.end() - kept);
    sample.weights.erase(sample.weights.begin(), sample.weights.end() - kept);
  } else {
    sample.ids.resize(options_.max_length);
    sample.weights.resize(options_.max_length);
  }
}

}  // namespace causeway::data
