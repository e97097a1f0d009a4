#include "causeway/bench/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/base/field_words.h"

namespace causeway::bench {

void throw_unknown_choice(const std::string& what, const std::string& name, const std::string& option,
                          const std::vector<std::string>& known) {
  const bool of_precisions = option == "--precision" || option == "--dtype";
  const std::string hint = name_hint(of_precisions ? NameOf::kPrecision : NameOf::kOther, name, known);
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no {}", name, what), option,
              fmt::format("{}{}Known: {}.", hint, hint.empty() ? "" : " ", fmt::join(known, ", ")));
}

size_t choose(const std::string& what, const std::string& name, const std::string& option,
              const std::vector<std::string>& known) {
  const auto found = std::find(known.begin(), known.end(), name);
  if (found == known.end()) throw_unknown_choice(what, name, option, known);
  return static_cast<size_t>(found - known.begin());
}

}  // namespace causeway::bench
