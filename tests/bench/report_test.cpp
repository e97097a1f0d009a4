// The report page as a file: self-contained, small, and safe whatever text the results hold.
#include "causeway/bench/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/bench/report/shipped_text.h"
#include "tests/bench/example_runs.h"

namespace causeway::bench {
namespace {

using Json = nlohmann::json;

std::string page_of(const std::vector<BenchmarkRun>& runs, const std::vector<RegressionMark>& marks = {}) {
  return report_html(runs, shipped_cost_table(), shipped_published_results(), marks);
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string data_text(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(open) + open.size();
  return page.substr(from, page.find("</script>", from) - from);
}

// The page's data with every column as one value for each row.
Json data_of(const std::string& page) {
  Json data = Json::parse(data_text(page));
  for (const char* table : {"cases", "rows"})
    for (auto& [name, column] : data[table].items()) {
      if (!column.is_object() || !column.contains("runs")) continue;
      Json values = Json::array();
      for (size_t i = 0; i < column["runs"].size(); i += 2)
        for (size_t n = column["runs"][i + 1]; n > 0; --n) values.push_back(column["runs"][i]);
      column = values;
    }
  return data;
}

TEST(Report, IsSelfContained) {
  const std::string page = page_of({example_h200_run(), example_cpu_run()});
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  const std::regex fetch(R"((src|href|action)\s*=\s*["']?\s*(https?:|//|data:)|@import|[^a-z]url\(\s*["']?(?!#))"
                         R"(|<link|<img|<iframe|fetch\(|XMLHttpRequest)",
                         std::regex::icase);
  std::smatch match;
  EXPECT_FALSE(std::regex_search(page, match, fetch)) << match.str();
  for (const char* part : {"/*style*/", "/*script*/", "/*data*/"}) EXPECT_EQ(occurrences(page, part), 0u) << part;
}

TEST(Report, HostileTextStaysText) {
  BenchmarkRun run = example_cpu_run();
  const std::string hostile = "</script><script>alert(1)</script><!-- & \" ' \xe2\x80\xa8 \xff /*data*/ \\";
  run.device = hostile;
  run.command = hostile;
  run.commit = hostile;
  run.environment = {{hostile, hostile}};
  Measurement& m = run.measurements.front();
  m.workload = m.provider = m.group = m.dtype = m.check = m.peak_source = hostile;
  m.distrust = {hostile};
  m.details = {{hostile, hostile}};
  PublishedResult published = shipped_published_results().front();
  published.device = published.source = published.note = hostile;
  const std::string page =
      report_html({run}, shipped_cost_table(), {published}, {{m.key(), run.commit, 1.1, run.device}});
  const std::string data = data_text(page);
  for (const char c : {'<', '>', '&'}) EXPECT_EQ(data.find(c), std::string::npos);
  EXPECT_EQ(occurrences(page, "</script"), 2u);
  EXPECT_EQ(occurrences(page, "<script"), 2u);
  const Json json = data_of(page);
  const std::string arrived = json["devices"][0]["name"];
  EXPECT_THAT(arrived, testing::StartsWith("</script><script>alert(1)</script><!-- & \" ' "));
  EXPECT_THAT(arrived, testing::EndsWith("/*data*/ \\"));
}

TEST(Report, TenThousandMeasurementsWeighUnderAMegabyte) {
  std::vector<BenchmarkRun> runs = example_history(71, 50);
  size_t count = 0;
  for (BenchmarkRun& run : runs)
    for (Measurement& m : run.measurements) {
      m.check =
          fmt::format("max |error| {:.7f} of 0.02 allowed, 4,096 elements", 0.001 + 1e-7 * static_cast<double>(count));
      m.details["memory"] = fmt::format("{} bytes", 1'000'000 + count);
      ++count;
    }
  ASSERT_GE(count, 9'900u);
  const std::string page = page_of(runs);
  EXPECT_LT(page.size(), 1'000'000u);
  EXPECT_EQ(data_of(page)["rows"]["run"].size(), count);
}

TEST(Report, TenThousandDifferentWorkloadsWeighUnderAMegabyteToo) {
  BenchmarkRun run = example_cpu_run();
  const Measurement pattern = run.measurements.front();
  run.measurements.clear();
  for (int i = 0; i < 10'000; ++i) {
    Measurement m = pattern;
    m.workload = fmt::format("{}x{}x{}", 128 + i, 4096, 11008);
    m.work = 2.0 * (128 + i) * 4096 * 11008;
    m.check = fmt::format("max |error| {:.7f} of 0.02 allowed, 4,096 elements", 0.001 + 1e-7 * i);
    run.measurements.push_back(std::move(m));
  }
  const std::string page = page_of({run});
  EXPECT_LT(page.size(), 1'000'000u);
  EXPECT_TRUE(data_of(page)["rows"]["shortened"]);
}

TEST(Report, HoldsFiguresToAPartInTenThousand) {
  const BenchmarkRun run = example_h200_run();
  const Json json = data_of(page_of({run}));
  const Measurement& first = run.measurements.front();
  std::vector<double> samples;
  for (const auto& round : first.rounds) samples.insert(samples.end(), round.begin(), round.end());
  std::sort(samples.begin(), samples.end());
  const double median = (samples[49] + samples[50]) / 2;
  const Json& rows = json["rows"];
  EXPECT_EQ(rows["samples"][0], 100);
  EXPECT_NEAR(rows["median"][0].get<double>() / median, 1, 1e-4);
  EXPECT_NEAR(rows["median"][0].get<double>() * (1 + rows["minimum"][0].get<double>() / 10'000) / samples[0], 1, 2e-4);
  EXPECT_LT(rows["p5"][0].get<int>(), 0);
  EXPECT_GT(rows["p95"][0].get<int>(), 0);
  const Json& cases = json["cases"];
  const size_t c = rows["case"][0];
  EXPECT_NEAR(cases["scale"][c].get<double>(), first.work / 1e12, 1e-4 * first.work / 1e12);
  EXPECT_EQ(cases["peak"][c], 989.5);
  EXPECT_EQ(json["strings"][cases["peakSource"][c].get<size_t>()], "NVIDIA H200 data sheet, dense bf16");
}

TEST(Report, CarriesIncorrectResultsDistrustAndChecks) {
  BenchmarkRun run = example_cpu_run();
  run.measurements.resize(2);
  run.measurements[0].distrust = {"The clock moved."};
  run.measurements[1].correct = false;
  run.measurements[1].check = "max |error| 3 of 1 allowed";
  const Json json = data_of(page_of({run}));
  const auto text = [&](const Json& index) { return json["strings"][index.get<size_t>()].get<std::string>(); };
  EXPECT_EQ(json["rows"]["incorrect"], Json::array({1}));
  EXPECT_EQ(text(json["rows"]["check"]["1"]), "max |error| 3 of 1 allowed");
  EXPECT_EQ(text(json["rows"]["distrust"]["0"][0]), "The clock moved.");
  EXPECT_FALSE(json["rows"]["distrust"].contains("1"));
}

TEST(Report, TrainingIsPerDevice) {
  BenchmarkRun run = example_cpu_run();
  run.device_count = 8;
  run.measurements = {run.measurements.back(), run.measurements.back()};
  run.measurements[1].workload = "on four";
  run.measurements[1].details["devices"] = "4";
  const Json json = data_of(page_of({run}));
  const Json& cases = json["cases"];
  EXPECT_EQ(json["strings"][cases["unit"][0].get<size_t>()], "tokens/s per device");
  EXPECT_EQ(cases["scale"][0], 4096 / 8);
  EXPECT_EQ(cases["scale"][1], 4096 / 4);
}

TEST(Report, EnergyByTokenIsCarried) {
  BenchmarkRun run = example_cpu_run();
  run.measurements = {run.measurements.back(), run.measurements.back(), run.measurements.back()};
  run.measurements[1].workload = "with energy";
  run.measurements[1].details["J per token"] = "0.0125";
  run.measurements[2].workload = "with nonsense";
  run.measurements[2].details["J per token"] = "unknown";
  EXPECT_EQ(data_of(page_of({run}))["rows"]["energy"], (Json{{"1", 0.0125}}));
}

TEST(Report, ADeviceWithoutACostIsASentence) {
  const Json json = data_of(page_of({example_cpu_run(), example_h200_run()}));
  const Json& devices = json["devices"];
  ASSERT_EQ(devices[0]["name"], "NVIDIA H200");
  EXPECT_EQ(devices[0]["cost"]["dollars"], 1.63);
  ASSERT_EQ(devices[1]["name"], "AMD EPYC 9554 64-Core Processor");
  EXPECT_FALSE(devices[1].contains("cost"));
  EXPECT_THAT(devices[1]["missing"].get<std::string>(),
              testing::StartsWith("no hourly cost for AMD EPYC 9554 64-Core Processor in costs.yaml; add"));
}

TEST(Report, PublishedResultsKeepTheirSource) {
  const Json json = data_of(page_of({example_h200_run()}));
  ASSERT_EQ(json["published"].size(), shipped_published_results().size());
  const auto text = [&](const Json& index) { return json["strings"][index.get<size_t>()].get<std::string>(); };
  const Json& first = json["published"][0];
  EXPECT_EQ(text(first[0]), "H100");
  EXPECT_EQ(first[6], 720);
  EXPECT_EQ(text(first[8]), "SemiAnalysis, MI300X vs H100 vs H200, Part 1");
  EXPECT_EQ(text(first[9]), "2024-12-22");
  EXPECT_EQ(text(first[10]), "primary");
}

TEST(Report, RunsAreSortedAndTheSameInputGivesTheSameBytes) {
  std::vector<BenchmarkRun> runs = example_history(3, 1);
  const std::string page = page_of(runs);
  EXPECT_EQ(page, page_of(runs));
  std::swap(runs[0], runs[2]);
  EXPECT_EQ(page, page_of(runs));
}

TEST(Report, NoRunsAtAllIsAPageToo) {
  const Json json = data_of(page_of({}));
  EXPECT_TRUE(json["runs"].empty());
  EXPECT_FALSE(json["published"].empty());
}

TEST(Report, FiguresThatAreNoNumbersBecomeNull) {
  BenchmarkRun run = example_cpu_run();
  run.measurements.resize(1);
  run.measurements[0].rounds = {{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()}};
  run.measurements[0].peak = std::numeric_limits<double>::quiet_NaN();
  const Json json = data_of(page_of({run}));
  EXPECT_TRUE(json["rows"]["median"][0].is_null());
  EXPECT_TRUE(json["cases"]["peak"][0].is_null());
}

TEST(Report, WritesTheFileOrNamesIt) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "causeway_report_test.html";
  write_report({example_cpu_run()}, shipped_cost_table(), shipped_published_results(), {}, path);
  EXPECT_EQ(read_text_file(path), page_of({example_cpu_run()}));
  std::filesystem::remove(path);
  try {
    write_report({}, shipped_cost_table(), {}, {}, "/nowhere/report.html");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/nowhere/report.html"));
  }
}

}  // namespace
}  // namespace causeway::bench
