// Files of tasks: one document a line, as JSON objects.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "causeway/evaluation/task_format.h"

namespace causeway::evaluation {

struct Task {
  std::string name;
  const TaskFormat* format = nullptr;
  std::filesystem::path file;
  // Of the file's bytes and of the format's name and version: equal hashes, equal requests.
  std::string hash;
  std::vector<nlohmann::json> documents;
  std::vector<Question> questions;  // one for each document
  std::vector<std::string> places;  // of the documents: "FILE, line N"
};

// `name_or_path`: a name, whose file is DIRECTORY/NAME.jsonl, or the path of a file (it ends in .jsonl), whose name is
// the task's. A file of an unknown name is taken by its fields (format_of_fields()). Throws Error: kNotFound, with the
// nearest name, where there is no such file; kInvalidArgument for one without documents, and for a document that is not
// the task's, by its line; kCorrupt for a line that is not JSON.
Task load_task(const std::string& name_or_path, const std::filesystem::path& directory);

}  // namespace causeway::evaluation
