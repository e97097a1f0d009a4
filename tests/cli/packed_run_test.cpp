// Runs on whole documents.
#include "causeway/base/error.h"
#include "program_under_test.h"

namespace causeway::cli {
namespace {

class PackedRunTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    const std::string text = sample_text(20'000);
    std::string lines;
    for (size_t begin = 0, length = 3; begin + length < text.size(); begin += length, length = 3 + length * 7 % 41)
      lines += nlohmann::json{{"text", text.substr(begin, length)}}.dump() + "\n";
    write("lines.jsonl", lines);
    ASSERT_EQ(run({"data", "prepare", "lines.jsonl", "-o", "data", "--validation-fraction", "0.1"}).status, 0);
  }
};

TEST_F(PackedRunTest, SaysThePaddingAndResumesExactly) {
  const std::vector<std::string> common = {"model.family=gpt2", "data.packing=documents", "schedule.kind=constant"};
  const auto train = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"train", "tiny.yaml"});
    arguments.insert(arguments.end(), common.begin(), common.end());
    return run(arguments);
  };
  const Outcome whole = train({"name=whole"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  const nlohmann::json packing =
      run_json({"data", "inspect", "data", "--sequence-length", "32", "--json"})["splits"]["train"]["packing"];
  EXPECT_NE(whole.err.find(fmt::format("data: {} documents of data in {} samples of 32 tokens: {:.2f} % padding, {} ",
                                       packing["documents"].get<int>(), packing["samples"].get<int>(),
                                       100 * packing["padding"].get<double>(), packing["cut_documents"].get<int>())),
            std::string::npos)
      << whole.err;

  ASSERT_EQ(train({"name=parts", "train.steps=20", "--quiet"}).status, 0);
  const Outcome resumed = run({"train", "runs/parts/recipe.yaml", "train.steps=30", "--resume", "auto", "--quiet"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(tensor_files("runs/whole/checkpoints/step-00000030") ==
              tensor_files("runs/parts/checkpoints/step-00000030"));

  // Padding is no token that was consumed.
  int64_t tokens[2] = {};
  for (const int i : {0, 1}) {
    std::ifstream metrics(path(i == 0 ? "runs/whole/metrics.jsonl" : "runs/parts/metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);)
      if (const nlohmann::json record = nlohmann::json::parse(line); record.contains("tokens"))
        tokens[i] = record["tokens"];
  }
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_LE(tokens[0], 30 * 4 * 32);
  EXPECT_NEAR(static_cast<double>(tokens[0]) / (30 * 4 * 32), 1 - packing["padding"].get<double>(), 0.03);

  expect_failure({"train", "runs/parts/recipe.yaml", "train.steps=40", "data.packing=windows", "--resume", "auto"}, 1,
                 {"data.packing is documents in the checkpoint and windows in this run"});
  expect_failure({"train", "tiny.yaml", "data.packing=document"}, 1,
                 {"data.packing: 'document' is not one of windows, documents", "Did you mean documents?"});
}

TEST_F(PackedRunTest, EveryFamilyLearns) {
  for (const char* family : {"llama", "mpt"}) {
    const Outcome outcome = run({"train", "tiny.yaml", fmt::format("model.family={}", family), "data.packing=documents",
                                 "train.recompute=block", fmt::format("name={}", family)});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::ifstream metrics(path(fmt::format("runs/{}/metrics.jsonl", family)));
    std::vector<double> losses;
    for (std::string line; std::getline(metrics, line);)
      if (const nlohmann::json record = nlohmann::json::parse(line); record.contains("loss"))
        losses.push_back(record["loss"]);
    ASSERT_EQ(losses.size(), 30u);
    EXPECT_LT(losses.back(), 0.8 * losses.front());
  }
}

}  // namespace
}  // namespace causeway::cli
