// One rank's end of groups: threads that meet, groups of a mesh, and ranks that do not come.
#include "causeway/communicator/thread_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "causeway/base/error.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/emulator/emulator_device.h"
#include "tests/communicator/exchange.h"
#include "tests/fixtures/error_message.h"

namespace causeway::communicator {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::shared_ptr<Device>> thread_processors(int ranks) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(std::make_shared<CpuDevice>(1));
  return devices;
}

void run_one(Communicator& end, const Collective& collective, const void* from, void* to,
             DeviceQueue queue = kComputeQueue) {
  end.run(collective, std::span(&from, 1), std::span(&to, 1), queue);
}

TEST(ThreadRanks, ComputeWhatPlainLoopsCompute) {
  for (const int ranks : {1, 2, 3, 5}) {
    run_thread_ranks(thread_processors(ranks), [&](const std::shared_ptr<Communicator>& end) {
      for (const CollectiveKind kind : kAllCollectives) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          for (const bool in_place : {false, true}) {
            for (const int64_t count : {1, 7, 5003}) {
              if (in_place && !has_in_place(kind)) continue;
              const Collective collective{kind, dtype, count, ranks / 2};
              const Exchange exchange(collective, ranks);
              const auto mine = static_cast<size_t>(end->first_local());
              std::vector<std::byte> sent = exchange.sent[mine], received = exchange.received[mine];
              const std::vector<std::byte> right = exchange.right(end->first_local());
              const size_t part = exchange.bytes_of(count);
              const void* from = sent.data();
              void* to = received.data();
              if (in_place && kind == CollectiveKind::kAllGather) {
                std::memcpy(received.data() + mine * part, sent.data(), part);
                from = received.data() + mine * part;
              } else if (in_place) {
                to = sent.data() + (kind == CollectiveKind::kReduceScatter ? mine * part : 0);
              }
              run_one(*end, collective, from, to);
              EXPECT_EQ(std::memcmp(to, right.data(), right.size()), 0)
                  << collective_name(kind) << " of " << count << " " << dtype_name(dtype) << " by " << ranks
                  << " ranks is wrong at rank " << mine;
              if (!in_place) EXPECT_EQ(sent, exchange.sent[mine]);
            }
          }
        }
      }
    });
  }
}

TEST(ThreadRanks, DecideAlike) {
  run_thread_ranks(thread_processors(3), [](const std::shared_ptr<Communicator>& end) {
    const int rank = end->first_local();
    EXPECT_TRUE(end->spans_processes());
    EXPECT_EQ(end->local_size(), 1);
    EXPECT_EQ(end->placement().ranks, 3);
    end->barrier();
    EXPECT_EQ(end->of_first(10.5 + rank), 10.5);
    EXPECT_EQ(end->of_first(rank == 0 ? "the recipe" : "another"), "the recipe");
    EXPECT_THAT(end->gather(std::string(static_cast<size_t>(rank), 'x')), ElementsAre("", "x", "xx"));
    std::vector<double> values = {1.0 + rank, 0.5};
    end->total(values);
    EXPECT_THAT(values, ElementsAre(6, 1.5));
    EXPECT_THAT(message_of([&] {
                  end->together([&] {
                    if (rank == 1) throw Error(ErrorKind::kResource, "no memory at rank 1");
                  });
                }),
                HasSubstr("no memory at rank 1"));
  });
}

// Who sends goes on at once; what is received comes in the order of its stream, whatever the order between streams.
TEST(ThreadRanks, MessagesOfAStreamArriveInOrder) {
  run_thread_ranks(thread_processors(3), [](const std::shared_ptr<Communicator>& end) {
    const int rank = end->first_local();
    if (rank == 2) return;  // others' messages are none of its business
    const int other = 1 - rank;
    for (float i = 0; i < 4; ++i) {
      const float sent[] = {i, static_cast<float>(rank)};
      end->send({other, 0, 2, DType::kF32}, sent);
      const float more = 10 + i;
      end->send({other, 1, 1, DType::kF32}, &more);
    }
    float received[2];
    for (float i = 0; i < 4; ++i) {
      end->receive({other, 1, 1, DType::kF32}, received);
      EXPECT_EQ(received[0], 10 + i);
    }
    for (float i = 0; i < 4; ++i) {
      end->receive({other, 0, 2, DType::kF32}, received);
      EXPECT_EQ(received[0], i);
      EXPECT_EQ(received[1], static_cast<float>(other));
    }
  });
}

