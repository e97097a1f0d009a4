#include "causeway/train/checkpoint/run_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/host_name.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string message_of_lock(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A process that owns the run until it is killed.
pid_t start_owner(const std::filesystem::path& run) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(run);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

void kill_and_wait(pid_t child) {
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(RunLock, ASecondOwnerIsToldOfTheFirst) {
  const TemporaryDirectory run;
  const pid_t owner = start_owner(run.path());
  EXPECT_THAT(message_of_lock([&] { RunLock{run.path()}; }),
              AllOf(HasSubstr(run.path().string() + ": another run owns this run directory: process " +
                              std::to_string(owner) + " on " + host_name() + ", since 2"),
                    HasSubstr("SIGTERM makes it save"), HasSubstr("run_directory")));
  kill_and_wait(owner);
}

TEST(RunLock, ADeadOwnerHoldsNothing) {
  const TemporaryDirectory run;
  kill_and_wait(start_owner(run.path()));
  ASSERT_TRUE(read_run_owner(run.path()).has_value());
  EXPECT_FALSE(read_run_owner(run.path())->is_alive());
  const RunLock lock(run.path());
  EXPECT_EQ(read_run_owner(run.path())->process, ::getpid());
  EXPECT_TRUE(read_run_owner(run.path())->is_alive());
}

TEST(RunLock, IsGivenBackAtTheEnd) {
  const TemporaryDirectory run;
  {
    const RunLock lock(run.path());
  }
  EXPECT_FALSE(read_run_owner(run.path()).has_value());
  const RunLock lock(run.path());
}

TEST(RunLock, TheTextOfTheFileIsNoLock) {
  const TemporaryDirectory run;
  for (const char* text : {"", "{", "[1]", "{\"process\": \"x\"}", "{\"process\": 1}"}) {
    std::ofstream(run / kRunLockName) << text;
    const RunLock lock(run.path());
  }
}

TEST(RunLock, WhereTheFileSystemHasNoLocksTheTextDecides) {
  const TemporaryDirectory run;
  const auto no_locks = [](int) { return ENOLCK; };
  const auto owned_by = [&](const std::string& process, const std::string& host) {
    std::ofstream(run / kRunLockName) << "{\"process\": " << process << ", \"host\": \"" << host
                                      << "\", \"since\": \"then\", \"process_started\": 0}";
    return message_of_lock([&] { RunLock(run.path(), no_locks); });
  };
  EXPECT_THAT(owned_by(std::to_string(::getppid()), host_name()), HasSubstr("another run owns this run directory"));
  EXPECT_THAT(owned_by("1", "elsewhere"),
              AllOf(HasSubstr("process 1 on elsewhere, since then"), HasSubstr("has no locks"),
                    HasSubstr("delete " + (run / kRunLockName).string())));
  EXPECT_EQ(owned_by("2147483647", host_name()), "no error");
  // Taken for a process's number these are those of groups: -1 is everybody.
  for (const char* process : {"9223372036854775807", "18446744073709551615", "4294967295", "-1", "0", "1e300", "1.5"})
    EXPECT_EQ(owned_by(process, host_name()), "no error") << process;
  EXPECT_FALSE(read_run_owner(run.path()).has_value());
}

TEST(RunLock, ADirectoryThatWasDeletedIsMadeAgain) {
  const TemporaryDirectory parent;
  const std::filesystem::path run = parent / "run";
  std::filesystem::create_directory(run);
  RunLock lock(run);
  std::filesystem::remove_all(run);
  lock.renew();
  EXPECT_EQ(read_run_owner(run)->process, ::getpid());
  EXPECT_THAT(message_of_lock([&] { RunLock{run}; }), HasSubstr("another run owns this run directory"));
}

TEST(RunLock, ADirectoryThatAnotherRunMadeAgainIsItsOwn) {
  const TemporaryDirectory parent;
  const std::filesystem::path run = parent / "run";
  std::filesystem::create_directory(run);
  RunLock lock(run);
  std::filesystem::rename(run, parent / "moved");
  std::filesystem::create_directory(run);
  const pid_t owner = start_owner(run);
  EXPECT_THAT(message_of_lock([&] { lock.renew(); }), HasSubstr("process " + std::to_string(owner)));
  kill_and_wait(owner);
}

TEST(RunLock, ALinkIsNotFollowed) {
  const TemporaryDirectory run, other;
  std::ofstream(other / "precious") << "content";
  std::filesystem::create_symlink(other / "precious", run / kRunLockName);
  EXPECT_THAT(message_of_lock([&] { RunLock{run.path()}; }), HasSubstr("cannot create"));
  EXPECT_EQ(read_text_file(other / "precious"), "content");
}

}  // namespace
}  // namespace causeway::train
