#include "causeway/train/log/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>

#include "causeway/base/file.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MetricsLog, OneLineARecordAsSoonAsWritten) {
  const TemporaryDirectory directory;
  MetricsLog log(directory / "new" / "metrics.jsonl", 0);
  log.write(1, {{"loss", 2.5}, {"lr", 1e-3}, {"tokens", 4096}});
  EXPECT_EQ(read_text_file(log.enabled() ? directory / "new" / "metrics.jsonl" : ""),
            "{\"step\":1,\"loss\":2.5,\"lr\":0.001,\"tokens\":4096}\n");
  log.write(2, {{"loss", std::nan("")}, {"note", "\xff"}});
  EXPECT_THAT(read_text_file(directory / "new" / "metrics.jsonl"),
              HasSubstr("\n{\"step\":2,\"loss\":null,\"note\":\"\xef\xbf\xbd\"}\n"));
}

// What is left of `before` when a run resumes after `step` steps.
std::string after_resume(const std::string& before, int64_t step) {
  const TemporaryDirectory directory;
  FileWriter(directory / "m").write(before);
  std::vector<std::string> warnings;
  MetricsLog log(directory / "m", step, [&](const std::string& warning) { warnings.push_back(warning); });
  EXPECT_THAT(warnings, IsEmpty());
  return read_text_file(directory / "m");
}

TEST(MetricsLog, ResumeCutsLaterRecordsAndATornLine) {
  const std::string one = "{\"step\":1}\n", two = "{\"step\":2,\"loss\":1}\n", eval = "{\"step\":2,\"eval\":1}\n",
                    three = "{\"step\":3}\n";
  EXPECT_EQ(after_resume(one + two + eval + three, 3), one + two + eval + three);
  EXPECT_EQ(after_resume(one + two + eval + three, 2), one + two + eval);
  EXPECT_EQ(after_resume(one + two + eval + three, 1), one);
  EXPECT_EQ(after_resume(one + two + eval + three, 0), "");
  EXPECT_EQ(after_resume(one + two + "{\"step\":3,\"lo", 9), one + two);
  EXPECT_EQ(after_resume(one + "{\"step\":2}", 9), one);
  EXPECT_EQ(after_resume("{\"st", 9), "");
  EXPECT_EQ(after_resume("", 9), "");
  EXPECT_EQ(after_resume("\n", 9), "");
  EXPECT_EQ(after_resume(one + "garbage\n" + two + "garbage\n", 9), one + "garbage\n" + two);
}

TEST(MetricsLog, ResumedRunContinuesWhereItLeft) {
  const TemporaryDirectory directory;
  {
    MetricsLog log(directory / "m", 0);
    for (const int64_t step : {1, 2, 3}) log.write(step, {{"run", 1}});
  }
  MetricsLog log(directory / "m", 2);
  log.write(3, {{"run", 2}});
  EXPECT_EQ(read_text_file(directory / "m"),
            "{\"step\":1,\"run\":1}\n{\"step\":2,\"run\":1}\n{\"step\":3,\"run\":2}\n");
}

TEST(MetricsLog, FailingDiskWarnsOnceAndDisables) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& warning) { warnings.push_back(warning); };
  MetricsLog full("/dev/full", 0, warn);
  full.write(1, {{"loss", 1}});
  full.write(2, {{"loss", 1}});
  EXPECT_FALSE(full.enabled());
  EXPECT_THAT(warnings,
              ElementsAre("cannot write /dev/full: No space left on device; training goes on without this log"));

  warnings.clear();
  MetricsLog absent("/proc/no/such/metrics.jsonl", 0, warn);
  absent.write(1, {{"loss", 1}});
  EXPECT_FALSE(absent.enabled());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("cannot write /proc/no/such/metrics.jsonl: cannot open: No such file")));

  const TemporaryDirectory directory;
  warnings.clear();
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  MetricsLog nobody_reads(directory / "fifo", 0, warn);
  EXPECT_FALSE(nobody_reads.enabled());
  EXPECT_EQ(warnings.size(), 1u);

  MetricsLog throwing(directory.path(), 0, [](const std::string&) { throw 1; });
  EXPECT_FALSE(throwing.enabled());
}

// In a directory that somebody else made.
TEST(MetricsLog, LeavesAloneWhatIsNoLogOfItsOwn) {
  const TemporaryDirectory directory;
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& warning) { warnings.push_back(warning); };
  for (const char* text : {"export PATH=/bin\n", "{\"loss\": 1, \"step\": 1}\n", "{}", "\n\nx"}) {
    warnings.clear();
    directory.write("m", text);
    MetricsLog log(directory / "m", 0, warn);
    log.write(1, {{"loss", 1}});
    EXPECT_EQ(read_text_file(directory / "m"), text);
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("it is no log of a run's metrics: move it away")));
  }
  warnings.clear();
  directory.write("mine", "{\"step\":1}\n");
  std::filesystem::create_directories(directory / "run");
  std::filesystem::create_symlink("../mine", directory / "run/metrics.jsonl");
  MetricsLog log(directory / "run/metrics.jsonl", 0, warn);
  EXPECT_FALSE(log.enabled());
  EXPECT_EQ(read_text_file(directory / "mine"), "{\"step\":1}\n");
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("a link here leads out of")));
}

TEST(MetricsLog, FieldsThatAreNoObjectDisableIt) {
  const TemporaryDirectory directory;
  std::vector<std::string> warnings;
  MetricsLog log(directory / "m", 0, [&](const std::string& warning) { warnings.push_back(warning); });
  log.write(1, 7);
  EXPECT_FALSE(log.enabled());
  EXPECT_EQ(warnings.size(), 1u);
}

}  // namespace
}  // namespace causeway::train
