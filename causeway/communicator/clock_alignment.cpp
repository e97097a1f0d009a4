#include "causeway/communicator/clock_alignment.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "causeway/base/error.h"
#include "causeway/base/host_name.h"

namespace causeway::communicator {
namespace {

constexpr int kClockMeetings = 32;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

std::vector<ClockOffset> clock_offsets(std::span<const std::vector<Meeting>> meetings,
                                       std::span<const std::string> hosts) {
  std::vector<ClockOffset> offsets;
  for (size_t rank = 0; rank < meetings.size(); ++rank) {
    double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < meetings[rank].size(); ++i) {
      const Meeting &here = meetings[rank][i], &first = meetings.front()[i];
      least = std::max(least, here.came - first.left);
      most = std::min(most, here.left - first.came);
    }
    const bool is_same_clock = hosts[rank] == hosts.front() && least <= 0 && most >= 0;
    offsets.push_back(is_same_clock ? ClockOffset{} : ClockOffset{(least + most) / 2, (most - least) / 2});
  }
  return offsets;
}

std::vector<ClockOffset> align_clocks(Communicator& world) {
  std::vector<Meeting> own(kClockMeetings);
  for (Meeting& meeting : own) {
    meeting.came = now();
    world.barrier();
    meeting.left = now();
  }
  const size_t bytes = own.size() * sizeof(Meeting);
  std::vector<std::vector<Meeting>> meetings;
  for (const std::string& of_rank : world.gather(std::string(reinterpret_cast<const char*>(own.data()), bytes))) {
    CAUSEWAY_CHECK(of_rank.size() == bytes);
    std::memcpy(meetings.emplace_back(kClockMeetings).data(), of_rank.data(), bytes);
  }
  return clock_offsets(meetings, world.gather(host_name()));
}

}  // namespace causeway::communicator
