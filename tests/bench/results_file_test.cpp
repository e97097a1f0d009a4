#include "causeway/bench/results/results_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/bench/results/results_store.h"
#include "tests/bench/example_runs.h"

namespace causeway::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ResultsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("causeway_results_{}_{}", getpid(),
                                                      testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

template <typename Function>
Error error_of_file(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kIo, "");
}

TEST_F(ResultsFileTest, JsonComesBackExactly) {
  BenchmarkRun run = example_h200_run();
  run.device_count = 8;
  run.command = "causeway bench \"a, b\"\n\xc3\xa9";
  run.measurements[0].rounds[0][0] = 0.1 + 0.2;
  run.measurements[1].rounds[0][0] = 0;
  run.measurements[1].clock_mhz = {1980, 1965.5, 1515, 1530, 1500};
  const fs::path path = folder_ / "runs.json";
  write_results_json({run, example_cpu_run()}, path);
  const std::vector<BenchmarkRun> runs = read_results_file(path);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].command, run.command);
  EXPECT_EQ(runs[0].device_count, 8);
  EXPECT_EQ(runs[0].environment, run.environment);
  ASSERT_EQ(runs[0].telemetry.size(), run.telemetry.size());
  EXPECT_EQ(runs[0].telemetry[1].power_watts, run.telemetry[1].power_watts);
  EXPECT_EQ(runs[0].telemetry[1].throttle_reasons, run.telemetry[1].throttle_reasons);
  ASSERT_EQ(runs[0].measurements.size(), run.measurements.size());
  for (size_t i = 0; i < run.measurements.size(); ++i) {
    const Measurement& a = runs[0].measurements[i];
    const Measurement& b = run.measurements[i];
    EXPECT_EQ(a.key(), b.key());
    EXPECT_EQ(a.rounds, b.rounds);
    EXPECT_EQ(a.clock_mhz, b.clock_mhz);
    EXPECT_EQ(a.work, b.work);
    EXPECT_EQ(a.size, b.size);
    EXPECT_EQ(a.peak, b.peak);
    EXPECT_EQ(a.statistic, b.statistic);
    EXPECT_EQ(a.correct, b.correct);
    EXPECT_EQ(a.check, b.check);
    EXPECT_EQ(a.distrust, b.distrust);
    EXPECT_EQ(a.details, b.details);
  }
  // Nothing at all is lost: the same bytes again.
  EXPECT_EQ(results_json(runs), read_text_file(path));
  EXPECT_TRUE(parse_results(results_json({}), "empty.json").empty());
}

TEST_F(ResultsFileTest, CsvHasALinePerSample) {
  BenchmarkRun run;
  run.started = "2026-11-21T07:30:00Z";
  run.commit = "1a0cf5a";
  run.device = "NVIDIA \"H200\", SXM";
  Measurement m;
  m.benchmark = "gemm";
  m.group = "squares";
  m.workload = "1024x1024x1024";
  m.size = 1024;
  m.dtype = "bf16";
  m.provider = "Causeway";
  m.unit = "TFLOP/s";
  m.work = 2e9;
  m.rounds = {{0.001}, {0.004, 0.002}};
  run.measurements = {m};
  EXPECT_EQ(
      results_csv({BenchmarkRun(), run}),
      "run,started,commit,device,device_count,benchmark,group,workload,size,dtype,provider,work,unit,correct,round,"
      "sample,seconds,figure\n"
      "2,2026-11-21T07:30:00Z,1a0cf5a,\"NVIDIA \"\"H200\"\", SXM\",1,gemm,squares,1024x1024x1024,1024,bf16,"
      "Causeway,2000000000,TFLOP/s,true,1,1,0.001,2\n"
      "2,2026-11-21T07:30:00Z,1a0cf5a,\"NVIDIA \"\"H200\"\", SXM\",1,gemm,squares,1024x1024x1024,1024,bf16,"
      "Causeway,2000000000,TFLOP/s,true,2,1,0.004,0.5\n"
      "2,2026-11-21T07:30:00Z,1a0cf5a,\"NVIDIA \"\"H200\"\", SXM\",1,gemm,squares,1024x1024x1024,1024,bf16,"
      "Causeway,2000000000,TFLOP/s,true,2,2,0.002,1\n");
  write_results_csv({run}, folder_ / "runs.csv");
  EXPECT_THAT(read_text_file(folder_ / "runs.csv"), StartsWith("run,started"));
}

