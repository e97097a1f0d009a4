#include "causeway/formats/chat_template/jinja_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/formats/chat_template/jinja_filters.h"
#include "causeway/formats/chat_template/jinja_lexer.h"
#include "causeway/formats/chat_template/jinja_methods.h"
#include "causeway/formats/chat_template/jinja_operators.h"
#include "causeway/formats/chat_template/python_format.h"

namespace causeway::formats {
namespace {

// Without arguments.
struct PlainTest {
  std::string_view name;
  bool (*holds)(const JinjaValue&);
};
constexpr PlainTest kPlainTests[] = {
    {"defined", [](const JinjaValue& v) { return !v.is(JinjaKind::kUndefined); }},
    {"undefined", [](const JinjaValue& v) { return v.is(JinjaKind::kUndefined); }},
    {"none", [](const JinjaValue& v) { return v.is(JinjaKind::kNone); }},
    {"boolean", [](const JinjaValue& v) { return v.is(JinjaKind::kBoolean); }},
    {"true", [](const JinjaValue& v) { return v.is(JinjaKind::kBoolean) && v.as_boolean(); }},
    {"false", [](const JinjaValue& v) { return v.is(JinjaKind::kBoolean) && !v.as_boolean(); }},
    {"integer", [](const JinjaValue& v) { return v.is(JinjaKind::kInteger); }},
    {"float", [](const JinjaValue& v) { return v.is(JinjaKind::kFloat); }},
    {"number", [](const JinjaValue& v) { return v.is_number(); }},
    {"string", [](const JinjaValue& v) { return v.is(JinjaKind::kString); }},
    {"mapping", [](const JinjaValue& v) { return v.is(JinjaKind::kDict); }},
    {"iterable", [](const JinjaValue& v) { return is_iterable(v) || v.is(JinjaKind::kLoop); }},
    {"sequence",
     [](const JinjaValue& v) {
       return v.is(JinjaKind::kString) || v.is(JinjaKind::kList) || v.is(JinjaKind::kTuple) || v.is(JinjaKind::kDict) ||
              v.is(JinjaKind::kRange) || v.is(JinjaKind::kUndefined);
     }},
    {"callable",
     [](const JinjaValue& v) {
       return v.is(JinjaKind::kUndefined) || v.is(JinjaKind::kMacro) || v.is(JinjaKind::kMethod) ||
              v.is(JinjaKind::kFunction) || v.is(JinjaKind::kLoop);
     }},
    {"escaped", [](const JinjaValue& v) { return v.is_markup(); }},
    {"lower", [](const JinjaValue& v) { return has_case(python_str(v).bytes(), false); }},
    {"upper", [](const JinjaValue& v) { return has_case(python_str(v).bytes(), true); }},
    {"odd",
     [](const JinjaValue& v) {
       return is_equal(apply_binary("%", v, JinjaValue::integer(2)), JinjaValue::integer(1));
     }},
    {"even",
     [](const JinjaValue& v) {
       return is_equal(apply_binary("%", v, JinjaValue::integer(2)), JinjaValue::integer(0));
     }},
    {"filter", [](const JinjaValue& v) { return v.is(JinjaKind::kString) && is_filter(v.bytes()); }},
};

bool is_same(const JinjaValue& left, const JinjaValue& right) {
  if (left.kind() != right.kind()) return false;
  if (left.is(JinjaKind::kNone)) return true;
  if (left.is_whole()) return left.as_integer() == right.as_integer();
  if (left.is(JinjaKind::kUndefined) || left.is(JinjaKind::kFloat) || left.is(JinjaKind::kString))
    throw Error(
        ErrorKind::kUnsupported,
        fmt::format("the chat template uses the test sameas for a {}, which is not supported", type_name(left)));
  return left.identity() == right.identity();
}

// With one.
struct ComparisonTest {
  std::string_view names;  // between spaces
  bool (*holds)(const JinjaValue&, const JinjaValue&);
};
constexpr ComparisonTest kComparisonTests[] = {
    {" eq == equalto ", is_equal},
    {" ne != ", [](const JinjaValue& a, const JinjaValue& b) { return !is_equal(a, b); }},
    {" lt < lessthan ", [](const JinjaValue& a, const JinjaValue& b) { return compare_values(a, b, "<") < 0; }},
    {" le <= ", [](const JinjaValue& a, const JinjaValue& b) { return compare_values(a, b, "<=") <= 0; }},
    {" gt > greaterthan ", [](const JinjaValue& a, const JinjaValue& b) { return compare_values(a, b, ">") > 0; }},
    {" ge >= ", [](const JinjaValue& a, const JinjaValue& b) { return compare_values(a, b, ">=") >= 0; }},
    {" in ", is_contained},
    {" sameas ", is_same},
    {" divisibleby ", [](const JinjaValue& a,
                         const JinjaValue& b) { return is_equal(apply_binary("%", a, b), JinjaValue::integer(0)); }},
};

const PlainTest* find_plain(std::string_view name) {
  const auto* found = std::ranges::find(kPlainTests, name, &PlainTest::name);
  return found == std::end(kPlainTests) ? nullptr : found;
}

const ComparisonTest* find_comparison(std::string_view name) {
  const std::string wanted = fmt::format(" {} ", name);
  const auto* found = std::ranges::find_if(
      kComparisonTests, [&](const ComparisonTest& test) { return test.names.find(wanted) != std::string_view::npos; });
  return found == std::end(kComparisonTests) ? nullptr : found;
}

}  // namespace

void check_test_name(std::string_view name, bool is_soft, const std::string& where, int line) {
  if (name == "test") throw_unsupported("the test 'test'", where, line);
  if (!is_soft && find_plain(name) == nullptr && find_comparison(name) == nullptr)
    throw_syntax_error(fmt::format("No test named '{}'.", printable(name)), where, line);
}

bool apply_test(std::string_view name, const JinjaValue& value, const JinjaCallArguments& call) {
  if (const PlainTest* test = find_plain(name)) {
    const JinjaBoundArguments none(name, call, {});
    return test->holds(value);
  }
  if (const ComparisonTest* test = find_comparison(name)) {
    const JinjaBoundArguments arguments(name, call, {"other"}, 1);
    return test->holds(value, arguments.value(0));
  }
  throw_template_error(fmt::format("No test named '{}' found.", printable(name)));
}

}  // namespace causeway::formats
