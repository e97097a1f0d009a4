// `causeway bench` on the processor with small shapes, and what is done with its figures.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/bench/results/results_file.h"
#include "causeway/bench/startup_benchmark.h"
#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class BenchCommandTest : public CliTest {
 protected:
  Outcome bench(std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    words.insert(words.end(), {"--store", "results.sqlite"});
    return run(words);
  }
  Outcome gemm(const std::string& shape) {
    return bench({"gemm", "--device", "cpu", "--provider", "causeway", "--shape", shape, "--samples", "20"});
  }
};

TEST_F(BenchCommandTest, FiguresAreStoredComparedExportedAndDrawn) {
  const Outcome first = gemm("96x64x48");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("96x64x48"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("1 figures stored as run 1"), std::string::npos) << first.out;
  ASSERT_EQ(gemm("96x64x48").status, 0);
  EXPECT_NE(bench({"list"}).out.find("causeway bench gemm"), std::string::npos);

  const Outcome compared = bench({"compare", "1", "2", "--all"});
  EXPECT_NE(compared.out.find("96x64x48"), std::string::npos) << compared.out << compared.err;

  EXPECT_EQ(bench({"export", "1", "-o", "one.json"}).status, 0);
  EXPECT_EQ(bench({"export", "all", "-o", "all.csv"}).status, 0);
  EXPECT_NE(bench({"export", "all", "-o", "all.txt"}).err.find("'all.txt' is neither a .json nor a .csv file"),
            std::string::npos);
  EXPECT_NE(bench({"compare", "1", "7"}).err.find("there is no run 7 in the store"), std::string::npos);
  EXPECT_NE(bench({"compare", "latest", "--against", "one.json", "--all"}).out.find("96x64x48"), std::string::npos);
  // It came from here.
  EXPECT_EQ(bench({"import", "one.json"}).out, "one.json: already there as run 1\n");
  for (const char* said : {"one.json: stored as run 1\n", "one.json: already there as run 1\n"})
    EXPECT_EQ(run({"bench", "import", "one.json", "--store", "other.sqlite"}).out, said);

  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"compare", "2"}, {"compare", "2", "latest"}, {"compare", "1", "--against", "one.json"}}) {
    const Outcome same = bench(words);
    EXPECT_EQ(same.status, 0);
    EXPECT_NE(same.out.find(" are the same run, of 20"), std::string::npos) << same.out << same.err;
  }

  EXPECT_EQ(bench({"report", "-o", "page.html"}).status, 0);
  EXPECT_NE(read_text_file(directory_ / "page.html").find("96x64x48"), std::string::npos);
}

