#include "causeway/base/error.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "causeway/base/printable.h"

namespace causeway {
namespace {

// Any of the three may hold somebody else's text. As printable() gives it a zero byte does not end what what() says.
std::string compose(const std::string& what, const std::string& where, const std::string& hint) {
  std::string text = where.empty() ? what : where + ": " + what;
  if (!hint.empty()) text += "\n  " + hint;
  return printable(text, Whitespace::kLinesAndTabs);
}

// From a short name another letter makes another name: tpu and cpu. A long one nobody has typed.
constexpr size_t kShort = 3, kLongest = 256;

// Letters that are missing, too many, other ones or two that changed places (Damerau, 1964; optimal alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  const size_t substitution = std::max(a.size(), b.size()) <= kShort ? 2 : 1;
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : substitution), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// In so many letters people make so many mistakes, and another name is no mistake.
size_t most_mistakes(size_t letters) { return letters <= 2 ? 0 : letters <= 4 ? 1 : letters <= 7 ? 2 : letters / 3; }

// Another number means another thing (gpt3 and gpt2, h100 and h200), not a typing mistake; a number that is missing, or
// whose digits changed places, may be one.
std::string sorted_digits(std::string_view name) {
  std::string digits;
  for (const char letter : name)
    if (letter >= '0' && letter <= '9') digits += letter;
  std::sort(digits.begin(), digits.end());
  return digits;
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= name.size();) {
    const size_t to = std::min(name.find('.', from), name.size());
    parts.push_back(name.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

// How many mistakes make one name of the other, or too many to be mistakes. Names of as many parts between dots are
// compared part by part: mesh.ep is as far from mesh.dp as ep is from dp.
std::optional<size_t> mistakes(std::string_view name, std::string_view candidate) {
  const std::vector<std::string_view> a = parts_of(name), b = parts_of(candidate);
  if (a.size() != b.size() || a.size() == 1) {
    const std::string digits = sorted_digits(name), others = sorted_digits(candidate);
    if (digits != others && !digits.empty() && !others.empty()) return std::nullopt;
    const size_t letters = std::max(name.size(), candidate.size());
    if (letters - std::min(name.size(), candidate.size()) > most_mistakes(letters)) return std::nullopt;
    const size_t distance = edit_distance(name, candidate);
    return distance <= most_mistakes(letters) ? std::optional(distance) : std::nullopt;
  }
  size_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const std::optional<size_t> part = mistakes(a[i], b[i]);
    if (!part) return std::nullopt;
    sum += *part;
  }
  return sum;
}

}  // namespace

std::string_view error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "invalid argument";
    case ErrorKind::kNotFound:
      return "not found";
    case ErrorKind::kIo:
      return "input/output";
    case ErrorKind::kCorrupt:
      return "corrupt data";
    case ErrorKind::kResource:
      return "resource";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kInterrupted:
      return "interrupted";
  }
  return "error";
}

Error::Error(ErrorKind kind, std::string what, std::string where, std::string hint)
    : std::runtime_error(compose(what, where, hint)),
      kind_(kind),
      message_(std::move(what)),
      where_(std::move(where)),
      hint_(std::move(hint)) {}

void throw_check_failure(const char* expression, const char* file, int line, const std::string& context) {
  const std::string text = fmt::format("internal check failed: {} ({}:{}){}{}", expression, file, line,
                                       context.empty() ? "" : ": ", context);
  throw InternalError(printable(text, Whitespace::kLinesAndTabs));
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  // A file may hold a name of a megabyte, and a hundred thousand of them.
  if (name.size() > kLongest) return best;
  std::optional<size_t> fewest;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::optional<size_t> number = mistakes(name, candidate);
    if (!number || (fewest && *number >= *fewest)) continue;
    fewest = number;
    best = candidate;
  }
  return best;
}

}  // namespace causeway
