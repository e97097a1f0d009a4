#include "causeway/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "causeway/base/error.h"

namespace causeway {
namespace {

class LogTest : public testing::Test {
 protected:
  ~LogTest() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(LogTest, WritesOneLineToStandardError) {
  testing::internal::CaptureStderr();
  log_warning("{} of {} {{}}", 1, "two");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::MatchesRegex("..:..:.. warning: 1 of two \\{\\}\n"));
}

TEST_F(LogTest, WritesNothingThatATerminalObeys) {
  testing::internal::CaptureStderr();
  log_warning("{}", "a\x1b[31mb\r");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::EndsWith("warning: a\\x1b[31mb\\r\n"));
}

TEST_F(LogTest, DropsMessagesBelowTheLevel) {
  testing::internal::CaptureStderr();
  log_debug("hidden");
  set_log_level(LogLevel::kError);
  log_warning("hidden too");
  set_log_level(LogLevel::kOff);
  log_error("hidden as well");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(LogTest, ParsesLevelNames) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("off"), LogLevel::kOff);
  try {
    parse_log_level("warnin");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.message(), "unknown log level \"warnin\"");
    EXPECT_EQ(error.hint(), "Did you mean warning?");
  }
}

}  // namespace
}  // namespace causeway
