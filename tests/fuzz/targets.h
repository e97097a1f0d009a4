// The parsers that read what comes from outside, each as a function of bytes. A parser answers any bytes with a result
// or with an Error; whatever else happens (another exception, a crash, a fault that the address sanitizer sees) is a
// defect. corpus_test.cpp runs every target over its seeds in every test run; `make fuzz` runs them under libFuzzer.
#pragma once

#include <span>
#include <string_view>

namespace causeway::fuzz {

struct FuzzTarget {
  const char* name;  // its seeds are in tests/fuzz/corpus/NAME
  // Whether the input was taken (false: an Error). What was taken is also written and read back where there is a
  // writer: std::logic_error is thrown when that gives something else.
  bool (*run)(std::string_view input);
};

std::span<const FuzzTarget> fuzz_targets();
// Null for an unknown name.
const FuzzTarget* find_fuzz_target(std::string_view name);

}  // namespace causeway::fuzz
