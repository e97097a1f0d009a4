#include "causeway/base/yaml_document.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/utf8.h"

namespace causeway {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;  // of the text, and of its values with every alias written out
constexpr int kMostDepth = 32;

struct YamlPlace {
  const std::string& where;

  [[noreturn]] void fail(size_t line, size_t column, const std::string& what, const std::string& hint = {}) const {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("not readable as YAML: {}, at line {}, column {}", what, line, column), where, hint);
  }
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what, const std::string& hint = {}) const {
    fail(static_cast<size_t>(std::max(mark.line, 0)) + 1, static_cast<size_t>(std::max(mark.column, 0)) + 1, what,
         hint);
  }
};

// The parser would replace bytes that are not UTF-8, and end at some control characters as if the file did.
void check_characters(std::string_view yaml, const YamlPlace& place) {
  size_t line = 1, line_begin = 0;
  for (size_t position = 0; position < yaml.size();) {
    const Utf8Character character = decode_utf8(yaml, position);
    const uint32_t c = character.code_point;
    if (c == kInvalidCodePoint)
      place.fail(line, position - line_begin + 1, "a byte that is not UTF-8", "Save the file as UTF-8.");
    if (c < 0x20 && c != '\t' && c != '\n' && c != '\r') {
      place.fail(line, position - line_begin + 1,
                 fmt::format("the control character {}", printable(yaml.substr(position, 1))));
    }
    position += character.size;
    if (c == '\n') {
      ++line;
      line_begin = position;
    }
  }
}

// Follows the parser through the text and refuses what YAML::Load would take in part, or expand without bound.
class LimitChecker : public YAML::EventHandler {
 public:
  LimitChecker(std::string_view yaml, const YamlPlace& place) : yaml_(yaml), place_(place) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0)
      place_.fail(mark, "a second document begins",
                  "One file holds one document: delete the line '---' and what is not meant.");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, 0); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto value = bytes_of_anchor_.find(anchor);
    if (value == bytes_of_anchor_.end())
      place_.fail(mark, "an alias of a map or list",
                  "Write out what is meant: only single values may be repeated by an alias.");
    add(mark, 0, value->second);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& value) override {
    add(mark, anchor, value.size());
    last_value_ = mark;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    descend(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    descend(mark);
  }
  void OnMapEnd() override { --depth_; }

  // A quote without an end swallows the rest of the text, and the parser takes it when the text ends with a newline.
  void check_last_quote() const {
    if (!last_value_) return;
    size_t open = static_cast<size_t>(last_value_->pos);
    while (open < yaml_.size() && (yaml_[open] == '&' || yaml_[open] == '!')) {  // an anchor, a tag
      open = std::min(yaml_.find_first_of(kBlanks, open), yaml_.size());
      open = std::min(yaml_.find_first_not_of(kBlanks, open), yaml_.size());
    }
    if (open == yaml_.size() || (yaml_[open] != '"' && yaml_[open] != '\'')) return;
    for (size_t i = open + 1; i < yaml_.size(); ++i) {
      if (yaml_[open] == '"' && yaml_[i] == '\\') {
        ++i;
      } else if (yaml_[i] == yaml_[open]) {
        if (yaml_[open] == '"' || i + 1 == yaml_.size() || yaml_[i + 1] != '\'') return;
        ++i;  // '' stands for one
      }
    }
    place_.fail(*last_value_, "a quote that is never closed", "Close it where the value ends.");
  }

 private:
  static constexpr std::string_view kBlanks = " \t\r\n";

  void add(const YAML::Mark& mark, YAML::anchor_t anchor, size_t bytes) {
    if (anchor != 0) bytes_of_anchor_[anchor] = bytes;
    bytes_ += bytes;
    if (bytes_ > kMostBytes) place_.fail(mark, fmt::format("the values have more than {} bytes", kMostBytes));
  }
  void descend(const YAML::Mark& mark) {
    if (++depth_ > kMostDepth)
      place_.fail(mark, fmt::format("more than {} maps and lists within one another", kMostDepth));
  }

  std::string_view yaml_;
  const YamlPlace& place_;
  int documents_ = 0;
  int depth_ = 0;
  size_t bytes_ = 0;
  std::map<YAML::anchor_t, size_t> bytes_of_anchor_;  // of single values
  std::optional<YAML::Mark> last_value_;
};

}  // namespace

YAML::Node parse_yaml(const std::string& yaml, const std::string& where) {
  const YamlPlace place{where};
  if (yaml.size() > kMostBytes)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("not readable as YAML: {} bytes, and at most {} are read", yaml.size(), kMostBytes), where,
                "Check that this is the file you mean.");
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::string text = yaml.starts_with(kByteOrderMark) ? yaml.substr(kByteOrderMark.size()) : yaml;
  check_characters(text, place);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    LimitChecker checker(text, place);
    while (parser.HandleNextDocument(checker)) {
    }
    checker.check_last_quote();
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    place.fail(error.mark, printable(error.msg));
  }
}

}  // namespace causeway
