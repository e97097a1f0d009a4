#include "causeway/cli/chat_options.h"

#include <ctime>
#include <optional>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/data/chat_options.h"
#include "causeway/formats/chat_template/template_files.h"

namespace causeway::cli {
namespace {

// As transformers tells a template that asks for it.
formats::ChatDate local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return {local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec};
}

formats::ChatTemplateFile find_template(const OpenedModel& model, const std::string& wanted) {
  std::optional<Error> missing;
  for (const std::filesystem::path& directory : model.template_directories) {
    try {
      std::vector<formats::ChatTemplateFile> found = data::find_chat_templates(directory.string(), wanted);
      if (!found.empty()) return std::move(found.front());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
      if (!missing) missing = error;
    }
  }
  if (missing) throw Error(*missing);
  throw Error(ErrorKind::kNotFound, "the model has no chat template", model.directory.string(),
              "Give one: --chat-template FILE.");
}

}  // namespace

CLI::Option* add_chat_options(CLI::App& command, ChatArguments& arguments) {
  CLI::Option* const chat =
      command.add_flag("--chat", arguments.chat,
                       "Hold a conversation by the model's chat template: prompts are what the user says, each line of "
                       "standard input where none is given");
  command
      .add_option("--chat-template", arguments.chat_template,
                  "A file with a chat template, or the name of one of the model's; else the model's own")
      ->needs(chat);
  command.add_option("--system", arguments.system, "The system message that a conversation begins with")->needs(chat);
  command
      .add_option("--date", arguments.date,
                  "The day that a template which asks for it is told, as 2026-11-30; else today")
      ->needs(chat);
  return chat;
}

generate::Conversation begin_conversation(const OpenedModel& model, const ChatArguments& arguments) {
  const formats::ChatDate date = arguments.date.empty() ? local_time_now() : formats::ChatDate::parse(arguments.date);
  generate::Conversation conversation(find_template(model, arguments.chat_template), *model.tokenizer, date);
  if (!arguments.system.empty()) conversation.add("system", arguments.system);
  return conversation;
}

}  // namespace causeway::cli
