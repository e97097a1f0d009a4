#include "causeway/data/preference_record.h"

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/data/chat_record.h"

namespace causeway::data {
namespace {

using PairJson = nlohmann::ordered_json;

constexpr const char* kFormOfPairs =
    "A pair has \"chosen\" and \"rejected\", both texts or both lists of messages, and \"prompt\" beside them or at "
    "the "
    "beginning of both.";

constexpr const char* kPromptOnce =
    "Write the prompt once: all of it at the beginning of both sides, or of neither beside \"prompt\".";

bool has_value(const PairJson& record, const char* field) {
  const auto found = record.find(field);
  return found != record.end() && !found->is_null();
}

class PreferenceRecordReader {
 public:
  PreferenceRecordReader(PairJson record, const std::string& where) : record_(std::move(record)), where_(where) {}

  PreferenceRecord read() {
    for (const char* side : {"chosen", "rejected"}) {
      if (!has_value(record_, side))
        refuse(fmt::format("the preference pair has no \"{}\"; its fields are {}", side, names_of_fields(record_)));
      if (!record_[side].is_string() && !record_[side].is_array())
        refuse(fmt::format("\"{}\" is a JSON {}", side, record_[side].type_name()));
    }
    chosen_ = record_["chosen"], rejected_ = record_["rejected"];
    if (chosen_.type() != rejected_.type())
      refuse(fmt::format("\"chosen\" is a JSON {} and \"rejected\" a JSON {}", chosen_.type_name(),
                         rejected_.type_name()));
    if (has_value(record_, "prompt")) prompt_ = record_["prompt"];
    chosen_.is_string() ? split_texts() : split_messages();
    require_side("chosen", chosen_);
    require_side("rejected", rejected_);
    if (chosen_ == rejected_)
      refuse("\"chosen\" and \"rejected\" are the same", "Leave the record out: neither is preferred.");
    if (has_value(record_, "margin"))
      throw Error(ErrorKind::kUnsupported,
                  "\"margin\" stands beside the pair, and margins of pairs are not trained with", where_,
                  "Leave the field out, or call it otherwise.");
    if (has_value(record_, "system"))
      refuse("\"system\" stands beside a preference pair", "Write it as the first message of the prompt.");
    return {side(chosen_), side(rejected_)};
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint = kFormOfPairs) const {
    throw Error(ErrorKind::kInvalidArgument, what, where_, hint);
  }

  void split_texts() {
    if (!prompt_.is_null()) {
      if (!prompt_.is_string())
        refuse(fmt::format("\"prompt\" is a JSON {}, and \"chosen\" and \"rejected\" are texts", prompt_.type_name()));
      return;
    }
    for (const char* field : {"question", "instruction", "input", "query"})
      if (has_value(record_, field))
        refuse(fmt::format("the pair has no \"prompt\", and \"{}\" stands beside it", field),
               "Rename the field to \"prompt\", where it is that.");
    const auto chosen = chosen_.get<std::string>(), rejected = rejected_.get<std::string>();
    auto end = static_cast<size_t>(std::ranges::mismatch(chosen, rejected).in1 - chosen.begin());
    // Words and characters stay whole.
    while (end > 0 && end < chosen.size() && (static_cast<unsigned char>(chosen[end]) & 0xC0) == 0x80) --end;
    while (end > 0 && end < rejected.size() && (static_cast<unsigned char>(rejected[end]) & 0xC0) == 0x80) --end;
    if (end > 0 && chosen[end - 1] == ' ') --end;
    if (end == 0) refuse("the pair has no \"prompt\", and \"chosen\" and \"rejected\" begin differently");
    prompt_ = chosen.substr(0, end);
    chosen_ = chosen.substr(end);
    rejected_ = rejected.substr(end);
  }

  void split_messages() {
    if (prompt_.is_array()) {
      if (prompt_.empty()) refuse("\"prompt\" is empty");
      const bool is_in_chosen = begins_with_prompt(chosen_), is_in_rejected = begins_with_prompt(rejected_);
      if (is_in_chosen && is_in_rejected) return cut_prompt(prompt_.size());
      if (is_in_chosen || is_in_rejected)
        refuse(fmt::format("\"{}\" begins with the messages of \"prompt\", and \"{}\" does not",
                           is_in_chosen ? "chosen" : "rejected", is_in_chosen ? "rejected" : "chosen"),
               kPromptOnce);
      refuse_repetition("chosen", chosen_);
      refuse_repetition("rejected", rejected_);
      return;
    }
    if (!prompt_.is_null() && !prompt_.is_string()) refuse(fmt::format("\"prompt\" is a JSON {}", prompt_.type_name()));
    const auto count = static_cast<size_t>(
        std::mismatch(chosen_.begin(), chosen_.end(), rejected_.begin(), rejected_.end()).first - chosen_.begin());
    if (count == 0)
      refuse(
          "\"chosen\" and \"rejected\" begin with different messages, and no list under \"prompt\" stands before them");
    const PairJson last = chosen_[count - 1];
    if (prompt_.is_string() && (!last.is_object() || last.value("content", PairJson()) != prompt_))
      refuse("\"prompt\" is not the last message that \"chosen\" and \"rejected\" both begin with");
    prompt_ = PairJson::array();
    for (size_t i = 0; i < count; ++i) prompt_.push_back(chosen_[i]);
    cut_prompt(count);
  }

  void refuse_repetition(const char* name, const PairJson& messages) const {
    if (!messages.empty() && messages.front() == prompt_.back())
      refuse(fmt::format("\"{}\" begins with the last message of \"prompt\", and not with all of it", name),
             kPromptOnce);
  }

  bool begins_with_prompt(const PairJson& messages) const {
    return messages.size() >= prompt_.size() && std::equal(prompt_.begin(), prompt_.end(), messages.begin());
  }

  void cut_prompt(size_t count) {
    for (PairJson* messages : {&chosen_, &rejected_})
      messages->erase(messages->begin(), messages->begin() + static_cast<ptrdiff_t>(count));
  }

  void require_side(const char* name, const PairJson& completion) const {
    const bool has_text =
        completion.is_string()
            ? completion.get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos
            : std::ranges::any_of(completion, [](const PairJson& message) {
                if (!message.is_object()) return true;  // whoever reads messages says what it is
                const auto content = message.find("content");
                const bool is_empty = content == message.end() || content->is_null() || *content == "" ||
                                      (content->is_array() && content->empty());
                return !is_empty || message.contains("tool_calls");
              });
    if (!has_text)
      refuse(fmt::format("\"{}\" is empty{}", name, completion.is_array() ? " behind the prompt" : ""),
             "Leave the record out, or give both sides.");
  }

  PairJson side(const PairJson& completion) const {
    PairJson record = {{"prompt", prompt_}, {"completion", completion}};
    for (const char* beside : {"tools", "documents", "chat_template_kwargs"})
      if (has_value(record_, beside)) record[beside] = record_[beside];
    return record;
  }

  PairJson record_;
  const std::string& where_;
  PairJson prompt_, chosen_, rejected_;
};

}  // namespace

bool is_preference_record(const PairJson& record) {
  if (has_value(record, "chosen") && has_value(record, "rejected")) return true;
  return (has_value(record, "chosen") || has_value(record, "rejected")) && !has_value(record, "messages") &&
         !has_value(record, "conversations") && !has_value(record, "completion") && !has_value(record, "output");
}

PreferenceRecord read_preference_record(PairJson record, const std::string& where) {
  return PreferenceRecordReader(std::move(record), where).read();
}

}  // namespace causeway::data
