// The main function of test programs that take --planted_fault=NAME (planted_faults.h). With it the program ends at
// the first failure, with the statuses below.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/mutation/exit_status.h"
#include "tests/mutation/planted_faults.h"

namespace causeway {
namespace {

// Ends the program at the first failure, and says what it was.
class FirstFailure : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const std::string message = result.message();
    std::printf("%s: %.400s\n", test_.c_str(), message.c_str());
    std::fflush(stdout);
    const bool exception = message.find("C++ exception") != std::string::npos;
    std::_Exit(exception ? kFaultThrew : kFaultCaught);
  }

  std::string test_;
};

}  // namespace
}  // namespace causeway

int main(int argc, char** argv) {
  using namespace causeway;
  testing::InitGoogleTest(&argc, argv);
  const std::string option = "--planted_fault=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with(option)) continue;
    const PlantedFault* fault = find_planted_fault(argument.substr(option.size()));
    if (fault == nullptr) {
      std::fprintf(stderr, "there is no fault of this name: %s\n", argument.c_str());
      return kFaultUnknown;
    }
    plant(*fault);
    testing::UnitTest::GetInstance()->listeners().Append(new FirstFailure);
  }
  const int status = RUN_ALL_TESTS();
  if (a_fault_is_planted() && kernels_with_planted_fault() == 0) return kFaultNotPlanted;
  return status;
}
