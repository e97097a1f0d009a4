// JSON from outside the program, read with limits: how large the file, how deeply nested the text. What cannot be read
// is an Error with line and column.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "causeway/base/error.h"

namespace causeway {

// What messages call a text, and what is accepted.
struct JsonSubject {
  std::string name = "the file";  // "the index": messages say that it is not valid JSON, and where
  std::string where = {};         // the file, or the file and line
  std::string hint = {};
  ErrorKind kind = ErrorKind::kCorrupt;
  // Objects and lists within one another. Far below what the call stack bears: values are compared, copied, printed
  // and destroyed recursively.
  int most_depth = 64;
  bool keys_may_repeat = true;                // the last one counts; false: an error that names the key
  bool is_one_line = false;                   // `where` names the line, and messages give the column alone
  uint64_t first_line = 1, first_column = 1;  // of the text in the file, for messages
};

// Throws Error(subject.kind).
nlohmann::json parse_json(std::string_view text, const JsonSubject& subject);
// The same with the keys of objects in the order of the text. Looking one up takes time by their number.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonSubject& subject);

inline constexpr uint64_t kMostJsonBytes = uint64_t{256} << 20;

// Reads a regular file of at most `most_bytes`; `where` is the path when the subject names none. Throws Error: as
// read_text_file() for what is no such file, as parse_json() for its text.
nlohmann::json read_json_file(const std::filesystem::path& path, JsonSubject subject = {},
                              uint64_t most_bytes = kMostJsonBytes);

}  // namespace causeway
