// What a template has while it runs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "causeway/formats/chat_template/chat_template.h"
#include "causeway/formats/chat_template/chat_values.h"
#include "causeway/formats/chat_template/jinja_call.h"
#include "causeway/formats/chat_template/jinja_interpreter.h"
#include "causeway/formats/chat_template/jinja_macro.h"

namespace causeway::formats {

class JinjaRenderState {
 public:
  JinjaRenderState(const ChatTemplateProgram& program, const ChatInput& input, const RenderingLimits& limits)
      : program(program), input(input), steps_left_(limits.steps), bytes_left_(limits.bytes) {}

  // Throw Error(kResource) beyond the limits.
  void count_step(int line);
  void count_bytes(size_t bytes);

  // A variable of the input or a function of Jinja; undefined without a name where there is neither.
  JinjaValue resolve(const std::string& name);
  // Calls such a function.
  JinjaValue call_function(const std::string& name, const JinjaCallArguments& arguments);

  // Of what the template itself writes at this moment.
  TextMark literal_mark() const { return {.turn = turn, .in_generation_prompt = in_generation_prompt}; }

  const ChatTemplateProgram& program;
  const ChatInput& input;
  FieldNames fields;
  JinjaActivation* activation = nullptr;  // of the function that runs
  std::deque<JinjaActivation> kept;       // those that macros may still read
  int32_t turn = -1;                      // the message that is worked on
  bool in_generation_prompt = false;
  bool used_date = false;
  int line = 1;   // that is run
  int depth = 0;  // of the interpreter in itself

 private:
  JinjaValue make_namespace(const JinjaCallArguments& arguments);
  JinjaValue make_dict(const JinjaCallArguments& arguments) const;
  JinjaValue format_date(const JinjaCallArguments& arguments);

  std::map<std::string, JinjaValue> resolved_;
  std::deque<JinjaNamespace> namespaces_;
  uint64_t steps_left_, bytes_left_;
};

// Counts how deep the interpreter is in itself. Throws Error(kResource) where that is too deep for the stack.
class InterpreterDepth {
 public:
  explicit InterpreterDepth(JinjaRenderState& state);
  ~InterpreterDepth() { --state_.depth; }
  InterpreterDepth(const InterpreterDepth&) = delete;
  InterpreterDepth& operator=(const InterpreterDepth&) = delete;

 private:
  JinjaRenderState& state_;
};

// A namespace's members may not begin with an underscore.
void check_member_name(std::string_view name);

}  // namespace causeway::formats
