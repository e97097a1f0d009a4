// What a crash says, and that the process ends by its signal all the same.
#include "causeway/base/crash_report.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

namespace causeway {
namespace {

// Deeper than any stack.
int deeper(int depth) {
  volatile char frame[4096] = {};
  frame[0] = static_cast<char>(depth);
  return depth == 1 << 24 ? 0 : deeper(depth + 1) + frame[0];
}

class CrashReport : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitizerReportsCrashes) GTEST_SKIP() << "the sanitizer reports crashes itself";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(CrashReport, NamesSignalAddressAndFrames) {
  EXPECT_EXIT(
      {
        report_crashes("causeway 9.9");
        volatile int* const nothing = reinterpret_cast<volatile int*>(0x28);
        *nothing = 1;
      },
      testing::KilledBySignal(SIGSEGV),
      "internal error: causeway 9.9 crashed: SIGSEGV at address 0x28, in\n.*base_tests\\(.*please report");
}

TEST_F(CrashReport, OfAnAbort) {
  EXPECT_EXIT(
      {
        report_crashes("causeway 9.9");
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "causeway 9.9 crashed: SIGABRT, in\n");
}

TEST_F(CrashReport, OfAThread) {
  EXPECT_EXIT(
      {
        report_crashes("causeway 9.9");
        std::thread([] { ::raise(SIGBUS); }).join();
      },
      testing::KilledBySignal(SIGBUS), "crashed: SIGBUS");
}

TEST_F(CrashReport, OfAStackThatOverflows) {
  EXPECT_EXIT(
      {
        report_crashes("causeway 9.9");
        std::exit(deeper(0));
      },
      testing::KilledBySignal(SIGSEGV), "crashed: SIGSEGV at address 0x[0-9a-f]+, in\n.*please report");
}

}  // namespace
}  // namespace causeway
