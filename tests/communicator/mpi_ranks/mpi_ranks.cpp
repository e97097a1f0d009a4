// One rank of a launch: what mpi_communicator_test.cpp starts under mpirun. Tells what it found, as lines that the test
// looks for, and fails as the program does.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "causeway/base/error.h"
#include "causeway/communicator/mpi_communicator.h"
#include "causeway/device/cpu/cpu_device.h"
#include "tests/communicator/exchange.h"

namespace causeway::communicator {
namespace {

// Elements of this rank's result that are not what they must be.
int64_t wrong_elements(Communicator& group, const Collective& collective, bool in_place) {
  const int rank = group.first_local(), ranks = group.size();
  const Exchange exchange(collective, ranks, true);
  const auto mine = static_cast<size_t>(rank);
  const size_t part = exchange.bytes_of(collective.count);
  std::vector<std::byte> sent = exchange.sent[mine], received = exchange.received[mine];
  const std::vector<std::byte> right = exchange.right(rank);
  const void* from = sent.data();
  void* to = received.data();
  if (in_place && collective.kind == CollectiveKind::kAllGather) {
    std::memcpy(received.data() + mine * part, sent.data(), part);
    from = received.data() + mine * part;
  } else if (in_place) {
    to = sent.data() + (collective.kind == CollectiveKind::kReduceScatter ? mine * part : 0);
  }
  group.run(collective, std::span(&from, 1), std::span(&to, 1));
  group.synchronize();
  int64_t wrong = 0;
  for (int64_t i = 0; i < collective.received(ranks); ++i) {
    const auto place = static_cast<size_t>(i);
    wrong += read_element(collective.dtype, to, place) != read_element(collective.dtype, right.data(), place) ? 1 : 0;
  }
  // Nothing else of what is sent may change.
  if (!in_place && sent != exchange.sent[mine]) ++wrong;
  return wrong;
}

void check_collectives(Communicator& group) {
  int64_t cases = 0, wrong = 0;
  for (const CollectiveKind kind : kAllCollectives)
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const bool in_place : {false, true})
        for (const int64_t count : {1, 7, 64, 5003})
          for (int root = 0; root < (kind == CollectiveKind::kBroadcast ? group.size() : 1); ++root) {
            if (in_place && !has_in_place(kind)) continue;
            ++cases;
            wrong += wrong_elements(group, {kind, dtype, count, root}, in_place);
          }
  std::vector<double> total = {static_cast<double>(wrong)};
  group.total(total);
  if (group.first_local() == 0)
    fmt::print("{} ranks by {}: {} cases, {} wrong\n", group.size(), group.name(), cases, total[0]);
}

void check_rounding(Communicator& world) {
  // 256 + 0.5 stays 256 in bf16; NaN and infinity arrive.
  std::vector<uint16_t> values(4);
  const double mine[] = {world.first_local() == 0 ? 256 : 0.5, world.first_local() == 0 ? NAN : 2.0, -3e38, 1.25};
  for (size_t i = 0; i < values.size(); ++i) write_element(DType::kBF16, values.data(), i, mine[i]);
  const void* from = values.data();
  void* to = values.data();
  world.run({CollectiveKind::kAllReduce, DType::kBF16, 4}, std::span(&from, 1), std::span(&to, 1));
  if (world.first_local() == 0)
    fmt::print("sums {} {} {} {}\n", read_element(DType::kBF16, to, 0), read_element(DType::kBF16, to, 1),
               read_element(DType::kBF16, to, 2), read_element(DType::kBF16, to, 3));
}

// Rounds of large and small messages in two streams, both ways at once, received in another order than sent.
void check_messages(Communicator& world) {
  constexpr int64_t kLarge = 50000;
  const int rank = world.first_local(), next = (rank + 1) % world.size(),
            previous = (rank + world.size() - 1) % world.size();
  int64_t wrong = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<float> large(static_cast<size_t>(kLarge), static_cast<float>(10 * round + rank));
    const float small = static_cast<float>(100 + rank + round);
    world.send({next, 0, kLarge, DType::kF32}, large.data());
    std::fill(large.begin(), large.end(), -1.0f);  // it was copied
    world.send({next, 1, 1, DType::kF32}, &small);
    float received = 0;
    world.receive({previous, 1, 1, DType::kF32}, &received);
    wrong += received == static_cast<float>(100 + previous + round) ? 0 : 1;
    world.receive({previous, 0, kLarge, DType::kF32}, large.data());
    for (const float value : large) wrong += value == static_cast<float>(10 * round + previous) ? 0 : 1;
  }
  std::vector<double> total = {static_cast<double>(wrong)};
  world.total(total);
  if (rank == 0) fmt::print("messages of {} ranks: {} wrong\n", world.size(), total[0]);
}

