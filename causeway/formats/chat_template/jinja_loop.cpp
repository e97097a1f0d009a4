#include "causeway/formats/chat_template/jinja_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace causeway::formats {

std::optional<JinjaValue> JinjaLoopState::advance() {
  std::optional<JinjaValue> item;
  if (std::exchange(has_after_, false))
    item = std::exchange(after_, std::nullopt);
  else if (rest_)
    item = rest_position_ < rest_->size() ? std::optional((*rest_)[rest_position_++]) : std::nullopt;
  else
    item = source_.next();
  if (!item) return std::nullopt;
  ++index0_;
  before_ = std::exchange(current_, item);
  return item;
}

const std::optional<JinjaValue>& JinjaLoopState::peek() {
  if (has_after_ && after_) return after_;
  has_after_ = true;
  if (rest_)
    after_ = rest_position_ < rest_->size() ? std::optional((*rest_)[rest_position_++]) : std::nullopt;
  else
    after_ = source_.next();
  return after_;
}

int64_t JinjaLoopState::length() {
  if (length_) return *length_;
  if (const std::optional<size_t> known = source_.length()) {
    length_ = static_cast<int64_t>(*known);
  } else {
    rest_.emplace();
    while (std::optional<JinjaValue> item = source_.next()) {
      rest_->push_back(std::move(*item));
      check_item_count(rest_->size());
    }
    length_ = static_cast<int64_t>(rest_->size()) + index0_ + 1 + (has_after_ && after_ ? 1 : 0);
  }
  return *length_;
}

std::optional<JinjaValue> JinjaLoopState::attribute(std::string_view name) {
  if (name == "index") return JinjaValue::integer(index0_ + 1);
  if (name == "index0") return JinjaValue::integer(index0_);
  if (name == "first") return JinjaValue::boolean(index0_ == 0);
  if (name == "last") return JinjaValue::boolean(!peek());
  if (name == "length") return JinjaValue::integer(length());
  if (name == "revindex") return JinjaValue::integer(length() - index0_);
  if (name == "revindex0") return JinjaValue::integer(length() - index0_ - 1);
  if (name == "depth") return JinjaValue::integer(1);
  if (name == "depth0") return JinjaValue::integer(0);
  if (name == "previtem")
    return index0_ == 0 || !before_ ? JinjaValue::undefined("there is no previous item") : *before_;
  if (name == "nextitem") {
    const std::optional<JinjaValue>& next = peek();
    return next ? *next : JinjaValue::undefined("there is no next item");
  }
  return std::nullopt;
}

JinjaValue JinjaLoopState::call(std::string_view name, const JinjaCallArguments& arguments) {
  if (!arguments.named.empty()) throw_template_error(fmt::format("{}() takes no named arguments", name));
  if (name == "cycle") {
    if (arguments.positional.empty()) throw_template_error("no items for cycling given");
    return arguments.positional[static_cast<size_t>(index0_) % arguments.positional.size()];
  }
  JinjaValue given = JinjaValue::tuple(arguments.positional);
  if (last_changed_ && is_equal(*last_changed_, given)) return JinjaValue::boolean(false);
  last_changed_ = std::move(given);
  return JinjaValue::boolean(true);
}

JinjaLoopState& JinjaLoopReference::live() const {
  if (state == nullptr) throw_template_error("'loop' is used after its loop");
  return *state;
}

}  // namespace causeway::formats
