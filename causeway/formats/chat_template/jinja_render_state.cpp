#include "causeway/formats/chat_template/jinja_render_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/formats/chat_template/jinja_operators.h"
#include "causeway/formats/chat_template/python_format.h"

namespace causeway::formats {
namespace {

constexpr int kMostInterpreterDepth = 1200;
constexpr size_t kMostRange = 100'000;  // as Jinja's sandbox has it

constexpr std::string_view kJinjaFunctions[] = {"range",  "dict",   "namespace", "raise_exception",
                                                "lipsum", "cycler", "joiner",    "strftime_now"};

JinjaValue make_range(const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("range", call, {"start", "stop", "step"}, 1);
  auto range = std::make_shared<JinjaRange>();
  range->stop = arguments.integer(0, 0);
  if (arguments.has(1)) {
    range->start = range->stop;
    range->stop = arguments.integer(1, 0);
  }
  range->step = arguments.integer(2, 1);
  if (range->step == 0) throw_template_error("range() arg 3 must not be zero");
  const bool is_up = range->step > 0;
  if (is_up ? range->start < range->stop : range->start > range->stop) {
    const uint64_t distance = is_up ? static_cast<uint64_t>(range->stop) - static_cast<uint64_t>(range->start)
                                    : static_cast<uint64_t>(range->start) - static_cast<uint64_t>(range->stop);
    const uint64_t step = is_up ? static_cast<uint64_t>(range->step) : 0 - static_cast<uint64_t>(range->step);
    const uint64_t count = (distance - 1) / step + 1;
    if (count > kMostRange)
      throw_template_error(
          fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMostRange));
    range->count = count;
  }
  return JinjaValue::object(JinjaKind::kRange, std::move(range));
}

}  // namespace

InterpreterDepth::InterpreterDepth(JinjaRenderState& state) : state_(state) {
  if (++state_.depth <= kMostInterpreterDepth) return;
  --state_.depth;
  throw Error(ErrorKind::kResource, "the chat template calls itself too deeply");
}

void check_member_name(std::string_view name) {
  if (!name.starts_with('_')) return;
  throw_template_error(
      fmt::format("Chat templates cannot store underscore-prefixed attributes on a namespace, but got "
                  "'{}'. Please rename the attribute.",
                  printable(name)));
}

void JinjaRenderState::count_step(int at_line) {
  if (at_line > 0) line = at_line;
  if (steps_left_ == 0) throw Error(ErrorKind::kResource, "the chat template takes more steps than any chat needs");
  --steps_left_;
}

void JinjaRenderState::count_bytes(size_t bytes) {
  if (bytes > bytes_left_) throw Error(ErrorKind::kResource, "the chat template makes more text than any chat has");
  bytes_left_ -= bytes;
}

JinjaValue JinjaRenderState::resolve(const std::string& name) {
  const auto known = resolved_.find(name);
  if (known != resolved_.end()) return known->second;
  JinjaValue value;
  if (std::optional<JinjaValue> variable = find_chat_variable(input, name, fields)) {
    value = std::move(*variable);
  } else if (std::ranges::find(kJinjaFunctions, name) != std::end(kJinjaFunctions)) {
    auto function = std::make_shared<JinjaFunction>();
    function->name = name;
    value = JinjaValue::object(JinjaKind::kFunction, std::move(function));
  }
  return resolved_.emplace(name, value).first->second;
}

JinjaValue JinjaRenderState::call_function(const std::string& name, const JinjaCallArguments& call) {
  if (name == "range") return make_range(call);
  if (name == "namespace") return make_namespace(call);
  if (name == "dict") return make_dict(call);
  if (name == "strftime_now") return format_date(call);
  if (name == "raise_exception") {
    const JinjaBoundArguments arguments(name, call, {"message"}, 1);
    throw Error(ErrorKind::kInvalidArgument,
                printable(python_str(arguments.value(0)).bytes(), Whitespace::kLinesAndTabs),
                fmt::format("{}:{}", program.where, line), "The chat template refuses this conversation.");
  }
  throw Error(ErrorKind::kUnsupported, fmt::format("the chat template uses {}(), which is not supported", name));
}

JinjaValue JinjaRenderState::make_dict(const JinjaCallArguments& call) const {
  auto dict = std::make_shared<JinjaDict>();
  if (call.positional.size() > 1) throw_template_error("dict expected at most 1 argument");
  if (call.positional.size() == 1) {
    const JinjaValue& given = call.positional[0];
    if (given.is(JinjaKind::kDict)) {
      for (const auto& [key, value] : given.as<JinjaDict>().entries()) dict->set(key, value);
    } else {
      JinjaItems pairs(given);
      while (const std::optional<JinjaValue> pair = pairs.next()) {
        const JinjaValues parts = items_of(*pair);
        if (parts.size() != 2) throw_template_error("a pair of dict() has not two parts");
        dict->set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : call.named) dict->set(JinjaValue::string(name, literal_mark()), value);
  return JinjaValue::object(JinjaKind::kDict, std::move(dict), literal_mark());
}

JinjaValue JinjaRenderState::make_namespace(const JinjaCallArguments& call) {
  const JinjaValue members = make_dict(call);
  JinjaNamespace& made = namespaces_.emplace_back();
  for (const auto& [name, value] : members.as<JinjaDict>().entries()) {
    if (!name.is(JinjaKind::kString)) throw_template_error("a namespace's members have texts as names");
    check_member_name(name.bytes());
    made.set(name.bytes(), value);
  }
  auto reference = std::make_shared<JinjaNamespaceReference>();
  reference->target = &made;
  return JinjaValue::object(JinjaKind::kNamespace, std::move(reference));
}

JinjaValue JinjaRenderState::format_date(const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("strftime_now", call, {"format"}, 1);
  if (!input.date)
    throw Error(ErrorKind::kInvalidArgument, "the chat template writes today's date, and no date is given",
                fmt::format("{}:{}", program.where, line),
                "Give one, so that the text is the same tomorrow: --date YYYY-MM-DD.");
  used_date = true;
  std::tm time{};
  time.tm_year = input.date->year - 1900;
  time.tm_mon = input.date->month - 1;
  time.tm_mday = input.date->day;
  time.tm_hour = input.date->hour;
  time.tm_min = input.date->minute;
  time.tm_sec = input.date->second;
  timegm(&time);  // finds the day of the week and of the year
  const std::string format = arguments.text(0).bytes();
  if (format.size() > 1000) throw_template_error("a date's format is too long");
  std::string written(64 * (format.size() + 1), '\0');
  written.resize(std::strftime(written.data(), written.size(), format.c_str(), &time));
  return JinjaValue::string(std::move(written), {.field = fields.number("strftime_now"), .turn = turn});
}

}  // namespace causeway::formats