TEST_F(BenchCommandTest, LookingMakesNoStore) {
  const Outcome list = bench({"list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_NE(list.out.find("There are no results yet: results.sqlite does not exist"), std::string::npos) << list.out;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"report"}, {"export", "all", "-o", "x.json"}, {"export", "latest", "-o", "x.json"}, {"compare", "1", "2"}})
    EXPECT_EQ(bench(words).status, 1) << testing::PrintToString(words);
  EXPECT_FALSE(std::filesystem::exists(path("results.sqlite")));
  EXPECT_FALSE(std::filesystem::exists(path("x.json")));
}

// Of a file from somebody else: nothing in it reaches the terminal as more than text, and long names move no column.
TEST_F(BenchCommandTest, ForeignNamesAreText) {
  BenchmarkRun run;
  run.started = "2026-09-01T03:15:00Z";
  run.command = "\x1b]0;title\x07 causeway bench";
  run.commit = "\x1b[2J";
  run.device = "a device with a name that is longer than any column of a list was ever made for\nrun 7";
  Measurement m;
  m.benchmark = "gemm";
  m.group = "\x1b[31mred";
  m.workload = "1x1x1 \xe2\x80\xae";
  m.provider = "Causeway\r";
  m.unit = "TFLOP/s";
  m.work = 1e9;
  m.rounds = {{1e-3, 1e-3}, {1.1e-3, 1.1e-3}};
  m.check = "\x1b[0m";
  run.measurements = {m};
  BenchmarkRun other = run;
  other.started = "2026-09-02T03:15:00Z";
  other.measurements[0].correct = false;
  write_results_json({run, other}, path("foreign.json"));
  EXPECT_EQ(bench({"import", "foreign.json"}).status, 0);
  const auto expect_text = [](const std::string& printed) {
    EXPECT_EQ(printed.find_first_of("\x1b\x07\r"), std::string::npos) << printed;
    EXPECT_EQ(printed.find("\xe2\x80\xae"), std::string::npos) << printed;
  };
  const std::string list = bench({"list"}).out;
  expect_text(list);
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 3) << list;
  EXPECT_NE(list.find("made for\\nrun 7  \\x1b[2J  "), std::string::npos) << list;
  EXPECT_EQ(list.find("commit"), list.find("\\x1b[2J") - list.find('\n') - 1) << list;
  const std::string compared = bench({"compare", "1", "2"}).out;
  expect_text(compared);
  EXPECT_NE(compared.find("\\x1b[31mred"), std::string::npos) << compared;
  EXPECT_EQ(bench({"report", "-o", "page.html"}).status, 0);
  const std::string page = read_text_file(directory_ / "page.html");
  EXPECT_EQ(page.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_EQ(page.find("\\u001b"), std::string::npos);
  EXPECT_NE(page.find("\\\\x1b[31mred"), std::string::npos);
}

// 40 nights of 12 products that do not differ from night to night but by what their rounds vary. In the last, one is
// 2.1 % slower: too little beside a margin for what may differ, enough when the nights before tell that nothing does.
TEST_F(BenchCommandTest, TheReportMarksWhatEarlierRunsShow) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 1);
  std::vector<BenchmarkRun> runs;
  for (int night = 0; night < 40; ++night) {
    BenchmarkRun run;
    run.started = fmt::format("2026-{:02}-{:02}T03:15:00Z", 9 + night / 20, 1 + night % 20);
    run.commit = fmt::format("{:040}", night);
    run.device = "a device";
    for (int workload = 0; workload < 12; ++workload) {
      Measurement m;
      m.benchmark = "gemm";
      m.group = "shapes";
      m.workload = fmt::format("shape {}", workload);
      m.provider = "Causeway";
      m.unit = "TFLOP/s";
      m.work = 1e9;
      const double time = workload == 4 && night == 39 ? 1.021e-3 : 1e-3;
      for (int round = 0; round < 10; ++round)
        m.rounds.push_back(std::vector<double>(5, time * (1 + 0.01 * normal(random))));
      run.measurements.push_back(std::move(m));
    }
    runs.push_back(std::move(run));
  }
  const auto marks = [&](const std::vector<BenchmarkRun>& of, const std::string& name) {
    write_results_json(of, directory_ / (name + ".json"));
    EXPECT_EQ(run({"bench", "import", name + ".json", "--store", name + ".sqlite"}).status, 0);
    EXPECT_EQ(run({"bench", "report", "-o", name + ".html", "--store", name + ".sqlite"}).status, 0);
    const std::string page = read_text_file(directory_ / (name + ".html"));
    const size_t begin = page.find("\"regressions\":[");
    EXPECT_NE(begin, std::string::npos);
    return page.substr(begin, page.find(']', begin) - begin);
  };
  EXPECT_THAT(marks(runs, "all"), testing::HasSubstr("shape 4"));
  EXPECT_THAT(marks({runs[38], runs[39]}, "two"), testing::Not(testing::HasSubstr("shape 4")));
}

// "latest" is the run before; other inputs are another workload.
TEST_F(BenchCommandTest, ARunIsComparedWithTheOneBefore) {
  const std::vector<std::string> words = {"gemm",     "--device",  "cpu", "--provider", "causeway", "--shape",
                                          "96x64x48", "--samples", "20",  "--against",  "latest"};
  const Outcome none = bench(words);
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.out.find("96x64x48"), std::string::npos) << none.out;  // told before anything is measured
  EXPECT_NE(none.err.find("there is no run"), std::string::npos) << none.err;
  ASSERT_EQ(gemm("96x64x48").status, 0);
  std::vector<std::string> zeros = words;
  zeros.insert(zeros.end(), {"--inputs", "zeros"});
  const Outcome compared = bench(zeros);
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_NE(compared.out.find("96x64x48, zeros"), std::string::npos) << compared.out;
  EXPECT_NE(compared.out.find("\nnew "), std::string::npos) << compared.out;
  EXPECT_NE(compared.out.find("\ngone "), std::string::npos) << compared.out;
}

TEST_F(BenchCommandTest, StartsAreTimed) {
  const std::vector<Measurement> starts =
      run_startup({.program = CAUSEWAY_BINARY_DIR "/causeway", .device = "cpu", .cold_samples = 1, .warm_samples = 1});
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0].workload, "first step, cold");
  for (const Measurement& start : starts) EXPECT_GT(start.rounds.at(0).at(0), 0.0);
  try {
    run_startup({.program = CAUSEWAY_BINARY_DIR "/causeway", .device = "cuda:99", .cold_samples = 1});
    ADD_FAILURE() << "there are not so many GPUs";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ended before its first step"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("cuda"), std::string::npos) << error.what();
  }
}

TEST_F(BenchCommandTest, AShippedModelStartsToo) {
  StartupModel model = gpt_startup_model();
  model.overrides.insert(model.overrides.end(),
                         {"data.sequence_length=32", "model.layers=1", "model.width=32", "model.heads=2"});
  const std::vector<Measurement> starts = run_startup(
      {.program = CAUSEWAY_BINARY_DIR "/causeway", .device = "cpu", .cold_samples = 1, .warm_samples = 1}, model);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[1].workload, "GPT 1.5B, first step, warm");
}

