#include "causeway/train/log/progress_line.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "causeway/base/console.h"
#include "causeway/base/log.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

ProgressFigures figures_at(int64_t step) {
  ProgressFigures figures;
  figures.step = step;
  figures.total_steps = 5000;
  figures.loss = 3.21456;
  figures.grad_norm = 0.871;
  figures.learning_rate = 3e-4;
  figures.tokens_per_second = 12345;
  figures.memory_bytes = uint64_t{13} << 30;
  figures.data_wait = 0.004;
  figures.eta_seconds = 3725;
  return figures;
}

TEST(ProgressLine, Units) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(987), "987");
  EXPECT_EQ(format_count(4.25), "4.25");
  EXPECT_EQ(format_count(999.6), "1.00k");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(99960), "100k");
  EXPECT_EQ(format_count(1.05e6), "1.05M");
  EXPECT_EQ(format_count(7e15), "7.00P");
  EXPECT_EQ(format_count(-1500), "-1.50k");
  EXPECT_EQ(format_count(std::nan("")), "nan");
  EXPECT_EQ(format_duration(42.4), "42s");
  EXPECT_EQ(format_duration(59.7), "1m00s");
  EXPECT_EQ(format_duration(307), "5m07s");
  EXPECT_EQ(format_duration(3 * 3600 + 300), "3h05m");
  EXPECT_EQ(format_duration(2 * 86400 + 4 * 3600), "2d04h");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "n/a");
  EXPECT_EQ(format_duration(-1), "n/a");
}

TEST(ProgressLine, WholeLine) {
  EXPECT_EQ(format_progress_line(figures_at(120), 0),
            "step 120/5000  loss 3.2146  grad 0.871  lr 3.00e-04  12.3k tok/s  mfu n/a  mem 13 GiB  data-wait 0.4%  "
            "eta 1h02m");
  ProgressFigures figures = figures_at(120);
  figures.mfu = 0.4123;
  EXPECT_THAT(format_progress_line(figures, 0), HasSubstr("mfu 41.2%"));
  figures.mfu_at_most = true;
  EXPECT_THAT(format_progress_line(figures, 0), HasSubstr("mfu <=41.2%"));
  figures.mfu_at_most = false;
  figures.total_steps = 0;
  figures.eta_seconds.reset();
  figures.loss = std::nan("");
  EXPECT_EQ(format_progress_line(figures, 0),
            "step 120  loss nan  grad 0.871  lr 3.00e-04  12.3k tok/s  mfu 41.2%  mem 13 GiB  data-wait 0.4%  eta n/a");
}

// The loss of GRPO is near 0 whatever is learned.
TEST(ProgressLine, WhatTellsMoreThanTheLossOutlastsIt) {
  ProgressFigures figures = figures_at(120);
  figures.objective = "reward 0.516";
  EXPECT_THAT(format_progress_line(figures, 0), StartsWith("step 120/5000  loss 3.2146  reward 0.516  grad 0.871"));
  EXPECT_EQ(format_progress_line(figures, 30), "step 120/5000  reward 0.516");
}

TEST(ProgressLine, FitsTheWidthAndDropsTheLeastNeededFirst) {
  const ProgressFigures figures = figures_at(120);
  const size_t whole = format_progress_line(figures, 0).size();
  EXPECT_EQ(format_progress_line(figures, static_cast<int>(whole)).size(), whole);
  EXPECT_THAT(format_progress_line(figures, static_cast<int>(whole) - 1), Not(HasSubstr("mem")));
  EXPECT_EQ(format_progress_line(figures, 60), "step 120/5000  loss 3.2146  12.3k tok/s  mfu n/a  eta 1h02m");
  EXPECT_EQ(format_progress_line(figures, 30), "step 120/5000  loss 3.2146");
  EXPECT_EQ(format_progress_line(figures, 14), "step 120/5000");
  for (int width = 1; width < 200; ++width)
    EXPECT_LE(format_progress_line(figures, width).size(), static_cast<size_t>(width));
  EXPECT_EQ(format_progress_line(figures, 6), "step 1");
}

std::string drain(int descriptor) {
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  return text;
}

TEST(ProgressLine, PlainOutputAtABoundedRate) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const ProgressLine::Clock::time_point start{};
  {
    ProgressLine line(ends[1], 100ms, 10s);
    for (int i = 0; i <= 25; ++i) line.update(figures_at(i + 1), start + i * 1s);
    line.update(figures_at(5000), start + 26s);
  }
  const std::string text = drain(ends[0]);
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
  EXPECT_THAT(text, StartsWith("step 1/5000  "));
  EXPECT_THAT(text, HasSubstr("\nstep 11/5000  "));
  EXPECT_THAT(text, HasSubstr("\nstep 21/5000  "));
  EXPECT_THAT(text, HasSubstr("\nstep 5000/5000  "));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ProgressLine, TerminalIsRewrittenInPlace) {
  const int controller = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (controller < 0 || ::grantpt(controller) != 0 || ::unlockpt(controller) != 0) GTEST_SKIP() << "no terminals here";
  const int terminal = ::open(::ptsname(controller), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  struct winsize size{24, 41, 0, 0};
  ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  const ProgressLine::Clock::time_point start{};
  {
    ProgressLine line(terminal);
    line.update(figures_at(1), start);
    line.update(figures_at(2), start + 50ms);
    line.update(figures_at(3), start + 150ms);
    // Messages go to standard error; what was drawn here makes way for them.
    log_error("a message");
    log_debug("a message that is not shown");
    line.update(figures_at(4), start + 160ms);
    notice("another\n");
    notice("and one more\n");
    line.update(figures_at(5), start + 170ms);
  }
  log_error("a message after it");
  EXPECT_EQ(drain(controller),
            "\r\x1b[Kstep 1/5000  loss 3.2146  12.3k tok/s"
            "\r\x1b[Kstep 3/5000  loss 3.2146  12.3k tok/s"
            "\r\x1b[K"
            "\r\x1b[Kstep 4/5000  loss 3.2146  12.3k tok/s"
            "\r\x1b[K"
            "\r\x1b[Kstep 5/5000  loss 3.2146  12.3k tok/s\r\n");
  ::close(terminal);
  ::close(controller);
}

}  // namespace
}  // namespace causeway::train
