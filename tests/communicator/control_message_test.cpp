#include "causeway/communicator/control_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"

namespace causeway::communicator {
namespace {

using testing::HasSubstr;

std::string refusal_of_message(const std::string& line) {
  try {
    parse_control_message(line);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    return error.what();
  }
  return "";
}

TEST(ControlMessageTest, WhatIsSaidIsHeard) {
  const ControlMessage all{.token = "abc",
                           .rank = 3,
                           .welcome = 3,
                           .position = RankPosition{12, "step", 40, "all_reduce over dp", 99},
                           .failure = RankFailure{"\"disk\"\nfull", true},
                           .stop = -1,
                           .leaves = true};
  const std::string line = print_control_message(all);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(parse_control_message(line), all);
  EXPECT_EQ(parse_control_message(print_control_message({})), ControlMessage{});
  EXPECT_EQ(parse_control_message("{\"said by a later version\": [1]}"), ControlMessage{});
}

TEST(ControlMessageTest, BytesThatAreNoTextAreReplaced) {
  const ControlMessage heard = parse_control_message(print_control_message({.failure = RankFailure{"a\xff", false}}));
  EXPECT_EQ(heard.failure->cause, "a\xef\xbf\xbd");
}

TEST(ControlMessageTest, WhatMakesNoSenseIsNamed) {
  EXPECT_THAT(refusal_of_message("GET / HTTP/1.1"), HasSubstr("a rank's message is not valid JSON"));
  EXPECT_THAT(refusal_of_message("[]"), HasSubstr("a rank's message is not an object"));
  EXPECT_THAT(refusal_of_message("{\"rank\": -1}"),
              HasSubstr("'rank' of a rank's message is not a whole number from 0"));
  EXPECT_THAT(refusal_of_message("{\"rank\": 2147483648}"), HasSubstr("'rank'"));
  EXPECT_THAT(refusal_of_message("{\"rank\": 1.5}"), HasSubstr("'rank'"));
  EXPECT_THAT(refusal_of_message("{\"stop\": -2}"),
              HasSubstr("'stop' of a rank's message is not a whole number from -1"));
  EXPECT_THAT(refusal_of_message("{\"at\": [1, \"step\", 2, \"\"]}"),
              HasSubstr("'at' of a rank's message is not a position"));
  EXPECT_THAT(refusal_of_message("{\"at\": [18446744073709551615, \"step\", 2, \"\", 3]}"), HasSubstr("'step'"));
  EXPECT_THAT(refusal_of_message("{\"at\": [1, \"step\", 2, \"\", 9007199254740993]}"), HasSubstr("'marks'"));
  EXPECT_THAT(refusal_of_message("{\"failed\": 3}"), HasSubstr("'failed' of a rank's message is not text"));
  EXPECT_THAT(refusal_of_message("{\"failed\": \"x\", \"consequence\": 1}"), HasSubstr("neither true nor false"));
}

}  // namespace
}  // namespace causeway::communicator
