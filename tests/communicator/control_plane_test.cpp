// Who watches the ranks, among threads of one process that are connected as processes would be. What only processes can
// do (to be killed, to be stopped) is in tests/cli/failing_ranks_test.cpp.
#include "causeway/communicator/control_plane.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "causeway/base/host_name.h"
#include "causeway/communicator/thread_ranks.h"
#include "causeway/device/cpu/cpu_device.h"

namespace causeway::communicator {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What the ranks of one test said, and which of them were stopped.
class Outcome {
 public:
  ControlPlaneOptions options(int rank) {
    ControlPlaneOptions options;
    options.heartbeat = std::chrono::milliseconds(20);
    options.silence = std::chrono::minutes(1);  // threads may get little time
    options.advice = "Go on.";
    options.say = [this, rank](const std::string& message) {
      const std::lock_guard lock(mutex_);
      said_[rank] += message;
    };
    options.stop = [this, rank] {
      const std::lock_guard lock(mutex_);
      ++stopped_[rank];
      changed_.notify_all();
    };
    return options;
  }
  void wait_for_stop(int rank) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_.contains(rank); });
  }
  const std::map<int, std::string>& said() const { return said_; }
  const std::map<int, int>& stopped() const { return stopped_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::string> said_;
  std::map<int, int> stopped_;
};

// Calls `body` on each of so many ranks, each with a control plane.
void on_ranks(int ranks, Outcome& outcome,
              const std::function<void(int rank, RankProgress& progress, ControlPlane& control)>& body,
              const std::function<void(ControlPlaneOptions&)>& change = {}) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(std::make_shared<CpuDevice>(1));
  run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& world) {
    RankProgress progress;
    ControlPlaneOptions options = outcome.options(world->first_local());
    if (change) change(options);
    ControlPlane control(*world, progress, options);
    body(world->first_local(), progress, control);
  });
}

TEST(ControlPlaneTest, OneMessageNamesTheRankThatFails) {
  Outcome outcome;
  std::barrier under_way(3);
  on_ranks(3, outcome, [&](int rank, RankProgress& progress, ControlPlane& control) {
    progress.enter(12, rank == 2 ? "checkpoint" : "step");
    progress.begin_collective("all_reduce", "dp");
    progress.begin_collective("all_gather", "fsdp");
    under_way.arrive_and_wait();
    if (rank == 2) control.fail("the disk is full", false);
    outcome.wait_for_stop(rank);
  });
  ASSERT_EQ(outcome.said().size(), 1u);
  EXPECT_THAT(outcome.said().at(0),
              AllOf(HasSubstr("rank 2 of 3 (host " + host_name() + ", process "),
                    HasSubstr("failed at step 12, phase checkpoint: the disk is full"),
                    HasSubstr("rank 2 at step 12, phase checkpoint, last collective number 2, all_gather over fsdp"),
                    HasSubstr("rank 0 at step 12, phase step"), HasSubstr("All ranks were stopped. Go on.")));
  EXPECT_EQ(outcome.stopped(), (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}}));
}

