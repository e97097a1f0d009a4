// Hourly costs: the shipped table, matching devices by name, and what is said about files that are wrong.
#include "causeway/bench/report/cost_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"

namespace causeway::bench {
namespace {

const std::string kRest = ", source: us, date: 2026-03, tag: primary}\n";

Error error_of_table(const std::string& yaml) {
  try {
    parse_cost_table(yaml, "mine.yaml");
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "accepted: " << yaml;
  return {ErrorKind::kIo, ""};
}

TEST(CostTable, ShippedTableHasThePublishedCosts) {
  const CostTable& table = shipped_cost_table();
  EXPECT_EQ(table.where, "costs.yaml");
  const std::vector<std::pair<const char*, double>> published = {{"NVIDIA H100 80GB HBM3", 1.58},
                                                                 {"NVIDIA H200", 1.63},
                                                                 {"NVIDIA B200", 2.23},
                                                                 {"AMD Instinct MI300X", 1.34},
                                                                 {"AMD Instinct MI325X OAM", 1.53},
                                                                 {"AMD Instinct MI355X", 1.64}};
  for (const auto& [device, dollars] : published) {
    const DeviceCost* cost = table.find(device);
    ASSERT_NE(cost, nullptr) << device;
    EXPECT_EQ(cost->dollars_per_hour, dollars) << device;
    EXPECT_THAT(cost->source, testing::StartsWith("SemiAnalysis"));
    EXPECT_EQ(cost->date, "2025-05");
    EXPECT_EQ(cost->tag, "secondhand");
    EXPECT_FALSE(cost->basis.empty());
  }
}

TEST(CostTable, MatchesWholeWordsAndTheLongestEntry) {
  const CostTable table = parse_cost_table(
      "costs:\n"
      "  - {device: H200, dollars_per_hour: 1" +
          kRest + "  - {device: nvidia h200 nvl, dollars_per_hour: 2" + kRest +
          "  - {device: EPYC 9554, dollars_per_hour: 3" + kRest,
      "mine.yaml");
  EXPECT_EQ(table.find("NVIDIA H200")->dollars_per_hour, 1);
  EXPECT_EQ(table.find("NVIDIA H200-SXM")->dollars_per_hour, 1);
  EXPECT_EQ(table.find("NVIDIA H200 NVL")->dollars_per_hour, 2);
  EXPECT_EQ(table.find("AMD EPYC 9554 64-Core Processor")->dollars_per_hour, 3);
  EXPECT_EQ(table.find("NVIDIA GH200"), nullptr);
  EXPECT_EQ(table.find("NVIDIA H2000"), nullptr);
  EXPECT_EQ(table.find("H2"), nullptr);
}

TEST(CostTable, AMissingDeviceIsASentence) {
  EXPECT_EQ(shipped_cost_table().find("AMD Instinct MI250X"), nullptr);
  EXPECT_THAT(shipped_cost_table().missing_sentence("AMD Instinct MI250X"),
              testing::StartsWith("no hourly cost for AMD Instinct MI250X in costs.yaml; add an entry"));
}

TEST(CostTable, SaysWhatIsWrongAndWhere) {
  Error error = error_of_table("costs:\n  - {device: H200, dollars_per_huor: 1" + kRest);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.where(), "mine.yaml:2");
  EXPECT_EQ(error.message(), "unknown key 'dollars_per_huor'");
  EXPECT_EQ(error.hint(), "Did you mean dollars_per_hour?");

  error = error_of_table("costs:\n  - {device: H200" + kRest);
  EXPECT_EQ(error.message(), "'dollars_per_hour' is missing");
  EXPECT_EQ(error.where(), "mine.yaml:2");

  for (const std::string price : {"0", "-1", "$1.63", "1.63/h", "nan", "inf"}) {
    error = error_of_table("costs:\n  - device: H200\n    dollars_per_hour: " + price +
                           "\n    source: us\n    date: 2026\n    tag: primary\n");
    EXPECT_EQ(error.message(), "'dollars_per_hour' must be a number above 0, not '" + price + "'");
    EXPECT_EQ(error.where(), "mine.yaml:3");
  }

  error = error_of_table("costs:\n  - {device: H200, dollars_per_hour: 1" + kRest +
                         "  - {device: h200, dollars_per_hour: 2" + kRest);
  EXPECT_EQ(error.message(), "h200 is listed twice");
  EXPECT_EQ(error.where(), "mine.yaml:3");

  error = error_of_table("costs:\n  - {device: H200, dollars_per_hour: 1, source: us, date: May 2025, tag: primary}\n");
  EXPECT_EQ(error.message(), "'May 2025' is not a date");
  error = error_of_table("costs:\n  - {device: H200, dollars_per_hour: 1, source: us, date: undated, tag: primary}\n");
  EXPECT_EQ(error.message(), "'undated' is not a date");
  error = error_of_table("costs:\n  - {device: H200, dollars_per_hour: 1, source: us, date: 2025, tag: primry}\n");
  EXPECT_EQ(error.hint(), "Did you mean primary?");
  error = error_of_table("costs:\n  - {device: H200, device: H100, dollars_per_hour: 1" + kRest);
  EXPECT_EQ(error.message(), "'device' is given twice");

  EXPECT_EQ(error_of_table("costs: []\n").message(), "'costs' must be a list that is not empty");
  EXPECT_EQ(error_of_table("").message(), "a map of keys is expected here");
  EXPECT_EQ(error_of_table("costs:\n  - 3\n").where(), "mine.yaml:2");
  error = error_of_table("costs:\n  - {device: H200\n");
  EXPECT_THAT(error.message(), testing::StartsWith("not readable as YAML"));
  EXPECT_EQ(error.where(), "mine.yaml");
}

TEST(CostTable, AFileThatIsNotThereIsNamed) {
  try {
    read_cost_table("/nowhere/costs.yaml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("/nowhere/costs.yaml"));
  }
}

}  // namespace
}  // namespace causeway::bench
