// Every planted fault is caught by the test that is said to catch it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <map>
#include <set>

#include "causeway/base/file.h"
#include "tests/mutation/exit_status.h"
#include "tests/mutation/planted_faults.h"

namespace causeway {
namespace {

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome run_tests(std::string_view program, std::string_view filter, const std::string& options = "") {
  const std::string command =
      fmt::format("env -u CAUSEWAY_TEST_DEVICE '{}/{}' '--gtest_filter={}' --gtest_brief=1 {} 2>&1",
                  CAUSEWAY_TEST_PROGRAMS, program, filter, options);
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  for (size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    outcome.output.append(buffer, count);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

class PlantedFaults : public testing::TestWithParam<PlantedFault> {};

TEST_P(PlantedFaults, IsCaught) {
  const PlantedFault& fault = GetParam();
  const Outcome outcome = run_tests(fault.program, fault.test, fmt::format("--planted_fault={}", fault.name));
  EXPECT_EQ(outcome.status, kFaultCaught)
      << fault.what << " (" << fault.file << ": " << fault.original << " -> " << fault.planted << ")\n"
      << outcome.output;
  EXPECT_THAT(outcome.output, testing::HasSubstr(std::string(fault.test) + ": ")) << "caught by another test";
  std::printf("%s: caught by %s\n", std::string(fault.what).c_str(), outcome.output.c_str());
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedFaults, testing::ValuesIn(planted_faults().begin(), planted_faults().end()),
                         [](const auto& test) { return std::string(test.param.name); });

// A fault that finds its place no more, or several, proves nothing.
TEST(PlantedFaultList, HasOnePlaceForEach) {
  std::set<std::string_view> names;
  for (const PlantedFault& fault : planted_faults()) {
    EXPECT_EQ(occurrences_in_header(fault), 1)
        << fault.name << ": this text of " << fault.file
        << " has changed; change the fault in tests/mutation/planted_fault_list.cpp with it: " << fault.original;
    EXPECT_NE(fault.original, fault.planted) << fault.name;
    EXPECT_TRUE(names.insert(fault.name).second) << fault.name << " is there twice";
  }
  EXPECT_GT(names.size(), 30u);
}

// Not among the tests of `make test`, which runs these tests anyway.
TEST(PlantedFaultTests, PassWithoutFault) {
  std::map<std::string_view, std::set<std::string_view>> tests;
  for (const PlantedFault& fault : planted_faults()) tests[fault.program].insert(fault.test);
  for (const auto& [program, names] : tests) {
    const Outcome outcome = run_tests(program, fmt::format("{}", fmt::join(names, ":")));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  }
}

TEST(PlantedFaultList, IsInTheDocument) {
  const std::string document = read_text_file(CAUSEWAY_SOURCE_DIR "/docs/reliability.md");
  for (const PlantedFault& fault : planted_faults()) {
    const std::string row = fmt::format("| `{}` | {} | `{}` |", fault.name, fault.what, fault.test);
    EXPECT_THAT(document, testing::HasSubstr(row));
  }
}

}  // namespace
}  // namespace causeway
