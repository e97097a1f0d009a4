// `causeway explain --time`: what each kernel of a step takes, beside what it reads, writes and multiplies.
#include <gmock/gmock.h>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

using ExplainTimeTest = CliTest;

TEST_F(ExplainTimeTest, EachKernelHasItsBytesAndItsShareOfACopy) {
  const nlohmann::json json = run_json({"explain", "tiny.yaml", "device=cpu", "--time", "--json"});
  const nlohmann::json& time = json["time"];
  const double copies = time["copy_bytes_per_second"];
  EXPECT_GT(copies, 0);
  int launches = 0;
  double before = 1e9;
  std::set<std::string> kinds;
  for (const nlohmann::json& kernel : time["kernels"]) {
    launches += kernel["launches"].get<int>();
    EXPECT_GT(kernel["seconds"], 0) << kernel;
    EXPECT_LE(kernel["seconds"], before) << kernel;
    before = kernel["seconds"];
    EXPECT_GT(kernel["bytes"], 0) << kernel;
    EXPECT_THAT(kernel["computes"].get<std::string>(), HasSubstr("%"));
    const std::string kind = kernel["kind"];
    kinds.insert(kind);
    const bool multiplies = kind == "dot" || kind == "attention" || kind == "attention_gradient";
    EXPECT_EQ(kernel["flops"] > 0, multiplies) << kernel;
    // What the processor multiplies at most is on no datasheet.
    EXPECT_EQ(kernel.contains("floor_seconds"), !multiplies) << kernel;
    if (!multiplies)
      EXPECT_NEAR(kernel["floor_seconds"].get<double>() * copies, kernel["bytes"].get<double>(),
                  1e-6 * kernel["bytes"].get<double>());
  }
  EXPECT_EQ(launches, json["launches"]);
  EXPECT_THAT(kinds, testing::IsSupersetOf({"loop", "dot", "attention", "attention_gradient"}));

  const Outcome text = run({"explain", "tiny.yaml", "device=cpu", "--time"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, ContainsRegex("time of one step: [0-9.]+ ms in kernels"));
  EXPECT_THAT(text.out, ContainsRegex("bytes takes \\([0-9]+ GB/s on this device\\)"));
  EXPECT_THAT(text.out, ContainsRegex("time +GB/s +TFLOP/s +floor +computes"));
  EXPECT_THAT(text.out, ContainsRegex("kernel [0-9]+ +loop +[0-9]+ +[0-9]+ %  %"));
  EXPECT_THAT(text.out, ContainsRegex("kernel [0-9]+ +dot +[0-9]+ +[0-9.e-]+ +%"));
}

}  // namespace
}  // namespace causeway::cli
