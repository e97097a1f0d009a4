#include "causeway/base/text_table.h"

#include <algorithm>

#include "causeway/base/printable.h"
#include "causeway/base/utf8.h"

namespace causeway {

std::string format_table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right) {
  std::vector<std::vector<std::string>> cells = rows;
  std::vector<size_t> widths;
  for (std::vector<std::string>& row : cells)
    for (size_t column = 0; column < row.size(); ++column) {
      row[column] = printable(row[column]);
      if (column == widths.size()) widths.push_back(0);
      widths[column] = std::max(widths[column], display_width(row[column]));
    }
  std::string text;
  for (const std::vector<std::string>& row : cells) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - display_width(row[column]), ' ');
      const bool is_right = std::find(right.begin(), right.end(), column) != right.end();
      line += (is_right ? padding + row[column] : row[column] + padding) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);  // npos + 1 is 0
    text += line + "\n";
  }
  return text;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    const bool combines = character.code_point >= 0x300 && character.code_point < 0x370;
    width += combines ? 0 : 1;
    position += character.size;
  }
  return width;
}

}  // namespace causeway
