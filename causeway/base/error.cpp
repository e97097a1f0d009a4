#include "causeway/base/error.h"

#include <algorithm>
#include <numeric>

#include "causeway/base/printable.h"

namespace causeway {
namespace {

// Any of the three may hold somebody else's text. As printable() gives it a zero byte does not end what what() says.
std::string compose(const std::string& what, const std::string& where, const std::string& hint) {
  std::string text = where.empty() ? what : where + ": " + what;
  if (!hint.empty()) text += "\n  " + hint;
  return printable(text, Whitespace::kLinesAndTabs);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
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
  // Distances take the product of two lengths: a file may hold a name of a megabyte, and a hundred thousand of them.
  constexpr size_t kLongestName = 256;
  if (name.size() > kLongestName) return best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(name.size(), candidate.size()), shorter = std::min(name.size(), candidate.size());
    if (longer - shorter >= best_distance) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace causeway
