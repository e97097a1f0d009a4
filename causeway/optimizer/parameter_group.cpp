#include "causeway/optimizer/parameter_group.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "causeway/base/error.h"

namespace causeway::optimizer {
namespace {

// How many insertions, deletions and replacements make a name match, a pattern's * being free.
size_t distance(std::string_view pattern, std::string_view name) {
  std::vector<size_t> row(name.size() + 1);
  for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
  for (const char c : pattern) {
    std::vector<size_t> next(row.size());
    next[0] = c == '*' ? row[0] : row[0] + 1;
    for (size_t j = 1; j < row.size(); ++j)
      next[j] = c == '*' ? std::min(row[j], next[j - 1])
                         : std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (c == '?' || c == name[j - 1] ? 0 : 1)});
    row = std::move(next);
  }
  return row.back();
}

std::vector<std::string> nearest(std::string_view pattern, const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::vector<std::tuple<size_t, size_t>> by_distance;
  for (size_t i = 0; i < names.size(); ++i) by_distance.emplace_back(distance(pattern, names[i]), i);
  std::ranges::sort(by_distance);
  std::vector<std::string> found;
  for (size_t k = 0; k < std::min(kShown, by_distance.size()); ++k) found.push_back(names[std::get<1>(by_distance[k])]);
  return found;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  // The last * that was met, and what of the name it stands for.
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

const ParameterGroup* group_of(const std::vector<ParameterGroup>& groups, std::string_view name) {
  const auto found =
      std::ranges::find_if(groups, [&](const ParameterGroup& group) { return matches(group.pattern, name); });
  return found == groups.end() ? nullptr : &*found;
}

void require_members(const std::vector<ParameterGroup>& groups, const std::vector<std::string>& names,
                     std::string_view what) {
  for (const ParameterGroup& group : groups) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return group_of(groups, name) == &group; })) continue;
    const auto met = std::ranges::find_if(names, [&](const std::string& name) { return matches(group.pattern, name); });
    if (met != names.end())
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("all that '{}' matches is in groups before it ({} in that of '{}')", group.pattern, *met,
                              group_of(groups, *met)->pattern),
                  "optimizer.groups", "A parameter is in the first group that matches it: put the narrower one first.");
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' matches no {}", group.pattern, what), "optimizer.groups",
                fmt::format("The nearest names are {}; * stands for any characters.",
                            fmt::join(nearest(group.pattern, names), ", ")));
  }
}

}  // namespace causeway::optimizer