TEST(ThreadRanks, AMessageOfAnotherSizeOrOfNobodyIsAnError) {
  EXPECT_THAT(message_of([] {
                run_thread_ranks(thread_processors(2), [](const std::shared_ptr<Communicator>& end) {
                  float values[8] = {};
                  if (end->first_local() == 0) return end->send({1, 0, 8, DType::kF32}, values);
                  end->receive({0, 0, 4, DType::kF32}, values);
                });
              }),
              HasSubstr("rank 1 was sent 32 bytes by rank 0 where it expected 16"));
  EXPECT_THAT(message_of([] {
                run_thread_ranks(thread_processors(2), [](const std::shared_ptr<Communicator>& end) {
                  float value = 0;
                  if (end->first_local() == 1) end->receive({0, 0, 1, DType::kF32}, &value);
                });
              }),
              HasSubstr("rank 0 has ended"));
}

// On an emulated GPU what other queues were given is put off; messages that were sent are not, when their rank waits.
TEST(ThreadRanks, WhoWaitsForAMessageHasSentItsOwn) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int rank = 0; rank < 2; ++rank) devices.push_back(std::make_shared<EmulatorDevice>("sm_90a"));
  run_thread_ranks(devices, [](const std::shared_ptr<Communicator>& end) {
    const int rank = end->first_local();
    const float mine = static_cast<float>(rank);
    float theirs = -1;
    end->send({1 - rank, 0, 1, DType::kF32}, &mine, send_queue(0));
    end->receive({1 - rank, 0, 1, DType::kF32}, &theirs, receive_queue(0));
    end->synchronize();
    EXPECT_EQ(theirs, 1 - rank);
  });
}

TEST(ThreadRanks, GroupsAreInTheOrderOfKeys) {
  run_thread_ranks(thread_processors(5), [](const std::shared_ptr<Communicator>& end) {
    const int rank = end->first_local();
    const std::unique_ptr<Communicator> group = end->split(rank == 4 ? std::nullopt : std::optional(rank % 2), -rank);
    if (rank == 4) {
      EXPECT_EQ(group, nullptr);
      return;
    }
    EXPECT_EQ(group->size(), 2);
    EXPECT_EQ(group->first_local(), rank < 2 ? 1 : 0);
    EXPECT_THAT(group->gather(std::to_string(rank)),
                ElementsAre(std::to_string(rank % 2 + 2), std::to_string(rank % 2)));
  });
}

// Stages make groups in orders of their own; only what is between stages is everybody's.
TEST(MeshCommunicators, StagesMakeGroupsWithoutEachOther) {
  const Mesh mesh = {{{"tp", 2, 1, false}, {"dp", 2, 2, true}, {"pp", 2, 4, true, true}}};
  run_thread_ranks(thread_processors(8), [&](const std::shared_ptr<Communicator>& end) {
    MeshCommunicators communicators(end, mesh);
    const int rank = end->first_local();
    EXPECT_EQ(mesh.stage(rank), rank / 4);
    const auto members = [&](const std::string& name) {
      return communicators.group(name).gather(std::to_string(rank));
    };
    const std::vector<std::string> tp = {std::to_string(rank / 2 * 2), std::to_string(rank / 2 * 2 + 1)};
    if (rank < 4) {
      EXPECT_EQ(members("tp"), tp);
      EXPECT_EQ(members("dp").size(), 2u);
    } else {
      EXPECT_EQ(members("tp+dp").size(), 4u);
      EXPECT_EQ(members("dp").size(), 2u);
      EXPECT_EQ(members("tp"), tp);
    }
    EXPECT_THAT(members("pp"), ElementsAre(std::to_string(rank % 4), std::to_string(rank % 4 + 4)));
    const MeshCommunicators::Channel channel = communicators.channel(1 - rank / 4, 1, rank >= 4);
    const float sent = static_cast<float>(rank);
    float received = 0;
    if (rank >= 4) {
      channel.communicator.send({channel.peer, 1, 1, DType::kF32}, &sent);
    } else {
      channel.communicator.receive({channel.peer, 1, 1, DType::kF32}, &received);
      EXPECT_EQ(received, static_cast<float>(rank + 4));
    }
  });
}

