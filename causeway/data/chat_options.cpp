#include "causeway/data/chat_options.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/base/file.h"

namespace causeway::data {
namespace {

constexpr std::string_view kTemplateExtension = ".jinja";

std::string names_of_templates(const std::vector<formats::ChatTemplateFile>& files) {
  std::string names;
  for (const formats::ChatTemplateFile& file : files) names += (names.empty() ? "" : ", ") + file.name;
  return names;
}

}  // namespace

ChatCounts& ChatCounts::operator+=(const ChatCounts& other) {
  rendered += other.rendered;
  pairs += other.pairs;
  dated += other.dated;
  truncated += other.truncated;
  truncated_tokens += other.truncated_tokens;
  without_target += other.without_target;
  without_end += other.without_end;
  preferences += other.preferences;
  return *this;
}

TargetsRecord ChatOptions::record(const ChatCounts& counts) const {
  TargetsRecord record;
  record.rule = prompts ? "prompts" : turns == formats::ChatTurns::kAll ? "all" : "last";
  if (counts.rendered > 0)
    for (const formats::ChatTemplateFile& one : templates) record.templates.push_back({one.name, one.text});
  if (counts.dated > 0) record.date = date_text;
  record.max_length = max_length;
  if (max_length > 0) record.truncation = name_of(truncated_side);
  return record;
}

std::optional<DocumentTokens> ChatOptions::documents_of(const ChatCounts& counts, const DocumentTokens& around) const {
  DocumentTokens documents;
  if (counts.rendered == 0) documents = around;
  if (prompts) documents.after.clear();
  documents.read_special_tokens = true;
  if (counts.rendered > 0 && counts.pairs > 0 && (!around.before.empty() || !around.after.empty())) return std::nullopt;
  return documents;
}

std::vector<formats::ChatTemplateFile> find_chat_templates(const std::string& tokenizer, const std::string& wanted) {
  const std::filesystem::path path(wanted);
  std::error_code code;
  if (!wanted.empty() && (std::filesystem::is_regular_file(path, code) || path.extension() == kTemplateExtension))
    return {{std::string(formats::kDefaultChatTemplate), read_text_file(path), path.string()}};
  std::vector<formats::ChatTemplateFile> files;
  if (std::filesystem::is_directory(tokenizer, code)) files = formats::read_chat_template_files(tokenizer);
  const auto named = [&](std::string_view name) {
    return std::ranges::find(files, name, &formats::ChatTemplateFile::name);
  };
  const std::string hint = files.empty() ? "Give the template as a file: --chat-template FILE."
                                         : fmt::format("It has: {}.", names_of_templates(files));
  if (!wanted.empty()) {
    if (const auto found = named(wanted); found != files.end()) return {*found};
    throw Error(ErrorKind::kNotFound,
                fmt::format("the tokenizer has no chat template \"{}\", and no file is called so", wanted), tokenizer,
                hint);
  }
  if (files.empty()) return {};
  const auto of_all = named(formats::kDefaultChatTemplate);
  if (of_all == files.end())
    throw Error(ErrorKind::kInvalidArgument, "none of the tokenizer's chat templates is the default one", tokenizer,
                hint + " Say with --chat-template NAME which to take.");
  std::vector<formats::ChatTemplateFile> taken = {*of_all};
  if (const auto of_tools = named(formats::kToolChatTemplate); of_tools != files.end()) taken.push_back(*of_tools);
  return taken;
}

}  // namespace causeway::data