TEST(ControlPlaneTest, EveryRankRecordsOnceWhatItWasAt) {
  Outcome outcome;
  std::mutex mutex;
  std::map<int, int> recorded;
  std::vector<std::shared_ptr<Device>> devices;
  for (int rank = 0; rank < 3; ++rank) devices.push_back(std::make_shared<CpuDevice>(1));
  run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& world) {
    const int rank = world->first_local();
    RankProgress progress;
    ControlPlaneOptions options = outcome.options(rank);
    options.record = [&, rank] {
      const std::lock_guard lock(mutex);
      ++recorded[rank];
      return "See the file of rank " + std::to_string(rank) + ".";
    };
    ControlPlane control(*world, progress, options);
    if (rank == 1) control.fail("memory ran out", false);
    outcome.wait_for_stop(rank);
  });
  EXPECT_EQ(recorded, (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_THAT(outcome.said().at(0), testing::EndsWith("All ranks were stopped. Go on. See the file of rank 0."));
}

TEST(ControlPlaneTest, TheFirstRankFailsLikeAnyOther) {
  Outcome outcome;
  on_ranks(2, outcome, [&](int rank, RankProgress&, ControlPlane& control) {
    if (rank == 0) control.fail("memory ran out", false);
    outcome.wait_for_stop(rank);
  });
  ASSERT_EQ(outcome.said().size(), 1u);
  EXPECT_THAT(outcome.said().at(0), AllOf(HasSubstr("rank 0 of 2"), HasSubstr("before the first step, phase start"),
                                          HasSubstr("memory ran out"), HasSubstr("no collective yet")));
}

TEST(ControlPlaneTest, ConsequencesAreNamedWhereNothingBetterIsHeard) {
  Outcome both, alone;
  on_ranks(3, both, [&](int rank, RankProgress&, ControlPlane& control) {
    if (rank == 1) control.fail("a collective failed", true);
    if (rank == 2) control.fail("a bad token", false);
    both.wait_for_stop(rank);
  });
  ASSERT_EQ(both.said().size(), 1u);
  EXPECT_THAT(both.said().at(0), AllOf(HasSubstr("rank 2 of 3"), HasSubstr("a bad token")));
  on_ranks(2, alone, [&](int rank, RankProgress&, ControlPlane& control) {
    if (rank == 1) control.fail("a collective failed", true);
    alone.wait_for_stop(rank);
  });
  ASSERT_EQ(alone.said().size(), 1u);
  EXPECT_THAT(alone.said().at(0), AllOf(HasSubstr("rank 1 of 2"), HasSubstr("a collective failed")));
}

TEST(ControlPlaneTest, RanksThatWaitForEachOtherAreFound) {
  Outcome outcome;
  const auto patience = [](ControlPlaneOptions& options) { options.standstill = std::chrono::milliseconds(300); };
  on_ranks(
      3, outcome,
      [&](int rank, RankProgress& progress, ControlPlane&) {
        for (int step = 1; step <= 2; ++step) {
          progress.enter(step, "data");
          progress.enter(step, kStepPhase);
          progress.enter(step, "after the step");
        }
        progress.enter(3, kStepPhase);
        progress.begin_collective("all_gather", "fsdp");
        if (rank != 1) progress.begin_collective("reduce_scatter", "fsdp");
        outcome.wait_for_stop(rank);
      },
      patience);
  ASSERT_EQ(outcome.said().size(), 1u);
  EXPECT_THAT(outcome.said().at(0),
              AllOf(HasSubstr("rank 1 of 3"), HasSubstr("no rank has got on for"), HasSubstr("it has come least far"),
                    HasSubstr("rank 0 at step 3, phase step, last collective number 2, reduce_scatter over fsdp"),
                    HasSubstr("rank 1 at step 3, phase step, last collective number 1, all_gather over fsdp")));
}

TEST(ControlPlaneTest, NothingIsSaidOfRanksThatEndOrWaitForOneThatReads) {
  Outcome outcome;
  const auto patience = [](ControlPlaneOptions& options) { options.standstill = std::chrono::milliseconds(50); };
  on_ranks(
      3, outcome,
      [&](int rank, RankProgress& progress, ControlPlane&) {
        for (int step = 1; step <= 3; ++step) progress.enter(step, kStepPhase);
        // The others wait for this one; all end at different times.
        if (rank == 1) progress.enter(3, "data");
        std::this_thread::sleep_for(std::chrono::milliseconds(200 * rank));
      },
      patience);
  EXPECT_THAT(outcome.said(), testing::IsEmpty());
  EXPECT_THAT(outcome.stopped(), testing::IsEmpty());
}

// A connection to rank 0 by hand, over the loopback.
class RawConnection {
 public:
  RawConnection() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {}
  explicit RawConnection(uint16_t port) : RawConnection() { connect(port); }
  void connect(uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  ~RawConnection() { ::close(socket_); }

  void send(const std::string& line) {
    EXPECT_EQ(::send(socket_, line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
  }
  // To the end of a line, or of the connection.
  std::string receive() {
    std::string line;
    for (char one = 0; one != '\n' && ::recv(socket_, &one, 1, 0) == 1;) line += one;
    return line;
  }

 private:
  int socket_;
};

// What rank 0 tells the others, to rank 1, which is played by hand.
nlohmann::json hear_offer(Communicator& world) {
  world.gather(nlohmann::json({host_name(), ::getpid(), "of its own"}).dump());
  world.together([] {});
  return nlohmann::json::parse(world.of_first(std::string()));
}

// Rank 1 is played by hand: what it and strangers send comes from outside the program.
TEST(ControlPlaneTest, StrangersAreTurnedAwayAndNonsenseOfARankIsNamed) {
  Outcome outcome;
  run_thread_ranks({std::make_shared<CpuDevice>(1), std::make_shared<CpuDevice>(1)},
                   [&](const std::shared_ptr<Communicator>& world) {
                     if (world->first_local() == 0) {
                       RankProgress progress;
                       const ControlPlane control(*world, progress, outcome.options(0));
                       return outcome.wait_for_stop(0);
                     }
                     const nlohmann::json offer = hear_offer(*world);
                     const auto port = offer["port"].get<uint16_t>();
                     const nlohmann::json token = offer["token"];
                     for (const std::string& hello :
                          {std::string("GET / HTTP/1.1\r"), std::string("[]"), std::string(R"({"token":"","rank":1})"),
                           nlohmann::json({{"token", token}, {"rank", 2}}).dump(),
                           nlohmann::json({{"token", token}, {"rank", -1}}).dump(),
                           nlohmann::json({{"token", token}, {"rank", "1"}}).dump()}) {
                       RawConnection stranger(port);
                       stranger.send(hello + "\n");
                       EXPECT_EQ(stranger.receive(), "") << hello;
                     }
                     RawConnection rank(port);
                     rank.send(nlohmann::json({{"token", token}, {"rank", 1}}).dump() + "\n");
                     EXPECT_EQ(rank.receive(), "{\"welcome\":1}\n");
                     world->together([] {});
                     rank.send("{\"at\":[1,2]}\n");
                     outcome.wait_for_stop(0);
                   });
  ASSERT_EQ(outcome.said().size(), 1u);
  EXPECT_THAT(outcome.said().at(0),
              AllOf(HasSubstr("rank 1 of 2"),
                    HasSubstr("it sent what makes no sense: 'at' of a rank's message is not a position")));
}

// A process of its own that, once it is told the port, holds `count` connections to it.
class Strangers {
 public:
  explicit Strangers(int count) {
    if (::pipe(port_) != 0 || ::pipe(ready_) != 0) ::_exit(3);
    process_ = ::fork();
    if (process_ != 0) return;
    uint16_t port = 0;
    if (::read(port_[0], &port, sizeof port) != sizeof port) ::_exit(1);
    std::vector<std::unique_ptr<RawConnection>> held;
    for (int i = 0; i < count; ++i) held.push_back(std::make_unique<RawConnection>(port));
    if (::write(ready_[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;
  ~Strangers() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  void connect(uint16_t port) const {
    char byte = 0;
    if (::write(port_[1], &port, sizeof port) != sizeof port || ::read(ready_[0], &byte, 1) != 1) ::_exit(4);
  }

 private:
  int port_[2], ready_[2];
  pid_t process_;
};

// Ends with 0 where rank 1 is met although strangers hold more connections than this process may have files.
int meet_rank_1_among_strangers() {
  const rlimit few{1024, 1024};
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 2;
  const Strangers some(760), more(760);
  Outcome outcome;
  RawConnection rank;
  run_thread_ranks({std::make_shared<CpuDevice>(1), std::make_shared<CpuDevice>(1)},
                   [&](const std::shared_ptr<Communicator>& world) {
                     if (world->first_local() == 0) {
                       RankProgress progress;
                       const ControlPlane control(*world, progress, outcome.options(0));
                       return outcome.wait_for_stop(0);
                     }
                     const nlohmann::json offer = hear_offer(*world);
                     some.connect(offer["port"]);
                     more.connect(offer["port"]);
                     rank.connect(offer["port"]);
                     rank.send(nlohmann::json({{"token", offer["token"]}, {"rank", 1}}).dump() + "\n");
                     if (rank.receive() != "{\"welcome\":1}\n") ::_exit(5);
                     world->together([] {});
                     rank.send("[]\n");
                     outcome.wait_for_stop(0);
                   });
  return 0;
}

// In a process of its own, which keeps its limit.
TEST(ControlPlaneTest, StrangersWhoHoldThePortAreDropped) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(meet_rank_1_among_strangers());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(RankProgressTest, MeasuresTheLongestStepButForTheFirst) {
  RankProgress progress;
  EXPECT_EQ(progress.position(), RankPosition());
  progress.enter(1, kStepPhase);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  progress.enter(1, "checkpoint");
  EXPECT_EQ(progress.steps(), 1);
  EXPECT_EQ(progress.longest_step().count(), 0);
  progress.enter(2, kStepPhase);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  progress.enter(2, "after the step");
  EXPECT_EQ(progress.steps(), 2);
  EXPECT_GE(progress.longest_step(), std::chrono::milliseconds(2));
  EXPECT_EQ(progress.position().step, 2);
  EXPECT_EQ(progress.position().marks, 4);
  // Without any phase between them.
  progress.enter(3, kStepPhase);
  progress.enter(4, kStepPhase);
  EXPECT_EQ(progress.steps(), 3);
}

// A GPU is given the next step before the host waits for this one: going to and fro says nothing of how long a step
// takes, and a step that takes longer than a standstill's patience is none.
TEST(RankProgressTest, AStepThatRunsBesideTheNextOnesDataEndsOnce) {
  RankProgress progress;
  progress.enter(1, kStepPhase);
  progress.enter(1, "after the step");
  progress.enter(2, "data");
  progress.enter(2, kStepPhase);
  progress.enter(3, "data");
  progress.enter(3, kStepPhase);
  progress.enter(2, kStepPhase);
  EXPECT_EQ(progress.steps(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(progress.steps(), 1);
  progress.enter(2, "after the step");
  EXPECT_EQ(progress.steps(), 2);
  EXPECT_GE(progress.longest_step(), std::chrono::milliseconds(30));
  progress.enter(4, "data");
  progress.enter(4, kStepPhase);
  progress.enter(3, kStepPhase);
  progress.enter(3, "after the step");
  EXPECT_EQ(progress.steps(), 3);
}

}  // namespace
}  // namespace causeway::communicator
