#include "causeway/base/json_document.h"

#include <algorithm>
#include <set>
#include <vector>

#include "causeway/base/file.h"
#include "causeway/base/printable.h"

namespace causeway {
namespace {

[[noreturn]] void fail_at(std::string_view text, size_t position, const std::string& what, const JsonSubject& subject) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  throw Error(subject.kind,
              subject.is_one_line ? fmt::format("{} {}, at column {}", subject.name, what, column)
                                  : fmt::format("{} {}, at line {}, column {}", subject.name, what, line, column),
              subject.where, subject.hint);
}

// Before anything is built, for what is built is nested as deeply.
void check_depth(std::string_view text, const JsonSubject& subject) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > subject.most_depth)
        fail_at(
            text, i,
            fmt::format("is nested too deeply: more than {} objects and lists within one another", subject.most_depth),
            subject);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// What the parser complains of, without its name and its own line and column: "[json.exception.parse_error.101] parse
// error at line 1, column 5: syntax error while parsing value - unexpected end of input".
std::string complaint(const std::exception& error) {
  std::string text = error.what();
  if (const size_t end = text.find("] "); text.starts_with("[json.") && end != std::string::npos)
    text.erase(0, end + 2);
  if (const size_t end = text.find(": "); text.starts_with("parse error") && end != std::string::npos)
    text.erase(0, end + 2);
  return printable(text);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const JsonSubject& subject) {
  using Json = nlohmann::json;
  check_depth(text, subject);
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        throw Error(subject.kind, fmt::format("{} has the key '{}' twice", subject.name, printable(key)), subject.where,
                    subject.hint);
    }
    return true;
  };
  try {
    return subject.keys_may_repeat ? Json::parse(text) : Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    // The parser counts from 1, and the byte it stumbled over is read.
    fail_at(text, error.byte == 0 ? 0 : error.byte - 1, "is not valid JSON: " + complaint(error), subject);
  } catch (const Json::exception& error) {
    throw Error(subject.kind, fmt::format("{} is not valid JSON: {}", subject.name, complaint(error)), subject.where,
                subject.hint);
  }
}

nlohmann::json read_json_file(const std::filesystem::path& path, JsonSubject subject, uint64_t most_bytes) {
  if (subject.where.empty()) subject.where = path.string();
  return parse_json(read_text_file(path, most_bytes), subject);
}

}  // namespace causeway
