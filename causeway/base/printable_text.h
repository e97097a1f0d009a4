// Text from files and other programs, made fit for a terminal or a page: nothing in it moves the cursor, changes
// colours, reverses the order of letters, ends the line, or is invisible.
#pragma once

#include <string>
#include <string_view>

namespace causeway {

enum class LineBreaks { kEscape, kKeep };

// Control characters (C0, DEL, C1), Unicode's line separators, direction marks and bytes that are no UTF-8 as \n, \t,
// \x1b or \u202e; all else as it is. kKeep leaves line feeds and tabs alone, for messages of several lines.
std::string printable(std::string_view text, LineBreaks breaks = LineBreaks::kEscape);

// How many places the text takes on a line, as far as characters are counted: one each, none for combining marks.
size_t display_width(std::string_view text);

}  // namespace causeway
