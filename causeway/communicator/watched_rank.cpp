#include "causeway/communicator/watched_rank.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/host_name.h"

namespace causeway::communicator {
namespace {

constexpr size_t kMostListed = 16;
constexpr int kStandstillSteps = 20;

double seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// A container of a machine has its own.
std::string process_numbering() {
  std::error_code code;
  return std::filesystem::read_symlink("/proc/self/ns/pid", code).string();
}

std::string position_text(const RankPosition& at) {
  return at.step == 0 ? fmt::format("before the first step, phase {}", at.phase)
                      : fmt::format("at step {}, phase {}", at.step, at.phase);
}
std::string last_collective_text(const RankPosition& at) {
  return at.collective.empty() ? "no collective yet"
                               : fmt::format("last collective number {}, {}", at.collectives, at.collective);
}

}  // namespace

std::vector<WatchedRank> meet_ranks(Communicator& world) {
  std::vector<WatchedRank> ranks;
  const nlohmann::json here = {host_name(), static_cast<int64_t>(::getpid()), process_numbering()};
  for (const std::string& other : world.gather(here.dump())) {
    const auto one = nlohmann::json::parse(other);
    WatchedRank& rank = ranks.emplace_back();
    rank.host = one.at(0);
    rank.process = one.at(1);
    rank.numbering = one.at(2);
  }
  return ranks;
}

std::string describe_failure(const std::vector<WatchedRank>& ranks, int speaker, int failed, const std::string& cause,
                             const std::string& advice) {
  const WatchedRank& peer = ranks[static_cast<size_t>(failed)];
  std::string text = fmt::format("rank {} of {} (host {}, process {}) failed {}: {}\n  Where the ranks were", failed,
                                 ranks.size(), peer.host, peer.process, position_text(peer.position), cause);
  if (speaker != 0) text += ", as far as the one that says this knows";
  text += ":\n";
  size_t listed = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const WatchedRank& one = ranks[rank];
    const bool is_known = speaker == 0 || static_cast<int>(rank) == speaker || rank == 0;
    if (!is_known || (static_cast<int>(rank) != failed && listed >= kMostListed)) continue;
    ++listed;
    text += fmt::format("    rank {} {}, {} ({:.1f} s ago)\n", rank, position_text(one.position),
                        last_collective_text(one.position), seconds(WatchedRank::Clock::now() - one.heard));
  }
  if (speaker == 0 && listed < ranks.size()) text += fmt::format("    and {} more\n", ranks.size() - listed);
  text += "  All ranks were stopped.";
  if (!advice.empty()) text += " " + advice;
  return text;
}

void kill_near_process(const WatchedRank& silent, const WatchedRank& here) {
  const bool is_near = silent.host == here.host && silent.numbering == here.numbering && !here.numbering.empty();
  if (is_near && silent.process != here.process) ::kill(static_cast<pid_t>(silent.process), SIGKILL);
}

std::optional<StandstillRule::Standstill> StandstillRule::look(const std::vector<WatchedRank>& ranks,
                                                               const RankProgress& own, Clock::time_point now) {
  int64_t marks = 0;
  bool all_compute = true;
  for (const WatchedRank& rank : ranks) {
    marks += rank.position.marks;
    all_compute = all_compute && rank.position.phase == kStepPhase && !rank.has_left;
  }
  if (marks != marks_ || !all_compute) {
    marks_ = marks;
    moved_ = now;
  }
  const auto patience = std::max<Clock::duration>(patience_, kStandstillSteps * own.longest_step());
  if (own.steps() < 2 || now - moved_ < patience) return std::nullopt;
  const auto last = std::ranges::min_element(
      ranks, {}, [](const WatchedRank& rank) { return std::pair(rank.position.step, rank.position.collectives); });
  return Standstill{static_cast<int>(last - ranks.begin()), now - moved_};
}

}  // namespace causeway::communicator