TEST_F(ResultsFileTest, ANewerFileIsRefused) {
  Json json = Json::parse(results_json({}));
  json["version"] = 3;
  const Error error = error_of_file([&] { parse_results(json.dump(), "nightly.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("nightly.json"), HasSubstr("written by a newer version of causeway"),
                                  HasSubstr("is version 3"), HasSubstr("Update causeway")));
}

TEST_F(ResultsFileTest, WhatIsNoResultsFileIsRefused) {
  for (const char* text : {"[]", "{}", "3", R"({"format": "something else", "version": 1, "runs": []})"})
    EXPECT_THAT(error_of_file([&] { parse_results(text, "a.json"); }).what(),
                AllOf(HasSubstr("a.json"), HasSubstr("does not begin with \"format\": \"causeway-benchmarks\"")));
  const std::string whole = results_json({example_cpu_run()});
  const Error cut = error_of_file([&] { parse_results(whole.substr(0, whole.size() / 2), "a.json"); });
  EXPECT_EQ(cut.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(cut.what(), HasSubstr("the file of benchmark results is not valid JSON"));
  EXPECT_THAT(error_of_file([&] { parse_results("{\n\n,}", "a.json"); }).what(), HasSubstr("at line 3"));
  EXPECT_EQ(error_of_file([&] { read_results_file(folder_ / "none.json"); }).kind(), ErrorKind::kNotFound);
}

TEST_F(ResultsFileTest, DamagedFieldsAreNamed) {
  const Json good = Json::parse(results_json({example_cpu_run(), example_h200_run()}));
  const auto complaint = [&](const std::function<void(Json&)>& damage) {
    Json json = good;
    damage(json);
    const Error error = error_of_file([&] { parse_results(json.dump(), "a.json"); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    return std::string(error.what());
  };
  const auto measurement = [](Json& json) -> Json& { return json["runs"][0]["measurements"][3]; };
  EXPECT_THAT(complaint([](Json& j) { j.erase("runs"); }), HasSubstr("runs is missing"));
  EXPECT_THAT(complaint([](Json& j) { j["version"] = "1"; }), HasSubstr("version must be a number"));
  EXPECT_THAT(complaint([](Json& j) { j["runs"] = 4; }), HasSubstr("runs must be a list"));
  EXPECT_THAT(complaint([](Json& j) { j["runs"][1] = 4; }), HasSubstr("runs[1] must be an object"));
  EXPECT_THAT(complaint([](Json& j) { j["runs"][1].erase("device"); }), HasSubstr("runs[1].device is missing"));
  EXPECT_THAT(complaint([](Json& j) { j["runs"][1]["device_count"] = 0; }),
              HasSubstr("runs[1].device_count must be a whole number, 1 or more"));
  EXPECT_THAT(complaint([](Json& j) { j["runs"][1]["environment"]["driver"] = 5; }),
              HasSubstr("runs[1].environment.driver must be a text"));
  EXPECT_THAT(complaint([](Json& j) { j["runs"][1]["telemetry"][2]["power_watts"] = "much"; }),
              HasSubstr("runs[1].telemetry[2].power_watts must be a number"));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j).erase("unit"); }),
              AllOf(HasSubstr("a.json"), HasSubstr("runs[0].measurements[3].unit is missing"),
                    HasSubstr("Export the results again")));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j)["correct"] = 1; }),
              HasSubstr("runs[0].measurements[3].correct must be true or false"));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j)["statistic"] = "mode"; }),
              HasSubstr("the statistic 'mode' is unknown"));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j)["rounds"][1][2] = -0.5; }),
              HasSubstr("runs[0].measurements[3].rounds[1][2] must be a number of seconds, 0 or more"));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j)["rounds"][1][2] = nullptr; }),
              HasSubstr("rounds[1][2] must be a number of seconds"));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j)["clock_mhz"] = {1500, 1500, 1500, 1500, 0}; }),
              HasSubstr("runs[0].measurements[3].clock_mhz[4] must be a number above 0"));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j)["clock_mhz"] = {1500}; }),
              HasSubstr("1 clocks for 5 rounds, of "));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j)["rounds"][1] = Json::array(); }),
              HasSubstr("a round without samples"));
  EXPECT_THAT(complaint([&](Json& j) { measurement(j)["distrust"] = Json::object(); }),
              HasSubstr("runs[0].measurements[3].distrust must be a list"));

  Json more = good;
  more["runs"][0]["invented later"] = 1;
  EXPECT_EQ(parse_results(more.dump(), "a.json").size(), 2u);
}

