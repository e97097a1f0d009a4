// Published baselines: what is shipped, and what is said about files that are wrong.
#include "causeway/bench/report/published_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "causeway/base/error.h"
#include "causeway/bench/attention_benchmark.h"

namespace causeway::bench {
namespace {

const PublishedResult* find(const std::string& device, const std::string& group, const std::string& workload,
                            const std::string& dtype) {
  const std::vector<PublishedResult>& results = shipped_published_results();
  const auto found = std::find_if(results.begin(), results.end(), [&](const PublishedResult& r) {
    return r.device == device && r.group == group && r.workload == workload && r.dtype == dtype;
  });
  return found == results.end() ? nullptr : &*found;
}

TEST(PublishedResults, ShipsDatedSourcedBaselines) {
  std::set<std::string> devices, benchmarks;
  for (const PublishedResult& result : shipped_published_results()) {
    devices.insert(result.device);
    benchmarks.insert(result.benchmark);
    EXPECT_FALSE(result.source.empty());
    EXPECT_FALSE(result.date.empty());
    EXPECT_GT(result.value, 0);
  }
  for (const char* device : {"A100", "H100", "H200", "MI250 (per card)", "MI250X (per GCD)", "MI300X"})
    EXPECT_TRUE(devices.contains(device)) << device;
  EXPECT_THAT(benchmarks, testing::ElementsAre("attention", "collectives", "copy", "gemm", "train"));
}

TEST(PublishedResults, HoldsTheFiguresOfTheirSources) {
  const PublishedResult* shapes = find("MI300X", "Llama 70B", "the five shapes", "bf16");
  ASSERT_NE(shapes, nullptr);
  EXPECT_EQ(shapes->value, 620);
  EXPECT_EQ(shapes->unit, "TFLOP/s");
  EXPECT_EQ(shapes->date, "2024-12-22");
  EXPECT_EQ(shapes->tag, "primary");

  const PublishedResult* square = find("MI300X", "squares", "8192x8192x8192", "fp8");
  ASSERT_NE(square, nullptr);
  EXPECT_EQ(square->value, 1159.23);
  EXPECT_EQ(square->size, 8192);
  EXPECT_EQ(square->date, "undated");

  const PublishedResult* triad = find("H200", "BabelStream", "triad", "");
  ASSERT_NE(triad, nullptr);
  EXPECT_EQ(triad->value, 4150);
  EXPECT_EQ(triad->unit, "GB/s");

  // In the group of what `causeway bench attention` measures, so that both are drawn together.
  AttentionCase attention;
  attention.backward = true;
  const PublishedResult* flash = find("H100", attention.group(), "full 2x8192", "");
  ASSERT_NE(flash, nullptr);
  EXPECT_EQ(flash->value, 327.9);

  const PublishedResult* llm_c = find("H100", "GPT 1.5B", "GPT 1.5B", "bf16");
  ASSERT_NE(llm_c, nullptr);
  EXPECT_NEAR(llm_c->value, 1048576 / 2.75 / 8, 1);
  EXPECT_EQ(llm_c->tag, "secondhand");
}

std::string with(const std::string& from, const std::string& to) {
  std::string yaml =
      "results:\n"
      "  - source: someone\n"
      "    date: 2025\n"
      "    tag: primary\n"
      "    benchmark: gemm\n"
      "    group: squares\n"
      "    unit: TFLOP/s\n"
      "    results:\n"
      "      - {workload: 64x64x64, size: 64, devices: {H100: 5, H200: 6}}\n";
  const size_t at = yaml.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return yaml.replace(at, from.size(), to);
}

TEST(PublishedResults, ReadsOneResultForEachDevice) {
  const std::vector<PublishedResult> results = parse_published_results(with("", ""), "mine.yaml");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].device, "H200");
  EXPECT_EQ(results[1].value, 6);
  EXPECT_EQ(results[1].size, 64);
  EXPECT_EQ(results[1].dtype, "");
}

TEST(PublishedResults, SaysWhatIsWrongAndWhere) {
  const struct {
    std::string from, to, message, where, hint;
  } wrong[] = {
      {"benchmark: gemm", "benchmark: gem", "'gem' is not a benchmark of the benchmark lab", "mine.yaml:5",
       "Did you mean gemm?"},
      {"unit: TFLOP/s", "unit: GFLOP/s", "'GFLOP/s' is not a unit of the benchmark lab", "mine.yaml:7",
       "Did you mean TFLOP/s?"},
      {"date: 2025", "date: 2025-13", "'2025-13' is not a date", "mine.yaml:3",
       "Write a year, a month or a day: 2025, 2025-05 or 2025-05-21; or undated, where the source gives none."},
      {"tag: primary", "tag: rumour", "'rumour' is not one of primary, secondhand, derived", "mine.yaml:4",
       "primary: read at its source; secondhand: quoted by a third party; derived: worked out."},
      {"H200: 6", "H200: fast", "'H200' must be a number above 0, not 'fast'", "mine.yaml:9",
       "Write a plain decimal number, such as 1.63, without a currency sign or unit."},
      {"H200: 6", "H100: 6", "'H100' is given twice", "mine.yaml:9", "Delete one of them."},
      {"{H100: 5, H200: 6}", "[5, 6]", "'devices' must map devices to figures", "mine.yaml:9",
       "Write it as {H100: 720, MI300X: 620}."},
      {"size: 64", "sise: 64", "unknown key 'sise'", "mine.yaml:9", "Did you mean size?"},
      {"    group: squares\n", "", "'group' is missing", "mine.yaml:2", "Add a line 'group: ...'."},
  };
  for (const auto& [from, to, message, where, hint] : wrong) try {
      parse_published_results(with(from, to), "mine.yaml");
      ADD_FAILURE() << "accepted: " << to;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_EQ(error.message(), message);
      EXPECT_EQ(error.where(), where) << message;
      EXPECT_EQ(error.hint(), hint);
    }
}

}  // namespace
}  // namespace causeway::bench
