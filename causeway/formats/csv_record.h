// Comma-separated values (RFC 4180): records of a text, whose lines end with LF or CRLF. Fields with commas, quotes or
// line breaks are in double quotes, and a quote within one is two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

struct CsvField {
  std::string_view bytes;  // as they are stored; of a quoted field without the quotes around it
  bool is_quoted = false;
};

// Appends what a field says.
void append_csv_value(const CsvField& field, std::string& value);

struct CsvRecord {
  std::vector<CsvField> fields;  // views of the text; one of no bytes for a blank line
  size_t size = 0;               // of the record in the text, its line end included
  bool is_blank() const { return fields.size() == 1 && !fields[0].is_quoted && fields[0].bytes.empty(); }
};

// The record that `text` begins with, which must not be empty. Nothing where it goes on after the text, of which more
// is there unless `is_all`. `input` and `line` (of the text's beginning, from 1) are for messages. Throws
// Error(kCorrupt) naming input, line and column (the byte in that line, from 1): a quote inside a field without quotes
// or after the end of one with them, a quoted field without an end, a carriage return without a line feed.
std::optional<CsvRecord> parse_csv_record(std::string_view text, bool is_all, const std::string& input, uint64_t line);

}  // namespace causeway::formats
