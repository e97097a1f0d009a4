// libFuzzer's entry: `causeway_fuzz --target=recipe -max_total_time=600 CORPUS`. libFuzzer leaves what begins with two
// dashes to the program.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

const causeway::fuzz::FuzzTarget* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kOption = "--target=";
  for (int i = 1; i < *argc; ++i)
    if (const std::string_view word = (*argv)[i]; word.starts_with(kOption))
      target = causeway::fuzz::find_fuzz_target(word.substr(kOption.size()));
  if (target != nullptr) return 0;
  std::fprintf(stderr, "Name a target with --target=NAME. There are:\n");
  for (const causeway::fuzz::FuzzTarget& one : causeway::fuzz::fuzz_targets()) std::fprintf(stderr, "  %s\n", one.name);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
