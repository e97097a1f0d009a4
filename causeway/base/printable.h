// Text that came from outside (files, command lines, stores that others wrote), made safe to show on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace causeway {

// What a text may hold beside visible characters.
enum class Whitespace {
  kSpaces,        // spaces alone
  kLinesAndTabs,  // spaces, newlines and tabs
};

// The text with everything that a terminal would obey, or that hides what is written, as an escape: control characters
// (\x1b, \n, \u009b), bytes that are not UTF-8 (\xff), and the characters that turn the direction of writing (\u202e).
// A backslash stays as it is: the result is for reading, not for reading back.
std::string printable(std::string_view text, Whitespace allowed = Whitespace::kSpaces);

// Whether printable() would leave the text alone.
bool is_printable(std::string_view text, Whitespace allowed = Whitespace::kSpaces);

}  // namespace causeway