TEST_F(BenchCommandTest, ABuildIsTimed) {
  std::filesystem::create_directories(directory_ / "sources");
  std::filesystem::copy(CAUSEWAY_SOURCE_DIR "/CMakePresets.json", directory_ / "sources");
  write_file_atomically(directory_ / "sources/CMakeLists.txt",
                        std::string_view("cmake_minimum_required(VERSION 3.25)\nproject(small LANGUAGES C)\n"
                                         "add_executable(causeway_program main.c)\n"));
  write_file_atomically(directory_ / "sources/main.c", std::string_view("int main(void) { return 0; }\n"));
  const Measurement build = run_build(directory_ / "sources");
  EXPECT_EQ(build.workload, "build from nothing");
  EXPECT_GT(build.rounds.at(0).at(0), 0.0);
  write_file_atomically(directory_ / "sources/main.c", std::string_view("int main(void) { return nothing; }\n"));
  for (const char* sources : {"sources", "nowhere"}) {
    try {
      run_build(directory_ / sources);
      ADD_FAILURE() << sources << " cannot be built";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(sources == std::string("nowhere") ? "no sources" : "could not build it"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_F(BenchCommandTest, PartsAreChosen) {
  const Outcome attention = bench({"attention", "--device", "cpu", "--pattern", "window", "--window", "20", "--shape",
                                   "1x2x1x64x32", "--direction", "forward", "--inputs", "uniform", "--samples", "3"});
  EXPECT_EQ(attention.status, 0) << attention.err;
  EXPECT_NE(attention.out.find("inputs: uniform in [-1, 1)"), std::string::npos) << attention.out;
  EXPECT_NE(attention.out.find("window 20 1x64, 2/1 heads of 32, forward"), std::string::npos) << attention.out;
  EXPECT_NE(attention.out.find("1 figures stored"), std::string::npos) << attention.out;
  const Outcome copy = bench({"copy", "--device", "cpu", "--kernel", "loop,dot", "--size", "1M", "--samples", "3"});
  EXPECT_EQ(copy.status, 0) << copy.err;
  EXPECT_NE(copy.out.find("2 figures stored"), std::string::npos) << copy.out;
  EXPECT_NE(copy.out.find("dot 1 MiB"), std::string::npos) << copy.out;
}

TEST_F(BenchCommandTest, ModelsAreNamed) {
  const Outcome outcome = bench({"train", "--device", "cpu", "--model", "gpt2_124"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("Did you mean gpt2_124m?"), std::string::npos) << outcome.err;
}

TEST_F(BenchCommandTest, BadInput) {
  const auto expect = [&](const Outcome& outcome, const std::string& text) {
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  };
  expect(gemm("12x"), "'12x' is not a shape");
  expect(gemm("12x12x12x12"), "is not a shape");
  expect(bench({"gemm", "--device", "cpu", "--dtype", "bf61"}), "Did you mean bf16?");
  expect(bench({"gemm", "--device", "cpu", "--inputs", "gamma"}), "'gamma' is no distribution of inputs");
  expect(bench({"attention", "--device", "cpu", "--pattern", "casual"}), "Did you mean causal?");
  expect(bench({"attention", "--device", "cpu", "--shape", "4x4"}), "'4x4' is not a shape of attention");
  expect(bench({"attention", "--device", "cpu", "--pattern", "window", "--window", "0"}),
         "--window: a window of 0 keys shows nothing");
  expect(bench({"copy", "--device", "cpu", "--kernel", "traid"}), "Did you mean triad?");
  expect(bench({"copy", "--device", "cpu", "--kernel", "triad", "--size", "100M"}), "Give a power of two");
  // Said before anything is measured.
  for (const char* sizes : {"3", "4M,3"}) {
    const Outcome outcome = bench({"copy", "--device", "cpu", "--size", sizes});
    expect(outcome, "3 bytes cannot be copied as whole f32 elements");
    EXPECT_EQ(outcome.out.find("GB/s"), std::string::npos) << outcome.out;
  }
  expect(bench({"train", "--device", "cpu", "--precision", "bf61"}), "Did you mean bf16?");
  expect(bench({"report"}), "there are no results yet");
  expect(bench({"compare"}), "there is nothing to compare with");
  expect(bench({"compare", "1", "7"}), "there is no run 7 in the store of benchmark results");
  expect(bench({"export", "latest", "-o", "run.txt"}), "there is no run in the store of benchmark results");
  write_file_atomically(directory_ / "newer.json",
                        std::string_view(R"({"format": "causeway-benchmarks", "version": 99, "runs": []})"));
  expect(bench({"import", "newer.json"}), "newer");
  // A run that measured nothing leaves no trace.
  EXPECT_EQ(bench({"list"}).out.find("causeway bench gemm"), std::string::npos);
}

}  // namespace
}  // namespace causeway::cli