TEST(MeshCommunicators, GroupsAreTheMeshs) {
  const Mesh mesh = {{{"cp", 1, 1, true}, {"tp", 2, 1, false}, {"dp", 2, 6, true}, {"fsdp", 3, 2, true}}};
  run_thread_ranks(thread_processors(12), [&](const std::shared_ptr<Communicator>& end) {
    MeshCommunicators communicators(end, mesh);
    const int rank = communicators.rank();
    for (const std::string name : {"tp", "fsdp", "dp+fsdp", "tp+fsdp", "tp+dp+fsdp"}) {
      std::vector<std::string> expected;
      for (const int64_t member : mesh.group(rank, group_axes(mesh, name))) expected.push_back(std::to_string(member));
      Communicator& group = communicators.group(name);
      EXPECT_EQ(group.gather(std::to_string(rank)), expected) << name << " of rank " << rank;
      EXPECT_EQ(&communicators.group(name), &group);
    }
    // An axis of one rank makes no difference.
    EXPECT_EQ(&communicators.group("cp+tp"), &communicators.group("tp"));
    EXPECT_EQ(communicators.group("cp").size(), 1);
  });
  EXPECT_THAT(message_of([&] {
                run_thread_ranks(thread_processors(2), [&](const std::shared_ptr<Communicator>& end) {
                  MeshCommunicators communicators(end, mesh);
                });
              }),
              AllOf(HasSubstr("is of 12 ranks, and 2 take part"), HasSubstr("Start 12 processes")));
}

// Whether by an error, by ending early or in a group that was split off: nobody waits for ever.
TEST(ThreadRanks, WhoFailsLeavesNobodyWaiting) {
  std::mutex mutex;
  std::vector<std::string> others;
  const auto wait_in_vain = [&](Communicator& end) {
    float value = 1;
    try {
      run_one(end, {CollectiveKind::kAllReduce, DType::kF32, 1}, &value, &value);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      const std::lock_guard lock(mutex);
      others.push_back(error.message());
      throw;
    }
  };
  EXPECT_THAT(message_of([&] {
                run_thread_ranks(thread_processors(4), [&](const std::shared_ptr<Communicator>& end) {
                  const int rank = end->first_local();
                  const std::unique_ptr<Communicator> pair = end->split(rank / 2, rank);
                  if (rank == 1) throw Error(ErrorKind::kResource, "rank 1 has had enough", "here");
                  wait_in_vain(rank == 0 ? *pair : *end);
                });
              }),
              HasSubstr("here: rank 1 has had enough"));
  EXPECT_EQ(others.size(), 3u);
  for (const std::string& message : others)
    EXPECT_THAT(message, testing::AnyOf(HasSubstr("rank 1 has failed: here: rank 1 has had enough"),
                                        HasSubstr("rank 1 has ended"), HasSubstr("rank 0 has")))
        << message;
  others.clear();
  EXPECT_THAT(message_of([&] {
                run_thread_ranks(thread_processors(3), [&](const std::shared_ptr<Communicator>& end) {
                  if (end->first_local() != 2) wait_in_vain(*end);
                });
              }),
              HasSubstr("rank 2 has ended"));
  EXPECT_EQ(others.size(), 2u);
}

TEST(ThreadRanks, DifferentCollectivesAreAnError) {
  std::atomic<int> told = 0;
  EXPECT_THAT(message_of([&] {
                run_thread_ranks(thread_processors(3), [&](const std::shared_ptr<Communicator>& end) {
                  std::vector<float> values(16);
                  try {
                    run_one(*end, {CollectiveKind::kAllReduce, DType::kF32, end->first_local() == 2 ? 8 : 16},
                            values.data(), values.data());
                  } catch (const Error& error) {
                    ++told;
                    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
                    throw;
                  }
                });
              }),
              HasSubstr("rank 2 runs all_reduce of 8 f32 where rank 0 runs all_reduce of 16 f32"));
  EXPECT_EQ(told, 3);
}

// An emulator comes to what other queues hold when somebody waits for it.
TEST(ThreadRanks, CollectivesKeepTheOrderOfTheirQueue) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int rank = 0; rank < 2; ++rank) devices.push_back(std::make_shared<EmulatorDevice>("sm_90a"));
  run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& end) {
    Device& device = end->device(end->first_local());
    const DeviceBuffer buffer = device.allocate(8), sum = device.allocate(8);
    const float zero[2] = {0, 0}, values[2] = {1.0F + static_cast<float>(end->first_local()), 4};
    device.copy_to_device(buffer.data(), zero, sizeof zero);
    run_one(*end, {CollectiveKind::kAllReduce, DType::kF32, 2}, buffer.data(), sum.data(), kCopyQueue);
    device.copy_to_device(buffer.data(), values, sizeof values);
    const auto event = device.make_event();
    device.signal(*event, kCopyQueue);
    device.wait(*event, kComputeQueue);
    float results[2] = {};
    device.copy_to_host(results, sum.data(), sizeof results);
    EXPECT_THAT(results, ElementsAre(3, 8));
  });
}

}  // namespace
}  // namespace causeway::communicator
