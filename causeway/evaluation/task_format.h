// The tasks a model is judged by: how a document, one JSON object, becomes a question and its possible answers. Texts
// are to the letter those of EleutherAI's lm-evaluation-harness 0.4.13, task by task; docs/evaluate.md lists them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::evaluation {

enum class TaskKind {
  kMultipleChoice,  // one context, several answers: the likeliest answer counts
  kSchema,          // several contexts, one answer: the context it is likeliest after counts
  kCloze,           // one context, one answer: it counts when each of its tokens is the likeliest
};

struct Question {
  std::vector<std::string> contexts;  // one, or of a schema one for each option
  std::vector<std::string> answers;   // one for each choice, or one
  size_t gold = 0;                    // the right choice or option; 0 of a cloze
};

// What is between a context and an answer, and between examples.
inline constexpr char kAnswerDelimiter[] = " ";
inline constexpr char kExampleDelimiter[] = "\n\n";

// A document's fields. Throws Error(kInvalidArgument) naming the field, and the line as `where`, for what is not as it
// must be.
class DocumentFields {
 public:
  DocumentFields(const nlohmann::json& document, std::string where) : document_(document), where_(std::move(where)) {}

  std::string text(const char* field) const;
  std::vector<std::string> texts(const char* field) const;  // two at least
  // A number below `limit`, or its digits as a text.
  size_t index(const char* field, size_t limit) const;
  DocumentFields object(const char* field) const;
  [[noreturn]] void refuse(const char* field, const std::string& what) const;

 private:
  const nlohmann::json& value(const char* field) const;

  const nlohmann::json& document_;
  std::string where_;
};

// One way of writing a task's documents.
struct DocumentForm {
  std::vector<const char*> fields;  // that all must be there
  Question (*read)(const DocumentFields& fields);
};

struct TaskFormat {
  std::vector<std::string> names;  // that files of it have; the first is the format's own
  int version = 1;                 // of the texts: another one, another hash
  TaskKind kind = TaskKind::kMultipleChoice;
  bool has_acc_norm = false;  // the harness gives it for this task
  // The harness judges by its validation split. Then it draws one example more than it uses, in case the document is
  // among them, though it draws from the training split.
  bool has_no_test_split = false;
  std::vector<DocumentForm> forms;
};

// The tasks that are known by name, and behind them those that are known by their fields alone, whose texts stand in
// the file as they are.
const std::vector<TaskFormat>& task_formats();
// Nothing where the name is not known.
const TaskFormat* find_task_format(std::string_view name);
// Of a document of an unknown task, by its fields. Throws Error(kInvalidArgument) that lists what there may be.
const TaskFormat& format_of_fields(const nlohmann::json& document, const std::string& where);

// Throws Error(kInvalidArgument) naming `where` and the fields when the document is not the task's.
Question read_question(const TaskFormat& format, const nlohmann::json& document, const std::string& where);

}  // namespace causeway::evaluation
