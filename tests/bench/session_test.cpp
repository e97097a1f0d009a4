#include "causeway/bench/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/fixtures/temporary_directory.h"

namespace causeway::bench {
namespace {

using testing::HasSubstr;

Measurement measured(const std::string& workload, const std::string& provider) {
  Measurement m;
  m.benchmark = "copy";
  m.group = "BabelStream";
  m.workload = workload;
  m.dtype = "f32";
  m.provider = provider;
  m.unit = "GB/s";
  m.work = 1e9;
  m.statistic = Statistic::kMinimum;
  m.rounds = {{0.5, 1, 1}, {0.5, 1, 1}};
  return m;
}

std::vector<std::string> recorded(const std::vector<Measurement>& measurements) {
  const TemporaryDirectory directory;
  BenchmarkSession session({.device = "cpu", .store = directory / "results.sqlite", .command = "test", .samples = 6});
  testing::internal::CaptureStdout();
  session.record(measurements);
  std::istringstream lines(testing::internal::GetCapturedStdout());
  std::vector<std::string> result;
  for (std::string line; std::getline(lines, line);) result.push_back(line);
  return result;
}

TEST(BenchmarkSessionTest, ABestFigureSaysThatItIsTheBest) {
  const std::vector<std::string> lines = recorded({measured("triad", "Causeway")});
  const std::string& figures = lines.back();
  const std::string& columns = lines[lines.size() - 2];
  EXPECT_THAT(lines[lines.size() - 3], HasSubstr("BabelStream; figures are the best of the samples"));
  EXPECT_THAT(columns, HasSubstr(" best GB/s "));
  EXPECT_EQ(columns.find("GB/s") + 4, figures.find(" 2 ") + 2) << columns << "\n" << figures;
  Measurement median = measured("16 MiB", "Causeway");
  median.statistic = Statistic::kMedian;
  median.group = "copies";
  EXPECT_THAT(recorded({median}), testing::Not(testing::Contains(HasSubstr("best"))));
}

TEST(BenchmarkSessionTest, LongNamesMoveNoColumn) {
  const std::string long_name(80, 'x'), word = "triad";
  const std::vector<std::string> lines = recorded({measured(word, "Causeway"), measured(long_name, "Causeway"),
                                                   measured(word, long_name), measured(long_name, long_name)});
  const std::string figures = "         2         1         2     n/a     6";
  const size_t place = lines.at(lines.size() - 1).find(figures);
  int rows = 0;
  for (const std::string& line : lines)
    if (line.find(figures) != std::string::npos) {
      EXPECT_EQ(line.find(figures), place) << line;
      ++rows;
    }
  EXPECT_EQ(rows, 4);
}

}  // namespace
}  // namespace causeway::bench
