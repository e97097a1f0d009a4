#include "causeway/communicator/launch_link.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <vector>

namespace causeway::communicator {
namespace {

// Both ends of a link, and what came out of it.
class LaunchLinkTest : public testing::Test {
 protected:
  LaunchLinkTest() { EXPECT_EQ(::pipe(ends_), 0); }
  ~LaunchLinkTest() override {
    hang_up();
    ::close(ends_[0]);
  }
  void say(const std::string& text) const {
    ASSERT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void hang_up() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  int reading_end() const { return ends_[0]; }
  void hear(int signal) {
    const std::lock_guard lock(mutex_);
    heard_.push_back(signal);
    changed_.notify_all();
  }
  void wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return heard_.size() >= count; });
  }
  const std::vector<int>& heard() const { return heard_; }

 private:
  int ends_[2];
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> heard_;
};

TEST_F(LaunchLinkTest, PassesSignalsOnAndNothingElse) {
  say("SIGTERM\n");  // before the greeting: somebody else's text
  {
    const LaunchLink link(reading_end(), [this](int signal) { hear(signal); });
    say(launch_link_greeting());
    say(launch_link_line(SIGUSR1) + "SIGKILL\nnonsense\n\n" + std::string(10'000, 'x') + "\nSIG");
    say("TERM\n" + launch_link_line(SIGINT) + launch_link_line(SIGHUP));
    wait_for(4);
  }
  EXPECT_EQ(heard(), (std::vector{SIGUSR1, SIGTERM, SIGINT, SIGHUP}));
}

TEST_F(LaunchLinkTest, TheEndOfWhoeverStartedTheRunStopsIt) {
  const LaunchLink link(reading_end(), [this](int signal) { hear(signal); });
  say(launch_link_greeting());
  hang_up();
  wait_for(1);
  EXPECT_EQ(heard(), std::vector{SIGTERM});
}

// What a launcher gives that carries no standard input.
TEST_F(LaunchLinkTest, AnEmptyInputSaysNothing) {
  hang_up();
  {
    const LaunchLink link(reading_end(), [this](int signal) { hear(signal); });
  }
  EXPECT_TRUE(heard().empty());
}

}  // namespace
}  // namespace causeway::communicator
