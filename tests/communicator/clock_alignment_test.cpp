#include "causeway/communicator/clock_alignment.h"

#include <gtest/gtest.h>

#include <random>

#include "causeway/communicator/thread_ranks.h"
#include "causeway/device/cpu/cpu_device.h"

namespace causeway::communicator {
namespace {

// Meetings of ranks whose clocks are ahead by so much; they come and leave at random within 2 ms.
std::vector<std::vector<Meeting>> meetings_of(const std::vector<double>& ahead) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> delay(0, 2e-3);
  std::vector<std::vector<Meeting>> meetings(ahead.size());
  for (int i = 0; i < 32; ++i) {
    std::vector<double> came;
    for (size_t rank = 0; rank < ahead.size(); ++rank) came.push_back(i + delay(random));
    const double all_are_here = *std::max_element(came.begin(), came.end());
    for (size_t rank = 0; rank < ahead.size(); ++rank)
      meetings[rank].push_back({came[rank] + ahead[rank], all_are_here + delay(random) + ahead[rank]});
  }
  return meetings;
}

TEST(ClockAlignment, BoundsWhatClocksShow) {
  const std::vector<double> ahead = {0, 5000, -3e-3};
  const std::vector<std::string> hosts = {"a", "b", "c"};
  const std::vector<ClockOffset> offsets = clock_offsets(meetings_of(ahead), hosts);
  ASSERT_EQ(offsets.size(), 3u);
  for (size_t rank = 0; rank < ahead.size(); ++rank) {
    EXPECT_LE(std::abs(offsets[rank].ahead - ahead[rank]), offsets[rank].uncertainty + 1e-9) << rank;
    EXPECT_LT(offsets[rank].uncertainty, 1e-3) << rank;
  }
}

TEST(ClockAlignment, RanksOfOneHostHaveOneClockUnlessTheyShowOtherwise) {
  const std::vector<ClockOffset> offsets =
      clock_offsets(meetings_of({0, 0, 40}), std::vector<std::string>{"a", "a", "a"});
  EXPECT_EQ(offsets[1].ahead, 0);
  EXPECT_EQ(offsets[1].uncertainty, 0);
  EXPECT_NEAR(offsets[2].ahead, 40, 1e-3);
}

TEST(ClockAlignment, AmongThreads) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int rank = 0; rank < 3; ++rank) devices.push_back(std::make_shared<CpuDevice>(1));
  run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& world) {
    for (const ClockOffset& offset : align_clocks(*world)) EXPECT_EQ(offset.ahead, 0);
  });
}

}  // namespace
}  // namespace causeway::communicator
