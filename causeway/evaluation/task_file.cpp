#include "causeway/evaluation/task_file.h"

#include <fmt/format.h>

#include <string_view>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/json_document.h"

namespace causeway::evaluation {
namespace {

constexpr std::string_view kEnding = ".jsonl";

std::filesystem::path file_of(const std::string& name_or_path, const std::filesystem::path& directory) {
  if (name_or_path.ends_with(kEnding)) return name_or_path;
  std::filesystem::path file = directory / (name_or_path + std::string(kEnding));
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return file;
  if (find_task_format(name_or_path) != nullptr)
    throw Error(ErrorKind::kNotFound, fmt::format("there is no file of the task {}", name_or_path), file.string(),
                "Put the task's documents there, one JSON object a line (docs/evaluate.md lists the fields), or name "
                "the directory that has them with --data.");
  std::vector<std::string> known;
  for (const TaskFormat& format : task_formats()) known.insert(known.end(), format.names.begin(), format.names.end());
  const std::string nearest = nearest_name(name_or_path, known);
  throw Error(ErrorKind::kNotFound, fmt::format("there is no task '{}', and no file of that name", name_or_path),
              file.string(),
              nearest.empty() ? "Name one of the tasks in docs/evaluate.md, or the path of a .jsonl file."
                              : fmt::format("Did you mean {}?", nearest));
}

}  // namespace

Task load_task(const std::string& name_or_path, const std::filesystem::path& directory) {
  Task task;
  task.file = file_of(name_or_path, directory);
  task.name = task.file.stem().string();
  task.format = find_task_format(task.name);
  const std::string content = read_text_file(task.file);
  size_t number = 0;
  for (std::string_view rest = content; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = fmt::format("{}, line {}", task.file.string(), number);
    nlohmann::json document = parse_json(
        line, {.name = "the line", .where = place, .hint = "Each line must be one JSON object.", .is_one_line = true});
    if (!document.is_object())
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the line is a JSON {}, not an object", document.type_name()), place,
                  "Each line must be one JSON object.");
    if (task.format == nullptr) task.format = &format_of_fields(document, place);
    task.questions.push_back(read_question(*task.format, document, place));
    task.documents.push_back(std::move(document));
    task.places.push_back(place);
  }
  if (task.documents.empty())
    throw Error(ErrorKind::kInvalidArgument, "the task's file holds no documents", task.file.string(),
                "Put the task's documents there, one JSON object a line.");
  task.hash = hash_text(fmt::format("{} {}\n{}", task.format->names.front(), task.format->version, content)).hex();
  return task;
}

}  // namespace causeway::evaluation
