#include "causeway/communicator/flight_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "causeway/communicator/rank_progress.h"

namespace causeway::communicator {
namespace {

TEST(FlightRecord, KeepsTheLastOnesAndWhichOfThemHaveEnded) {
  RankProgress progress;
  progress.enter(7, kStepPhase);
  for (size_t i = 0; i < FlightRecord::kKept + 10; ++i) {
    progress.begin_collective("all_gather", "fsdp", 4096);
    if (i % 2 == 1) progress.end_collectives(2);
  }
  progress.begin_replay(3);
  const RankPosition position = progress.position();
  const nlohmann::json json =
      nlohmann::json::parse(flight_text(progress.flight(), {2, 4, position.step, position.phase, true}));
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["phase"], "step");
  const nlohmann::json& collectives = json["collectives"];
  ASSERT_EQ(collectives.size(), FlightRecord::kKept);
  EXPECT_EQ(collectives.front()["number"], 12);
  const nlohmann::json& last = collectives[FlightRecord::kKept - 2];
  EXPECT_EQ(last["number"], FlightRecord::kKept + 10);
  EXPECT_EQ(last["name"], "all_gather");
  EXPECT_EQ(last["group"], "fsdp");
  EXPECT_EQ(last["bytes"], 4096);
  EXPECT_EQ(last["step"], 7);
  EXPECT_EQ(last["started"], last["queued"]);
  EXPECT_GE(last["ended"].get<double>(), last["queued"].get<double>());
  EXPECT_EQ(collectives.back()["name"], "replay of 3 collectives");
  EXPECT_EQ(collectives.back()["number"], FlightRecord::kKept + 10);
  EXPECT_TRUE(collectives.back()["ended"].is_null());
}

TEST(FlightRecord, WhatIsNotKnownIsNull) {
  RankProgress progress;
  progress.begin_collective("all_reduce", "dp");
  const nlohmann::json json = nlohmann::json::parse(flight_text(progress.flight(), {.knows_ends = false}));
  EXPECT_TRUE(json["collectives"][0]["started"].is_null());
  EXPECT_TRUE(json["collectives"][0]["ended"].is_null());
  EXPECT_EQ(json["ends_are_known"], false);
}

}  // namespace
}  // namespace causeway::communicator
