// A template's text, cut into tokens as Jinja 3.1 does with trim_blocks and lstrip_blocks: a newline after a block is
// not part of the text, nor are spaces before a block on its line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

enum class JinjaTokenKind : uint8_t {
  kData,           // text outside of tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct JinjaToken {
  JinjaTokenKind kind = JinjaTokenKind::kEnd;
  std::string text;  // of strings without quotes and escapes
  int line = 1;
  int64_t integer = 0;
  double floating = 0;

  bool is_name(std::string_view name) const { return kind == JinjaTokenKind::kName && text == name; }
  bool is_operator(std::string_view symbol) const { return kind == JinjaTokenKind::kOperator && text == symbol; }
};

// Ends with a token kEnd. Throws Error(kInvalidArgument) with `where` and the line.
std::vector<JinjaToken> tokenize_template(std::string_view text, const std::string& where);

// The Error of a template's text at a line.
[[noreturn]] void throw_syntax_error(std::string message, const std::string& where, int line);
[[noreturn]] void throw_unsupported(std::string construct, const std::string& where, int line);

}  // namespace causeway::formats
