#include "causeway/formats/chat_template/template_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/base/printable.h"
#include "causeway/formats/tokenizer/tokenizer_settings.h"

namespace causeway::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMoreTemplatesName = "additional_chat_templates";
constexpr std::string_view kProcessorTemplateName = "chat_template.json";
constexpr uint64_t kMostTemplateFileBytes = uint64_t{4} << 20;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// chat_template.jinja and what stands beside it.
std::vector<ChatTemplateFile> jinja_files(const fs::path& directory) {
  std::vector<ChatTemplateFile> files;
  const fs::path main = directory / kChatTemplateFileName;
  if (is_there(main))
    files.push_back({std::string(kDefaultChatTemplate), read_text_file(main, kMostTemplateFileBytes), main.string()});
  std::vector<fs::path> more;
  std::error_code failure;
  for (fs::directory_iterator entry(directory / kMoreTemplatesName, failure), end; !failure && entry != end;
       entry.increment(failure))
    if (entry->path().extension() == ".jinja") more.push_back(entry->path());
  if (failure && is_there(directory / kMoreTemplatesName))
    throw Error(ErrorKind::kIo, "cannot be read: " + failure.message(), (directory / kMoreTemplatesName).string());
  std::ranges::sort(more);
  for (const fs::path& path : more)
    files.push_back({path.stem().string(), read_text_file(path, kMostTemplateFileBytes), path.string()});
  return files;
}

// "chat_template" of a file of JSON: a text, or a list of {name, template}.
std::vector<ChatTemplateFile> json_files(const fs::path& path) {
  if (!is_there(path)) return {};
  const nlohmann::json content = read_json_file(path);
  const auto found = content.is_object() ? content.find("chat_template") : content.end();
  if (!content.is_object() || found == content.end() || found->is_null()) return {};
  const std::string where = fmt::format("{}: chat_template", path.string());
  if (found->is_string()) return {{std::string(kDefaultChatTemplate), found->get<std::string>(), where}};
  const auto refuse = [&]() {
    throw Error(ErrorKind::kCorrupt,
                "\"chat_template\" is neither a text nor a list of objects with \"name\" and \"template\"",
                path.string());
  };
  if (!found->is_array()) refuse();
  std::vector<ChatTemplateFile> files;
  for (const nlohmann::json& entry : *found) {
    const bool is_named = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                          entry.contains("template") && entry["template"].is_string();
    if (!is_named) refuse();
    const auto name = entry["name"].get<std::string>();
    const auto known = std::ranges::find(files, name, &ChatTemplateFile::name);
    ChatTemplateFile file{name, entry["template"].get<std::string>(), fmt::format("{} ({})", where, printable(name))};
    if (known == files.end())
      files.push_back(std::move(file));
    else
      *known = std::move(file);
  }
  return files;
}

}  // namespace

std::vector<ChatTemplateFile> read_chat_template_files(const std::string& directory) {
  std::vector<ChatTemplateFile> files = jinja_files(directory);
  if (files.empty()) files = json_files(fs::path(directory) / kTokenizerConfigName);
  if (files.empty()) files = json_files(fs::path(directory) / kProcessorTemplateName);
  return files;
}

}  // namespace causeway::formats
