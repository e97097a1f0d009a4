// Runs on several datasets at once.
#include "causeway/base/error.h"
#include "program_under_test.h"

namespace causeway::cli {
namespace {

class MixtureRunTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    prepare_data();
    write("other.txt", sample_text(3'000));
    ASSERT_EQ(run({"data", "prepare", "other.txt", "-o", "other", "--validation-fraction", "0.2"}).status, 0);
    write("mixed.yaml",
          std::string(kRecipe).replace(std::string(kRecipe).find("path: data"), 10,
                                       "sources:\n    - path: data\n      weight: 3\n    - {path: other}"));
  }
  std::vector<nlohmann::json> records(const std::string& directory) {
    std::vector<nlohmann::json> records;
    std::ifstream metrics(path(directory + "/metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);) records.push_back(nlohmann::json::parse(line));
    return records;
  }
};

TEST_F(MixtureRunTest, SaysWhatItReadsOfEachSourceAndResumesExactly) {
  const Outcome whole = run({"train", "mixed.yaml", "name=whole"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_NE(whole.err.find("data: 75.00 % of data, 18"), std::string::npos) << whole.err;
  EXPECT_NE(whole.err.find("data: 25.00 % of other, 2"), std::string::npos) << whole.err;
  ASSERT_EQ(run({"train", "mixed.yaml", "name=parts", "train.steps=20", "schedule.kind=constant", "--quiet"}).status,
            0);
  ASSERT_EQ(run({"train", "mixed.yaml", "name=constant", "schedule.kind=constant", "--quiet"}).status, 0);
  const Outcome resumed = run(
      {"train", "runs/parts/recipe.yaml", "train.steps=30", "schedule.kind=constant", "--resume", "auto", "--quiet"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(tensor_files("runs/constant/checkpoints/step-00000030") ==
              tensor_files("runs/parts/checkpoints/step-00000030"));

  bool evaluated = false;
  for (const nlohmann::json& record : records("runs/whole")) {
    if (record.contains("source_epochs") && record["step"] == 30) {
      EXPECT_NEAR(record["source_epochs"]["data"].get<double>(), 90.0 / 561, 0.01) << record;
      EXPECT_NEAR(record["source_epochs"]["other"].get<double>(), 30.0 / 74, 0.01) << record;
    }
    if (!record.contains("validation_loss")) continue;
    evaluated = true;
    const double data = record["validation_losses"]["data"], other = record["validation_losses"]["other"];
    EXPECT_NEAR(record["validation_loss"].get<double>(), 0.75 * data + 0.25 * other, 0.02) << record;
    EXPECT_EQ(record["validation_targets"], 8 * 32);
  }
  EXPECT_TRUE(evaluated);

  expect_failure({"train", "mixed.yaml", "name=parts", "train.steps=40", "--resume", "auto", "--quiet",
                  "data.sources=[{path: data, weight: 1}, {path: other, weight: 1}]"},
                 1, {"trained on its sources by other weights", "Give the same weights"});
  expect_failure({"train", "mixed.yaml", "name=parts", "train.steps=40", "--resume", "auto", "--quiet",
                  "data.sources=[{path: other, weight: 1}, {path: data, weight: 3}]"},
                 1, {"trained on another dataset (data.sources was [{path: \"data\", weight: 3}, "});
}

TEST_F(MixtureRunTest, AMixtureOfOneIsThatDataset) {
  ASSERT_EQ(run({"train", "tiny.yaml", "name=path", "--quiet"}).status, 0);
  ASSERT_EQ(run({"train", "tiny.yaml", "name=source", "data.path=", "data.sources=[{path: data}]", "--quiet"}).status,
            0);
  EXPECT_TRUE(tensor_files("runs/path/checkpoints/step-00000030") ==
              tensor_files("runs/source/checkpoints/step-00000030"));
}

TEST_F(MixtureRunTest, WhatIsWrongWithASourceIsNamed) {
  expect_failure({"train", "mixed.yaml", "data.path=data"}, 1,
                 {"command line: data.path=data: data.sources: data.path names the data to train on as well"});
  expect_failure({"train", "mixed.yaml", "data.sources=[{path: data}, {path: othre}]"}, 1,
                 {"othre: the token data does not exist", "Did you mean \"./other\"?"});
  expect_failure({"train", "mixed.yaml", "data.sources=[{path: data}, {path: other, weight: 0}]"}, 1,
                 {"data.sources: the weight of source 2 is '0', not a number from 1e-15 to 1e15"});
  ASSERT_EQ(run({"data", "prepare", "other.txt", "-o", "whole"}).status, 0);
  expect_failure({"train", "mixed.yaml", "data.sources=[{path: data}, {path: whole}]"}, 1,
                 {"whole: the source has no held-out part, and data has one"});
}

}  // namespace
}  // namespace causeway::cli
