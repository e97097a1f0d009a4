#include "causeway/formats/chat_template/chat_template.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/formats/chat_template/jinja_interpreter.h"
#include "causeway/formats/chat_template/jinja_parser.h"
#include "causeway/formats/chat_template/jinja_scopes.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::formats {
namespace {

constexpr size_t kMostTemplateBytes = size_t{4} << 20;

// Names that a template gets beside the other variables.
constexpr std::array kOwnVariables = {"messages", "tools", "documents", "add_generation_prompt"};

}  // namespace

ChatDate ChatDate::parse(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
  const auto refuse = [&]() {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no date", printable(text)), "",
                "Write it as 2026-11-30, or with a time as 2026-11-30 17:50:00.");
  };
  if (text.size() != 10 && text.size() != kShape.size()) refuse();
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !is_digit : text[i] != kShape[i]) refuse();
  }
  const auto number = [&](size_t at, size_t size) {
    int value = 0;
    if (at < text.size()) std::from_chars(text.data() + at, text.data() + at + size, value);
    return value;
  };
  ChatDate date{number(0, 4), number(5, 2), number(8, 2), number(11, 2), number(14, 2), number(17, 2)};
  const std::chrono::year_month_day day{std::chrono::year(date.year),
                                        std::chrono::month(static_cast<unsigned>(date.month)),
                                        std::chrono::day(static_cast<unsigned>(date.day))};
  if (!day.ok() || date.year == 0 || date.hour > 23 || date.minute > 59 || date.second > 59) refuse();
  return date;
}

ChatTemplate ChatTemplate::parse(std::string_view text, std::string where) {
  if (text.size() > kMostTemplateBytes)
    throw Error(ErrorKind::kResource, fmt::format("a chat template of more than {} bytes", kMostTemplateBytes), where);
  if (const size_t invalid = first_invalid_byte(text); invalid < text.size())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the chat template is not UTF-8 at byte {}", invalid), where);
  std::unique_ptr<ChatTemplateProgram> program = parse_template(text, std::move(where));
  program->text = text;
  resolve_names(*program);
  return ChatTemplate(std::move(program));
}

RenderedChat ChatTemplate::render(const ChatInput& input) const {
  if (!input.variables.is_object())
    throw Error(ErrorKind::kInvalidArgument, "the variables of a chat template are an object", where());
  for (const char* name : kOwnVariables)
    if (input.variables.contains(name))
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the variable '{}' of a chat template cannot be given among the others", name), where());
  return run_template(*program_, input);
}

bool ChatTemplate::has_generation_marks() const { return program_->has_generation_marks; }

const std::string& ChatTemplate::text() const { return program_->text; }

const std::string& ChatTemplate::where() const { return program_->where; }

}  // namespace causeway::formats