TEST_F(ResultsFileTest, ARunIsFoundByNumberAsLatestOrInAFile) {
  const fs::path store = folder_ / "store.sqlite";
  const Error none = error_of_file([&] { load_run_reference(store, "latest"); });
  EXPECT_EQ(none.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(none.what(), HasSubstr("no benchmark results are stored yet"));
  EXPECT_FALSE(fs::exists(store));
  {
    ResultsStore results(store);
  }
  EXPECT_THAT(error_of_file([&] { load_run_reference(store, "latest"); }).what(), HasSubstr("It holds no runs yet"));

  BenchmarkRun older = example_cpu_run();
  ResultsStore(store).begin_run(example_h200_run());
  ResultsStore(store).begin_run(older);
  EXPECT_EQ(load_run_reference(store, "1").device, "NVIDIA H200");
  EXPECT_EQ(load_run_reference(store, "latest").id, 2);
  EXPECT_THAT(error_of_file([&] { load_run_reference(store, "12"); }).what(),
              AllOf(HasSubstr("there is no run 12"), HasSubstr("Runs there are: 1, 2.")));

  const fs::path file = folder_ / "runs.json";
  write_results_json({example_h200_run(), older}, file);
  EXPECT_EQ(load_run_reference(store, file).device, "NVIDIA H200");
  const Error unknown = error_of_file([&] { load_run_reference(store, "lastest"); });
  EXPECT_EQ(unknown.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(unknown.what(), AllOf(HasSubstr("lastest"), HasSubstr("the number of a stored run, 'latest'")));
  write_results_json({}, file);
  EXPECT_THAT(error_of_file([&] { load_run_reference(store, file); }).what(), HasSubstr("holds no run"));
}

TEST_F(ResultsFileTest, EarlierRunsComeInTheOrderOfTheirStart) {
  const std::filesystem::path store = folder_ / "history" / "store.sqlite";
  BenchmarkRun run = example_cpu_run();
  EXPECT_TRUE(load_earlier_runs(store, run).empty());
  EXPECT_FALSE(std::filesystem::exists(store));
  {
    ResultsStore results(store);
    for (const char* started : {"2026-11-20T03:00:00Z", "2026-11-22T03:00:00Z", "2026-11-19T03:00:00Z"}) {
      run.started = started;
      results.begin_run(run);
    }
  }
  run.started = "2026-11-21T03:00:00Z";
  const std::vector<BenchmarkRun> earlier = load_earlier_runs(store, run);
  ASSERT_EQ(earlier.size(), 2u);
  EXPECT_EQ(earlier[0].id, 3);
  EXPECT_EQ(earlier[1].id, 1);
}

}  // namespace
}  // namespace causeway::bench