void check_control(Communicator& world) {
  const int rank = world.first_local();
  world.barrier();
  const double of_first = world.of_first(10 + rank);
  std::vector<double> sums = {1.0 + rank, 0.5};
  world.total(sums);
  std::string failure = "none";
  try {
    world.together([&] {
      if (rank == 1) throw Error(ErrorKind::kResource, "no memory at rank 1", "here", "Buy some.");
    });
  } catch (const Error& error) {
    failure = error.what();
  }
  int checks = 0;
  world.together([&] { ++checks; });
  const auto pair = world.split(world.first_local() < 2 ? std::optional(0) : std::nullopt, world.first_local());
  const Placement placement = world.placement();
  for (int turn = 0; turn < world.size(); ++turn) {
    if (turn == rank)
      fmt::print("rank {}: of_first {}, total {} {}, error [{}], after it {}, machines {}, ranks there {}, pair {}\n",
                 rank, of_first, sums[0], sums[1], failure, checks, placement.machines, placement.ranks,
                 pair ? fmt::format("{} of {}", pair->first_local(), pair->size()) : "none");
    std::fflush(stdout);
    world.barrier();
  }
}

// Rank 0 waits in an exchange for those that do not come.
void wait_in_vain(Communicator& world) {
  std::vector<float> values(1000);
  const void* from = values.data();
  void* to = values.data();
  world.run({CollectiveKind::kAllReduce, DType::kF32, 1000}, std::span(&from, 1), std::span(&to, 1));
}

void send_too_much(Communicator& world) {
  std::vector<float> from(8), to(8);
  const Transfer transfer = {0, 1, from.data(), to.data(), world.first_local() == 0 ? 8 : 4, DType::kF32};
  world.send_receive(std::span(&transfer, 1));
  wait_in_vain(world);
}

int run(const std::string& task) {
  const auto device = std::make_shared<CpuDevice>(1);
  MpiOptions options;
  if (task == "pieces") options.largest_count = 100;
  const std::unique_ptr<Communicator> world = open_mpi(device, options);
  const int rank = world->first_local();
  if (task == "collectives" || task == "pieces") {
    check_collectives(*world);
    if (const auto pair = world->split(rank < 2 ? std::optional(0) : std::nullopt, rank)) check_collectives(*pair);
    check_rounding(*world);
    check_messages(*world);
  } else if (task == "control") {
    check_control(*world);
  } else if (task == "mismatch") {
    send_too_much(*world);
  } else if (task == "throws") {
    if (rank == 1) throw Error(ErrorKind::kResource, "rank 1 has had enough", "mpi_ranks");
    wait_in_vain(*world);
  } else if (task == "killed") {
    if (rank == 1) ::raise(SIGKILL);
    wait_in_vain(*world);
  } else {
    fmt::print(stderr, "'{}' is no task\n", task);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace causeway::communicator

int main(int argc, char** argv) {
  try {
    return causeway::communicator::run(argc > 1 ? argv[1] : "");
  } catch (const causeway::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
