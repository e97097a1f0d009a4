// Every fuzz target over its seeds: what fuzzing found stays found.
#include <gtest/gtest.h>

#include <filesystem>

#include "causeway/base/file.h"
#include "tests/fuzz/targets.h"

namespace causeway::fuzz {
namespace {

TEST(FuzzCorpus, EveryTargetAnswersEverySeed) {
  for (const FuzzTarget& target : fuzz_targets()) {
    SCOPED_TRACE(target.name);
    const std::filesystem::path directory =
        std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fuzz/corpus" / target.name;
    int taken = 0, refused = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      SCOPED_TRACE(entry.path());
      EXPECT_NO_THROW(++(target.run(read_text_file(entry.path())) ? taken : refused));
    }
    // Seeds that are all refused would lead a fuzzer nowhere.
    EXPECT_GE(taken, 1);
    EXPECT_GE(refused, 1);
  }
}

TEST(FuzzCorpus, HostileInputsAreAnswered) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const FuzzTarget& target : fuzz_targets())
    for (const std::string& input : {std::string(), std::string(1, '\0'), std::string(300, '\xff'), deep})
      EXPECT_NO_THROW(target.run(input)) << target.name << ": " << input.substr(0, 10);
}

}  // namespace
}  // namespace causeway::fuzz
