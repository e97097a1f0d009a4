// Runs on MDS datasets where they are.
#include "causeway/base/error.h"
#include "program_under_test.h"

namespace causeway::cli {
namespace {

class MdsRunTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    std::filesystem::copy(std::string(CAUSEWAY_SOURCE_DIR) + "/tests/fixtures/mds/mixed", path("mixed"));
    std::filesystem::copy(std::string(CAUSEWAY_SOURCE_DIR) + "/tests/fixtures/mds/text", path("text"));
  }
  Outcome train(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"train", "tiny.yaml", "data.path=mixed", "data.sequence_length=8", "train.steps=3"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(all);
  }
};

TEST_F(MdsRunTest, TrainsOnTokensInPlace) {
  const Outcome outcome = train({"name=whole", "data.packing=documents", "data.check_hashes=true"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("data: 34 documents of mixed in "), std::string::npos) << outcome.err;
  const nlohmann::json inspected = run_json({"data", "inspect", "mixed", "--json"});
  EXPECT_EQ(inspected["splits"]["train"]["documents"], 40);
  EXPECT_EQ(run({"data", "inspect", "text", "--column", "text"}).status, 1);
}

TEST_F(MdsRunTest, ADamagedShardStopsTheRunOrIsLeftOut) {
  std::filesystem::remove(path("mixed/shard.00001.mds"));
  const Outcome refused = train({"name=stop"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("mixed/shard.00001.mds: a shard of the index is missing"), std::string::npos)
      << refused.err;
  const Outcome outcome = train({"name=skip", "data.on_damaged_shard=skip"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("data: left out mixed/shard.00001.mds: a shard of the index is missing"),
            std::string::npos)
      << outcome.err;
}

TEST_F(MdsRunTest, TextIsSentToItsPreparation) {
  const Outcome outcome = train({"data.path=text"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("the samples have no column \"tokens\""), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("causeway data prepare DIRECTORY --output DATASET"), std::string::npos) << outcome.err;
  EXPECT_NE(train({"data.on_damaged_shard=skipp"}).err.find("Did you mean skip?"), std::string::npos);
}

}  // namespace
}  // namespace causeway::cli
