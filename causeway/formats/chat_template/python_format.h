// How Python writes values: str(), repr(), json.dumps(), str.format() and the operator %.
#pragma once

#include <string>
#include <vector>

#include "causeway/formats/chat_template/jinja_call.h"
#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// str(value). Throws Error where Python's result would name an address in memory.
MarkedText python_str(const JinjaValue& value);
MarkedText python_repr(const JinjaValue& value);

// repr() of a number.
std::string float_repr(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
  bool has_indent = false;
  std::string indent = {};  // one level of it
};

// json.dumps(value). Throws Error for what JSON does not have.
MarkedText python_json(const JinjaValue& value, const JsonStyle& style);

// text.format(arguments) and text % values. Throws Error for what Python refuses, Error(kUnsupported) for what is not
// here.
MarkedText python_format(const MarkedText& text, const JinjaCallArguments& arguments);
MarkedText python_percent(const MarkedText& text, const JinjaValue& values);

}  // namespace causeway::formats
