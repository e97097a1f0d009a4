// Errors. A user error is an `Error`: what happened, where, and what to do next. It travels as an exception to the
// command line, which prints it and exits with status 1; it never aborts. A broken internal invariant is an
// `InternalError`, thrown by CAUSEWAY_CHECK with the expression and whatever context the caller formats.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace causeway {

enum class ErrorKind {
  kInvalidArgument,  // a value the user gave cannot be used
  kNotFound,         // a file, key, device or name does not exist
  kIo,               // the operating system refused a read or write
  kCorrupt,          // stored data is damaged
  kResource,         // memory, disk or a device limit is exhausted
  kUnsupported,      // a valid request that this build or device cannot serve
  kInterrupted,      // a signal asked the program to stop
};

// The kind's name as it appears in messages, e.g. "invalid argument".
std::string_view error_kind_name(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  // `what`: what happened. `where`: the file, recipe key, tensor or op it concerns (may be empty).
  // `hint`: what to do next (may be empty).
  Error(ErrorKind kind, std::string what, std::string where = {}, std::string hint = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }

 private:
  ErrorKind kind_;
  std::string message_;
  std::string where_;
  std::string hint_;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_check_failure(const char* expression, const char* file, int line, const std::string& context);

// The candidate nearest to `name` by edit distance, or an empty string when none is close enough to be a typing
// mistake.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace causeway

// Checks an internal invariant; further arguments are an fmt format string with its values.
#define CAUSEWAY_CHECK(condition, ...)                                                                \
  do {                                                                                                \
    if (!(condition)) [[unlikely]]                                                                    \
      ::causeway::throw_check_failure(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
