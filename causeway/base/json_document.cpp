#include "causeway/base/json_document.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "causeway/base/file.h"
#include "causeway/base/printable.h"

namespace causeway {
namespace {

[[noreturn]] void fail_at(std::string_view text, size_t position, const std::string& what, const JsonSubject& subject) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const auto lines = static_cast<uint64_t>(std::count(before.begin(), before.end(), '\n'));
  const uint64_t line = subject.first_line + lines;
  const uint64_t column =
      before.size() - (before.rfind('\n') + 1) + (lines == 0 ? subject.first_column : 1);  // npos + 1 is 0
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

// Makes the document of the parser's events. The library's own parser with a callback looks again at all members of an
// object or list after each of them that is one itself, which takes quadratic time.
template <typename Json>
class DocumentBuilder {
 public:
  DocumentBuilder(Json& document, const JsonSubject& subject) : subject_(subject), value_(&document) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(typename Json::number_integer_t value) { return add(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return add(value); }
  bool number_float(typename Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(typename Json::binary_t& value) { return add(std::move(value)); }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto& members = open_.back()->template get_ref<typename Json::object_t&>();
    const auto [place, is_new] = members.emplace(std::move(name), Json());
    if (!is_new && !subject_.keys_may_repeat)
      throw Error(subject_.kind, fmt::format("{} has the key '{}' twice", subject_.name, printable(place->first)),
                  subject_.where, subject_.hint);
    value_ = &place->second;
    return true;
  }

  template <typename Exception>
  bool parse_error(size_t, const std::string&, const Exception& error) {
    throw error;
  }

 private:
  // Where the next value goes: the document itself, the member whose key was read, or a new element.
  Json& place() {
    if (open_.empty() || open_.back()->is_object()) return *value_;
    return open_.back()->template get_ref<typename Json::array_t&>().emplace_back();
  }
  template <typename Value>
  bool add(Value&& value) {
    place() = std::forward<Value>(value);
    return true;
  }
  bool open(Json&& empty) {
    Json& container = place();
    container = std::move(empty);
    open_.push_back(&container);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const JsonSubject& subject_;
  Json* value_;
  std::vector<Json*> open_;  // a list does not grow while one of its elements is open
};

template <typename Json>
Json parse_document(std::string_view text, const JsonSubject& subject) {
  check_depth(text, subject);
  try {
    Json document;
    DocumentBuilder<Json> builder(document, subject);
    Json::sax_parse(text, &builder);
    return document;
  } catch (const typename Json::parse_error& error) {
    // The parser counts from 1, and the byte it stumbled over is read.
    fail_at(text, error.byte == 0 ? 0 : error.byte - 1, "is not valid JSON: " + complaint(error), subject);
  } catch (const typename Json::exception& error) {
    throw Error(subject.kind, fmt::format("{} is not valid JSON: {}", subject.name, complaint(error)), subject.where,
                subject.hint);
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const JsonSubject& subject) {
  return parse_document<nlohmann::json>(text, subject);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonSubject& subject) {
  return parse_document<nlohmann::ordered_json>(text, subject);
}

nlohmann::json read_json_file(const std::filesystem::path& path, JsonSubject subject, uint64_t most_bytes) {
  if (subject.where.empty()) subject.where = path.string();
  return parse_json(read_text_file(path, most_bytes), subject);
}

}  // namespace causeway
