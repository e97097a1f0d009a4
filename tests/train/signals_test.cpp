#include "causeway/train/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

// The wait status of a child that runs `body` and then ends with status 0.
int status_of_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// What runs tests in the background may have started this program to ignore SIGINT, and nohup SIGHUP.
class Signals : public testing::Test {
 protected:
  Signals() : interrupt_(std::signal(SIGINT, SIG_DFL)), hang_up_(std::signal(SIGHUP, SIG_DFL)) {}
  ~Signals() override {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGHUP, hang_up_);
  }

 private:
  void (*interrupt_)(int);
  void (*hang_up_)(int);
};

TEST_F(Signals, Requests) {
  SignalWatch watch;
  EXPECT_EQ(watch.poll(), SignalRequest::kNone);
  EXPECT_EQ(watch.stop_signal(), 0);
  std::raise(SIGUSR1);
  std::raise(SIGUSR1);
  EXPECT_EQ(watch.poll(), SignalRequest::kSave);
  EXPECT_EQ(watch.poll(), SignalRequest::kNone);
  std::raise(SIGUSR1);
  std::raise(SIGTERM);
  EXPECT_EQ(watch.poll(), SignalRequest::kStop);
  EXPECT_EQ(watch.poll(), SignalRequest::kStop);
  EXPECT_EQ(watch.stop_signal(), SIGTERM);
}

TEST_F(Signals, EachWatchStartsAfresh) {
  {
    SignalWatch watch;
    std::raise(SIGINT);
    EXPECT_EQ(watch.stop_signal(), SIGINT);
  }
  SignalWatch watch;
  EXPECT_EQ(watch.poll(), SignalRequest::kNone);
  std::raise(SIGINT);
  EXPECT_EQ(watch.poll(), SignalRequest::kStop);
}

TEST_F(Signals, AClosedTerminalStopsTheRun) {
  SignalWatch watch;
  std::raise(SIGHUP);
  EXPECT_EQ(watch.poll(), SignalRequest::kStop);
  EXPECT_EQ(watch.stop_signal(), SIGHUP);
}

TEST_F(Signals, AreTakenBackFromALibrary) {
  EXPECT_EQ(status_of_child([] {
              SignalWatch watch;
              std::signal(SIGHUP, [](int) { ::_exit(1); });
              watch.take_hold();
              std::raise(SIGHUP);
              if (watch.stop_signal() != SIGHUP) ::_exit(2);
            }),
            0);
}

TEST_F(Signals, WhatTheProcessWasStartedToIgnoreStaysIgnored) {
  EXPECT_EQ(status_of_child([] {
              for (const int signal : {SIGHUP, SIGINT}) std::signal(signal, SIG_IGN);
              SignalWatch watch;
              watch.take_hold();
              std::raise(SIGHUP);
              std::raise(SIGINT);
              std::raise(SIGINT);
              ::_exit(watch.poll() == SignalRequest::kNone ? 0 : 1);
            }),
            0);
}

TEST_F(Signals, TheFirstIsAnsweredAtOnce) {
  ::testing::internal::CaptureStderr();
  {
    SignalWatch watch;
    watch.begin_steps();
    std::raise(SIGINT);
  }
  {
    const SignalWatch watch;
    std::raise(SIGTERM);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "\ninterrupted: finishing this step, then saving and stopping; Ctrl-C again stops at once, without saving\n"
            "\nSIGTERM: stopping before the first step\n");
}

TEST_F(Signals, ARequestToSaveIsRememberedFromTheProgramsFirstLineOn) {
  EXPECT_EQ(status_of_child([] {
              SignalWatch::remember_save_requests();
              std::raise(SIGUSR1);
              {
                SignalWatch watch;
                if (watch.poll() != SignalRequest::kSave || watch.poll() != SignalRequest::kNone) ::_exit(1);
              }
              std::raise(SIGUSR1);  // after the run, too, it ends nothing
              if (!SignalWatch::take_early_save_request() || SignalWatch::take_early_save_request()) ::_exit(2);
            }),
            0);
}

TEST_F(Signals, OnlyOneWatch) {
  const SignalWatch watch;
  EXPECT_THROW(SignalWatch(), InternalError);
}

TEST_F(Signals, SecondInterruptExitsAtOnce) {
  const int status = status_of_child([] {
    const SignalWatch watch;
    std::raise(SIGINT);
    std::raise(SIGINT);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(status_of_child([] {
              const SignalWatch watch;
              std::raise(SIGTERM);
              std::raise(SIGTERM);
              std::raise(SIGINT);
            }),
            0);
}

TEST_F(Signals, FormerHandlersComeBack) {
  const int status = status_of_child([] {
    {
      const SignalWatch watch;
    }
    std::raise(SIGTERM);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST_F(Signals, ClosedPipeIsAnErrorOfTheWrite) {
  EXPECT_EQ(status_of_child([] {
              const SignalWatch watch;
              int ends[2];
              if (::pipe(ends) != 0) ::_exit(1);
              ::close(ends[0]);
              if (::write(ends[1], "x", 1) != -1 || errno != EPIPE) ::_exit(2);
            }),
            0);
}

}  // namespace
}  // namespace causeway::train
