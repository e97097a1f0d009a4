// Attributes and methods of the types of values.
#pragma once

#include <optional>
#include <string_view>

#include "causeway/formats/chat_template/jinja_call.h"
#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// What Python's getattr() finds: a method, a member of a namespace, an attribute of `loop`. What the sandbox forbids is
// a value that is undefined and says so.
std::optional<JinjaValue> type_attribute(const JinjaValue& value, std::string_view name);

// Calls a method that type_attribute() gave. Throws Error, of kind kUnsupported for methods that are not here.
JinjaValue call_method(const JinjaMethod& method, const JinjaCallArguments& arguments);

// Of strings (string_methods.cpp).
JinjaValue call_string_method(const JinjaValue& string, std::string_view name, const JinjaCallArguments& arguments);

// text.replace(old, replacement), at most `count` times where that is not negative.
MarkedText replaced_text(const MarkedText& text, const MarkedText& old, const MarkedText& replacement, int64_t count);
// Lines, with their ends where `keep_ends`.
JinjaValues split_lines(const MarkedText& text, bool keep_ends);
// Each character changed as Python's method of that name does: upper, lower, title, capitalize, swapcase, casefold.
MarkedText changed_case(const MarkedText& text, std::string_view name);
MarkedText stripped_text(const MarkedText& text, std::string_view characters, bool at_begin, bool at_end);
// Python's islower() or isupper().
bool has_case(std::string_view text, bool upper);

}  // namespace causeway::formats
