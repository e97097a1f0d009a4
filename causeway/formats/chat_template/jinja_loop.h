// The variable `loop` of a loop that reads it.
#pragma once

#include <optional>
#include <string_view>

#include "causeway/formats/chat_template/jinja_call.h"
#include "causeway/formats/chat_template/jinja_operators.h"
#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// Where a loop gets its items: those of a value, of which a condition may leave some out. The next item is looked at
// only when it is asked for, because a condition may depend on what the loop has done before.
class JinjaLoopSource {
 public:
  virtual ~JinjaLoopSource() = default;
  virtual std::optional<JinjaValue> next() = 0;
  virtual std::optional<size_t> length() const = 0;  // where it is known beforehand
};

class JinjaLoopState {
 public:
  explicit JinjaLoopState(JinjaLoopSource& source) : source_(source) {}

  // Goes on to the next item; none at the end.
  std::optional<JinjaValue> advance();

  // loop.index, loop.last, ...; none for what there is not. loop.cycle() and loop.changed().
  std::optional<JinjaValue> attribute(std::string_view name);
  JinjaValue call(std::string_view name, const JinjaCallArguments& arguments);

 private:
  int64_t length();
  const std::optional<JinjaValue>& peek();

  JinjaLoopSource& source_;
  int64_t index0_ = -1;
  std::optional<JinjaValue> before_, current_, after_;
  bool has_after_ = false;           // after_ has been looked at; it may be none
  std::optional<JinjaValues> rest_;  // read ahead for the length
  size_t rest_position_ = 0;
  std::optional<int64_t> length_;
  std::optional<JinjaValue> last_changed_;
};

// What the value `loop` refers to; null once the loop is over.
struct JinjaLoopReference : JinjaObject {
  mutable JinjaLoopState* state = nullptr;
  JinjaLoopState& live() const;
};

}  // namespace causeway::formats
