// The words of a graph's text (printer.h): names, numbers, quoted text, lists, types, and where an error stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/graph/graph.h"

namespace causeway::graph {

// Reads from the front. What reads a word skips spaces and tabs before it, and throws Error(kInvalidArgument) that says
// what was expected ("expected an element type") and at which line and column.
class TextScanner {
 public:
  // The text outlives it.
  explicit TextScanner(std::string_view text) : text_(text) {}

  // Of the next character; an error that is said later may stand here.
  size_t position() const { return position_; }
  [[noreturn]] void fail_at(size_t position, const std::string& what, const std::string& hint = {}) const;
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    fail_at(position_, what, hint);
  }
  // Runs `action`, and gives an error of it the place `position`.
  template <class Action>
  auto at(size_t position, Action action) const {
    try {
      return action();
    } catch (const Error& error) {
      fail_at(position, error.message(), error.hint());
    }
  }

  bool at_end() const { return position_ >= text_.size(); }
  bool peek_is(char c) const { return !at_end() && text_[position_] == c; }
  bool peek_is_name() const;
  void skip_spaces();
  void skip_space_and_lines();
  void skip_blank_lines();  // and those that begin with #
  // Whether the next character is `c`, which is read then; accept_here() skips no spaces before it.
  bool accept(char c);
  bool accept_here(char c);
  void expect(char c, const char* where);  // "expected ')' after the inputs": where = "after the inputs"

  // `what` is expected: "the name of an op".
  std::string name(const char* what);
  int64_t integer(const char* what);
  double number(const char* what);
  std::string quoted(const char* what);
  std::vector<int64_t> integers();  // [1, 2]
  Shape shape();                    // [T, 64]
  DType dtype();
  TensorType tensor_type();  // f32[T, 64]
  // What follows # up to the end of the line, unescaped; empty where there is none.
  std::string comment();
  void end_of_line(const char* what);

  // A hint for an unknown name: the nearest one, or all.
  static std::string suggestion(const std::string& name, const std::vector<std::string>& candidates);

 private:
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  int hex_digit();
  // One character of escaped text; the caller has checked that there is one.
  char escaped_character();

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace causeway::graph
