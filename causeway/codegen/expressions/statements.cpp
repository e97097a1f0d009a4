#include "causeway/codegen/expressions/statements.h"

#include <fmt/format.h>

#include "causeway/base/error.h"

namespace causeway::codegen {

std::string lane_loop(const std::string& variable, int lanes, const std::string& skip) {
  const std::string head =
      fmt::format("#pragma clang loop unroll(full)\nfor (int {0} = 0; {0} < {1}; ++{0}) {{\n", variable, lanes);
  return skip.empty() ? head : head + fmt::format("if ({}) continue;\n", skip);
}

void Statements::add(const std::string& text) {
  if (text.empty()) return;
  if (parts_.empty() || parts_.back().for_each_lane) parts_.emplace_back();
  parts_.back().text += text;
}

void Statements::add_for_each_lane(const std::string& body) { parts_.push_back({body, true}); }

void Statements::add(const Statements& more) { parts_.insert(parts_.end(), more.parts_.begin(), more.parts_.end()); }

std::string Statements::text(const std::string& lane_variable, int lanes, const std::string& skip) const {
  std::string all;
  for (const Part& part : parts_)
    all += part.for_each_lane ? lane_loop(lane_variable, lanes, skip) + part.text + "}\n" : part.text;
  return all;
}

std::string Statements::text() const {
  std::string all;
  for (const Part& part : parts_) {
    CAUSEWAY_CHECK(!part.for_each_lane, "statements for each lane where there are no lanes");
    all += part.text;
  }
  return all;
}

}  // namespace causeway::codegen
