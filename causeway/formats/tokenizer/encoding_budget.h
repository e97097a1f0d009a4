// How much work one text may make. A file of some kilobytes can describe a tokenizer whose time grows with the square
// or the cube of a text's length. What is too much follows from the file and the text alone, on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Of one text, from where it is encoded or decoded on; what works on parts of it, on the same thread, draws on the
// current one. Steps are bytes looked at in tries, and steps of matching of regular expressions.
class EncodingBudget {
 public:
  // Real tokenizers take 1 to 10 steps a byte.
  static constexpr uint64_t kStepsPerByte = 256, kFreeSteps = uint64_t{1} << 24;

  // The budget of a text is the current one while it is in scope, unless it is part of another text's work.
  class Scope {
   public:
    explicit Scope(size_t text_bytes);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    bool is_outer_;
  };

  // Of the innermost scope; one of no bytes outside of all.
  static EncodingBudget& current();

  // Throws Error(kResource), naming the part of the tokenizer (`where`), when steps are used up.
  void spend(uint64_t steps, std::string_view where) {
    if (steps > left_) throw_spent(where);
    left_ -= steps;
  }
  uint64_t left() const { return left_; }

 private:
  [[noreturn]] void throw_spent(std::string_view where) const;
  void begin(size_t text_bytes);

  size_t text_bytes_ = 0;
  uint64_t left_ = kFreeSteps;
  bool is_open_ = false;
};

}  // namespace causeway::formats
