// A table for people at a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace causeway {

// Columns as wide as their longest cell, two spaces apart, one line for each row. What a terminal would act on is
// escaped (printable()). `right`: the columns, counted from 0, that end alike, as numbers do.
std::string format_table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right = {});

// How many places the text takes on a line, as far as characters are counted: one each, none for combining marks.
size_t display_width(std::string_view text);

}  // namespace causeway
