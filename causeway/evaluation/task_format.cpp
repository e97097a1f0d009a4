#include "causeway/evaluation/task_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/evaluation/python_text.h"

namespace causeway::evaluation {
namespace {

using Fields = DocumentFields;
using Texts = std::vector<std::string>;

std::string without_newline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// {query, choices, gold}, with `context` of the query.
Question choices_after(const Fields& fields, std::string context) {
  Question question{{std::move(context)}, fields.texts("choices"), 0};
  question.gold = fields.index("gold", question.answers.size());
  return question;
}

Question options_before(const Fields& fields, std::string answer) {
  Question question{fields.texts("context_options"), {std::move(answer)}, 0};
  question.gold = fields.index("gold", question.contexts.size());
  return question;
}

Question arc(const Fields& fields) {
  const Fields choices = fields.object("choices");
  const Texts labels = choices.texts("label");
  const auto right = std::ranges::find(labels, fields.text("answerKey"));
  if (right == labels.end()) fields.refuse("answerKey", "is none of the labels under \"choices\"");
  Question question{{fmt::format("Question: {}\nAnswer:", fields.text("question"))},
                    choices.texts("text"),
                    static_cast<size_t>(right - labels.begin())};
  if (question.answers.size() != labels.size()) fields.refuse("choices", "has not as many texts as labels");
  return question;
}

Question query_and_answer(const Fields& fields) {
  return choices_after(fields, without_newline(fields.text("query")) + "\nAnswer:");
}

Question piqa(const Fields& fields) {
  return {{fmt::format("Question: {}\nAnswer:", fields.text("goal"))},
          {fields.text("sol1"), fields.text("sol2")},
          fields.index("label", 2)};
}

// What is in brackets came with the texts of WikiHow.
std::string clean_hellaswag(std::string_view raw) {
  return replace(without_brackets(replace(strip(raw), " [title]", ". ")), "  ", " ");
}

Question hellaswag(const Fields& fields) {
  Question question{{clean_hellaswag(fmt::format("{}: {} {}", fields.text("activity_label"), fields.text("ctx_a"),
                                                 capitalize(fields.text("ctx_b"))))},
                    fields.texts("endings"),
                    0};
  for (std::string& ending : question.answers) ending = clean_hellaswag(ending);
  question.gold = fields.index("label", question.answers.size());
  return question;
}

Question query_as_it_is(const Fields& fields) { return choices_after(fields, fields.text("query")); }

Question winogrande(const Fields& fields) {
  const std::string sentence = fields.text("sentence");
  const size_t blank = sentence.find('_');
  if (blank == std::string::npos) fields.refuse("sentence", "has no blank (_)");
  const std::string answer = fields.text("answer");
  if (answer != "1" && answer != "2") fields.refuse("answer", "is neither \"1\" nor \"2\"");
  const std::string before = sentence.substr(0, blank);
  return {{before + fields.text("option1"), before + fields.text("option2")},
          {std::string(strip(sentence.substr(blank + 1)))},
          answer == "1" ? size_t{0} : size_t{1}};
}

Question stripped_continuation(const Fields& fields) {
  return options_before(fields, std::string(strip(fields.text("continuation"))));
}

Question boolq(const Fields& fields) {
  return {{fmt::format("{}\nQuestion: {}?\nAnswer:", fields.text("passage"), fields.text("question"))},
          {"no", "yes"},
          fields.index("label", 2)};
}

Question boolq_query(const Fields& fields) {
  std::string query = without_newline(fields.text("query"));
  if (constexpr std::string_view kHeading = "Passage: "; query.starts_with(kHeading)) query.erase(0, kHeading.size());
  return choices_after(fields, query + "\nAnswer:");
}

// Between question and answer stand two spaces: the task's own and the harness's.
std::string copa_answer(const Fields& fields, const char* field, const std::string& choice) {
  if (choice.empty()) fields.refuse(field, "is empty");
  return " " + with_lower_first(choice);
}

Question copa(const Fields& fields) {
  const std::string asked = fields.text("question");
  if (asked != "cause" && asked != "effect") fields.refuse("question", "is neither \"cause\" nor \"effect\"");
  // The last character of the premise is its full stop, in whatever writing.
  return {
      {fmt::format("{} {}", without_last(strip(fields.text("premise"))), asked == "cause" ? "because" : "therefore")},
      {copa_answer(fields, "choice1", fields.text("choice1")), copa_answer(fields, "choice2", fields.text("choice2"))},
      fields.index("label", 2)};
}

// LLM Foundry puts a comma where the full stop was.
Question copa_query(const Fields& fields) {
  std::string query = fields.text("query");
  for (const std::string_view connector : {" because", " therefore"})
    if (query.ends_with("," + std::string(connector))) query.erase(query.size() - connector.size() - 1, 1);
  Question question = choices_after(fields, std::move(query));
  for (std::string& answer : question.answers) answer = copa_answer(fields, "choices", answer);
  return question;
}

// "'s" behind what stands for a possessive, and a small first letter within a sentence.
// Nothing where there is no word.
std::optional<std::string> wsc_option(std::string option, const std::string& pronoun, bool starts_sentence) {
  static const Texts possessives = {"my", "his", "her", "our", "their"};
  static const Texts capitals = {"A", "An", "The", "She", "He", "It", "They", "My", "His", "Her", "Their"};
  if (std::ranges::find(possessives, lower(pronoun)) != possessives.end()) option += "'s";
  const std::string first(first_word(option));
  if (first.empty()) return std::nullopt;
  if (starts_sentence || std::ranges::find(capitals, first) == capitals.end()) return option;
  // Wherever it stands, as the harness does it.
  return replace(option, first, lower(first));
}

// The answer keeps the space that it begins with, so that there are two.
Question wsc273(const Fields& fields) {
  const std::string text = replace(fields.text("text"), "  ", " ");
  const std::string pronoun = fields.text("pronoun");
  Texts options = fields.texts("options");
  const size_t count = character_count(text), length = character_count(pronoun);
  // It counts before spaces were joined, so that it may be a little beyond the end: then nothing follows.
  const size_t at = fields.index("pronoun_loc", count + 2);
  if (at + count < 2) fields.refuse("pronoun_loc", "is no place of the pronoun");
  const std::string before = text.substr(0, byte_of_character(text, at));
  // Two places before it, counted from the end where the text begins with it.
  const bool starts_sentence = text[byte_of_character(text, at >= 2 ? at - 2 : count + at - 2)] == '.';
  for (std::string& option : options) {
    const std::optional<std::string> written = wsc_option(option, pronoun, starts_sentence);
    if (!written) fields.refuse("options", "has one without a word");
    option = before + *written;
  }
  const size_t gold = fields.index("label", options.size());
  return {std::move(options), {text.substr(byte_of_character(text, at + length))}, gold};
}

Question wsc273_continuation(const Fields& fields) {
  const std::string rest = fields.text("continuation");
  const bool attached = rest.find_first_of(".,;:!?'") == 0;
  return options_before(fields, attached ? rest : " " + rest);
}

Question lambada(const Fields& fields) {
  const std::string text = fields.text("text");
  const size_t last = text.rfind(' ');
  if (last == std::string::npos) return {{""}, {" " + text}, 0};
  return {{text.substr(0, last)}, {text.substr(last)}, 0};
}

Question last_word(const Fields& fields) { return {{fields.text("context")}, {" " + fields.text("continuation")}, 0}; }

Question continuation_as_it_is(const Fields& fields) { return options_before(fields, fields.text("continuation")); }

const DocumentForm kQueryForm = {{"query", "choices", "gold"}, query_as_it_is};

std::string listed(const std::vector<const char*>& fields) { return fmt::format("{}", fmt::join(fields, ", ")); }

bool has_all(const nlohmann::json& document, const DocumentForm& form) {
  return std::ranges::all_of(form.fields, [&](const char* field) { return document.contains(field); });
}

}  // namespace

const std::vector<TaskFormat>& task_formats() {
  using enum TaskKind;
  static const DocumentForm arc_form = {{"question", "choices", "answerKey"}, arc};
  static const DocumentForm query_answer_form = {{"query", "choices", "gold"}, query_and_answer};
  static const std::vector<TaskFormat> formats = {
      {.names = {"arc_easy"}, .has_acc_norm = true, .forms = {arc_form, query_answer_form}},
      {.names = {"arc_challenge"}, .has_acc_norm = true, .forms = {arc_form, query_answer_form}},
      {.names = {"piqa"},
       .has_acc_norm = true,
       .has_no_test_split = true,
       .forms = {{{"goal", "sol1", "sol2", "label"}, piqa}, query_answer_form}},
      {.names = {"hellaswag"},
       .version = 2,
       .has_acc_norm = true,
       .has_no_test_split = true,
       .forms = {{{"activity_label", "ctx_a", "ctx_b", "endings", "label"}, hellaswag}, kQueryForm}},
      {.names = {"boolq"},
       .has_no_test_split = true,
       .forms = {{{"passage", "question", "label"}, boolq}, {{"query", "choices", "gold"}, boolq_query}}},
      {.names = {"copa"},
       .version = 2,
       .has_no_test_split = true,
       .forms = {{{"premise", "choice1", "choice2", "question", "label"}, copa},
                 {{"query", "choices", "gold"}, copa_query}}},
      {.names = {"winogrande"},
       .kind = kSchema,
       .has_no_test_split = true,
       .forms = {{{"sentence", "option1", "option2", "answer"}, winogrande},
                 {{"context_options", "continuation", "gold"}, stripped_continuation}}},
      {.names = {"wsc273", "winograd_wsc", "winograd"},
       .version = 2,
       .kind = kSchema,
       .forms = {{{"text", "pronoun", "pronoun_loc", "options", "label"}, wsc273},
                 {{"context_options", "continuation", "gold"}, wsc273_continuation}}},
      {.names = {"lambada_openai", "lambada_standard", "lambada"},
       .kind = kCloze,
       .forms = {{{"text"}, lambada}, {{"context", "continuation"}, last_word}}},
      {.names = {"multiple_choice"}, .has_acc_norm = true, .forms = {kQueryForm}},
      {.names = {"schema"},
       .kind = kSchema,
       .forms = {{{"context_options", "continuation", "gold"}, continuation_as_it_is}}},
      {.names = {"cloze"}, .kind = kCloze, .forms = {{{"context", "continuation"}, last_word}}},
  };
  return formats;
}

const TaskFormat* find_task_format(std::string_view name) {
  for (const TaskFormat& format : task_formats())
    if (std::ranges::find(format.names, name) != format.names.end()) return &format;
  return nullptr;
}

const TaskFormat& format_of_fields(const nlohmann::json& document, const std::string& where) {
  std::string forms;
  for (const char* name : {"multiple_choice", "schema", "cloze"}) {
    const TaskFormat& format = *find_task_format(name);
    if (has_all(document, format.forms[0])) return format;
    forms += (forms.empty() ? "" : "; or ") + listed(format.forms[0].fields);
  }
  throw Error(ErrorKind::kInvalidArgument, "the document is not of a form that is known", where,
              fmt::format("A task of your own has the fields {} (docs/evaluate.md).", forms));
}

Question read_question(const TaskFormat& format, const nlohmann::json& document, const std::string& where) {
  std::string forms;
  for (const DocumentForm& form : format.forms) {
    if (has_all(document, form)) return form.read(Fields(document, where));
    forms += (forms.empty() ? "" : "; or ") + listed(form.fields);
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("the document lacks fields of {}", format.names[0]), where,
              fmt::format("It must have {}.", forms));
}

const nlohmann::json& DocumentFields::value(const char* field) const {
  const auto found = document_.find(field);
  if (found == document_.end()) refuse(field, "is missing");
  return *found;
}

void DocumentFields::refuse(const char* field, const std::string& what) const {
  throw Error(ErrorKind::kInvalidArgument, fmt::format("\"{}\" {}", field, what), where_,
              "Mend the document (docs/evaluate.md lists each task's fields).");
}

std::string DocumentFields::text(const char* field) const {
  const nlohmann::json& json = value(field);
  if (!json.is_string()) refuse(field, fmt::format("is a JSON {}, not a string", json.type_name()));
  return json.get<std::string>();
}

std::vector<std::string> DocumentFields::texts(const char* field) const {
  const nlohmann::json& json = value(field);
  if (!json.is_array() || json.size() < 2 ||
      !std::ranges::all_of(json, [](const nlohmann::json& each) { return each.is_string(); }))
    refuse(field, "is not a list of two strings or more");
  return json.get<std::vector<std::string>>();
}

size_t DocumentFields::index(const char* field, size_t limit) const {
  const nlohmann::json& json = value(field);
  uint64_t number = limit;
  if (json.is_number_unsigned()) {
    number = json.get<uint64_t>();
  } else if (json.is_string()) {
    const std::string& digits = json.get_ref<const std::string&>();
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (code != std::errc() || end != digits.data() + digits.size()) number = limit;
  }
  if (number >= limit) refuse(field, fmt::format("is no whole number from 0 to {}", limit == 0 ? 0 : limit - 1));
  return static_cast<size_t>(number);
}

DocumentFields DocumentFields::object(const char* field) const {
  const nlohmann::json& json = value(field);
  if (!json.is_object()) refuse(field, fmt::format("is a JSON {}, not an object", json.type_name()));
  return {json, where_};
}

}  // namespace causeway::evaluation
