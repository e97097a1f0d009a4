// What a recipe needs and takes on hardware that is not here.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class PlanCommandTest : public CliTest {
 protected:
  // Of kRecipe: embedding and output layer, two layers, the last norm.
  static constexpr int64_t kParameters = 2 * 256 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32;
};

TEST_F(PlanCommandTest, PrintsMemoryCollectivesTimeAndDollars) {
  const Outcome text = run({"plan", "tiny.yaml", "mesh.fsdp=2", "--hardware", "h200"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("tiny on 2 of NVIDIA H200: fsdp 2\n"));
  EXPECT_THAT(text.out, ContainsRegex("weights +[0-9]+ +exact"));
  EXPECT_THAT(text.out, ContainsRegex("all +[0-9]+ .*the device has 139 GiB: the step fits"));
  EXPECT_THAT(text.out, ContainsRegex("all_gather over fsdp +2 +[0-9]+ +[0-9]+ +[0-9.]+ ms"));
  EXPECT_THAT(text.out, ContainsRegex("tokens/s +[0-9]+"));
  EXPECT_THAT(text.out, ContainsRegex("MFU +[0-9.]+ %"));
  EXPECT_THAT(text.out, ContainsRegex("dollars for 1e9 tokens +[0-9.]+, at \\$1.63 for a device's hour"));
}

TEST_F(PlanCommandTest, FiguresAreThoseOfExplain) {
  const nlohmann::json plan = run_json({"plan", "tiny.yaml", "--hardware", "h200", "--json"});
  EXPECT_EQ(plan["weight_bytes"], 4 * kParameters);
  EXPECT_EQ(plan["optimizer_bytes"], 8 * kParameters);
  EXPECT_EQ(plan["checkpoint_bytes"], 12 * kParameters);
  const nlohmann::json explained = run_json({"explain", "tiny.yaml", "device=cuda:sm_90a", "--json"});
  EXPECT_EQ(plan["weight_bytes"], explained["parameter_bytes"]);
  EXPECT_EQ(plan["total_bytes"], explained["peak_bytes"]);
  EXPECT_NEAR(plan["flops"].get<double>() / (4 * 32), explained["flops_per_token"].get<double>(), 1e-6);
  EXPECT_TRUE(plan["memory_is_exact"]);
  EXPECT_TRUE(plan["fits"]);
  EXPECT_GT(plan["step_seconds"], 0.0);
}

TEST_F(PlanCommandTest, StagesArePlannedAndExplainedOneByOne) {
  const std::vector<std::string> staged = {"tiny.yaml", "mesh.pp=2", "train.micro_batch_size=1",
                                           "train.pipeline_schedule=zero_bubble"};
  const auto with = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> words = {command};
    words.insert(words.end(), staged.begin(), staged.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const nlohmann::json plan = run_json(with("plan", {"--hardware", "h200", "--json"}));
  const nlohmann::json first = run_json(with("explain", {"device=cuda:sm_90a", "--json"}));
  const nlohmann::json last = run_json(with("explain", {"device=cuda:sm_90a", "--stage", "1", "--json"}));
  EXPECT_EQ(first["parameter_bytes"].get<int64_t>() + last["parameter_bytes"].get<int64_t>(), 4 * kParameters);
  EXPECT_EQ(plan["total_bytes"], std::max(first["peak_bytes"].get<int64_t>(), last["peak_bytes"].get<int64_t>()));
  // Four micro-batches, two stages: one of 13 times is waited for.
  EXPECT_NEAR(plan["pipeline_bubble"].get<double>(), 1.0 / 13, 1e-12);
  EXPECT_EQ(plan["mesh"]["pp"], 2);
  const nlohmann::json whole =
      run_json({"plan", "tiny.yaml", "train.micro_batch_size=1", "--hardware", "h200", "--json"});
  EXPECT_NEAR(plan["flops"].get<double>(), whole["flops"].get<double>(), 1e-9 * whole["flops"].get<double>());
  std::map<std::string, int> messages;
  for (const nlohmann::json& one : first["collectives"]) messages[one["name"]] = one["number"];
  EXPECT_EQ(messages["send to stage 1"], 4);
  EXPECT_EQ(messages["receive from stage 1"], 4);
  EXPECT_THAT(run(with("plan", {"--hardware", "h200"})).out,
              HasSubstr("2 stages, schedule zero_bubble: a stage waits for about 8 % of the step\n"));
  EXPECT_THAT(run(with("explain", {"device=cuda:sm_90a", "--stage", "1"})).out,
              HasSubstr("pipeline: stage 1 of 2, schedule zero_bubble, 4 micro-batches; a stage waits for about 8 %"));
  expect_failure(with("explain", {"device=cuda:sm_90a", "--stage", "2"}), 1, {"there is no stage 2: the recipe has 2"});
}

TEST_F(PlanCommandTest, PricesMayBeOnesOwn) {
  write("costs.yaml",
        "costs:\n  - {device: A100, dollars_per_hour: 7.20, basis: rented, source: me, date: 2026, tag: primary}\n");
  const nlohmann::json plan =
      run_json({"plan", "tiny.yaml", "--hardware", "a100_80gb", "--costs", "costs.yaml", "--json"});
  const double dollars = 1e9 / plan["tokens_per_second"].get<double>() * 7.20 / 3600;
  EXPECT_NEAR(plan["dollars_per_billion_tokens"], dollars, 1e-9 * dollars);
  // The shipped table has no A100.
  const Outcome text = run({"plan", "tiny.yaml", "--hardware", "a100_80gb"});
  EXPECT_THAT(text.out, HasSubstr("n/a: no hourly cost for NVIDIA A100-SXM4-80GB"));
}

TEST_F(PlanCommandTest, SearchListsTheFastestThatFit) {
  const nlohmann::json json = run_json({"plan", "tiny.yaml", "--search", "-n", "2", "--show", "100", "--json"});
  std::set<std::string> meshes;
  double last = 0;
  for (const nlohmann::json& plan : json["plans"]) {
    const nlohmann::json& mesh = plan["mesh"];
    EXPECT_EQ(mesh["dp"].get<int>() * mesh["fsdp"].get<int>() * mesh["cp"].get<int>() * mesh["tp"].get<int>(), 2);
    meshes.insert(mesh.dump());
    EXPECT_TRUE(plan["fits"]);
    EXPECT_GE(plan["step_seconds"], last);
    last = plan["step_seconds"];
    EXPECT_EQ(plan["micro_batch_size"].get<int>() * plan["micro_batches"].get<int>(), 4);
  }
  EXPECT_EQ(meshes.size(), 3u);  // dp, fsdp and tp; sequences are too short for cp
  const Outcome text = run({"plan", "tiny.yaml", "--search", "-n", "2"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, ContainsRegex("  mesh\\.[dfspt]+=2 train\\.micro_batch_size=[124] train\\.recompute=none\n"));
}

TEST_F(PlanCommandTest, SaysWhatCannotBePlanned) {
  expect_failure({"plan", "tiny.yaml", "--hardware", "h20"}, 1,
                 {"--hardware: no hardware is called 'h20'", "There are: h200"});
  expect_failure({"plan", "tiny.yaml", "mesh.tp=3"}, 1, {"model.heads", "mesh.tp"});
  expect_failure({"plan", "tiny.yaml", "mesh.pp=3"}, 1,
                 {"mesh.pp: 3 stages are more than the model has layers, 2", "Give at most 2."});
  expect_failure({"plan", "tiny.yaml", "mesh.fsdp=2", "-n", "4"}, 1, {"-n: 4 devices, and the mesh has 2"});
  expect_failure({"plan", "tiny.yaml", "--search"}, 1, {"-n: --search is for a number of devices"});
  expect_failure({"plan", "tiny.yaml", "--search", "-n", "7"}, 1, {"no mesh of size 7 divides", "Choose a number"});
  expect_failure({"plan", "tiny.yaml", "train.precision=fp8", "--hardware", "a100_80gb"}, 1,
                 {"no peak of fp8 GEMMs is on record for NVIDIA A100-SXM4-80GB"});
}

TEST_F(PlanCommandTest, SaysWhatIsNeededWhereNothingFits) {
  const Outcome outcome = run({"plan", "llama3_70b_4layers", "model.layers=80", "train.batch_size=8",
                               "train.micro_batch_size=8", "--search", "-n", "1", "--hardware", "a100_40gb"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no mesh of size 1 has memory for the step: the least is"));
  EXPECT_THAT(outcome.err, HasSubstr("Use more devices"));
}

}  // namespace
}  // namespace causeway::cli
