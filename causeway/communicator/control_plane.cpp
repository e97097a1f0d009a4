#include "causeway/communicator/control_plane.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/communicator/control_link.h"
#include "causeway/communicator/control_message.h"
#include "causeway/communicator/rank_connections.h"
#include "causeway/communicator/watched_rank.h"

namespace causeway::communicator {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using Failure = boost::system::error_code;

constexpr auto kOwnPause = std::chrono::milliseconds(3000);
constexpr auto kFarewell = std::chrono::seconds(5), kVerdict = std::chrono::seconds(3);
// Better causes than consequences arrive meanwhile.
constexpr auto kAfterConsequence = std::chrono::seconds(1);
// For launchers, which drop what they have not read of a process when one ends.
constexpr auto kForPrinting = std::chrono::milliseconds(300);
constexpr size_t kLongestCause = 4000;

void print_failure(const std::string& message) {
  notice("error: {}\n", message);
  std::this_thread::sleep_for(kForPrinting);
}

}  // namespace

class ControlPlane::Watch {
 public:
  Watch(Communicator& world, RankProgress& progress, ControlPlaneOptions options)
      : progress_(progress),
        options_(std::move(options)),
        rank_(world.first_local()),
        timer_(io_),
        verdict_(io_),
        standstill_(options_.standstill) {
    CAUSEWAY_CHECK(world.spans_processes() && world.local_size() == 1, "an end of {} ranks of {}", world.local_size(),
                   world.size());
    peers_ = meet_ranks(world);
    if (!options_.say) options_.say = print_failure;
    if (!options_.stop) options_.stop = [] { ::_exit(1); };
    std::vector<std::string> hosts;
    for (const WatchedRank& peer : peers_) hosts.push_back(peer.host);
    const std::vector<std::shared_ptr<ControlLink>> links = connect_ranks(world, io_, hosts);
    for (size_t rank = 0; rank < peers_.size(); ++rank) peers_[rank].link = links[rank];
    thread_ = std::thread([this] { watch(); });
  }

  ~Watch() {
    asio::post(io_, [this] { leave(); });
    thread_.join();
  }

  void fail(std::string cause, bool is_consequence) {
    cause.resize(std::min(cause.size(), kLongestCause));
    asio::post(io_, [this, cause, is_consequence] {
      if (rank_ == 0) return suspect(0, cause, is_consequence);
      send_where_i_am();
      link_to_first().send({.failure = RankFailure{cause, is_consequence}});
      // Rank 0 may be gone without a sign.
      after(kVerdict, [this, cause] { stop(describe(rank_, cause)); });
    });
    is_stopped_.wait();
  }

 private:
  struct Suspicion {
    int rank = 0;
    std::string cause;
    bool is_consequence = false;
  };

  ControlLink& link_to_first() { return *peers_.front().link; }

  void watch() {
    sigset_t all;  // signals are the rank's own thread's
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    io_.restart();
    for (WatchedRank& peer : peers_) peer.heard = Clock::now();
    for (size_t rank = 0; rank < peers_.size(); ++rank)
      if (peers_[rank].link != nullptr) listen_to(static_cast<int>(rank));
    last_beat_ = Clock::now();
    standstill_.restart(last_beat_);
    beat();
    io_.run();
  }

  void listen_to(int rank) {
    peers_[static_cast<size_t>(rank)].link->read(
        [this, rank](const ControlMessage& message) { heed(rank, message); },
        [this, rank](const std::string& nonsense) {
          WatchedRank& peer = peers_[static_cast<size_t>(rank)];
          if (!nonsense.empty())
            suspect(rank, "it sent what makes no sense: " + nonsense, false);
          else if (!peer.has_left && !is_leaving_of_rank_0())
            suspect(rank,
                    "its process ended without a word: it was killed (for want of memory, perhaps), or it crashed",
                    false);
          peer.has_left = true;
          finish_leaving();
        });
  }

  bool is_leaving_of_rank_0() const { return leaving_ && rank_ != 0; }

  void heed(int rank, const ControlMessage& message) {
    WatchedRank& peer = peers_[static_cast<size_t>(rank)];
    peer.heard = Clock::now();
    if (message.position) peer.position = *message.position;
    if (message.failure) suspect(rank, message.failure->cause, message.failure->is_consequence);
    if (message.record) record();
    if (message.stop) {
      silent_ = *message.stop;
      return stop("");
    }
    if (message.leaves) peer.has_left = true;
    listen_to(rank);
    finish_leaving();
  }

  ControlMessage where_i_am() const { return {.position = progress_.position()}; }
  void send_where_i_am() { link_to_first().send(where_i_am()); }

  void beat() {
    const Clock::time_point now = Clock::now();
    // This process has slept: what the others said meanwhile is yet to be read.
    if (now - last_beat_ > std::max(3 * options_.heartbeat, kOwnPause)) {
      for (WatchedRank& peer : peers_) peer.heard = now;
      standstill_.restart(now);
    }
    last_beat_ = now;
    for (const WatchedRank& peer : peers_)
      if (peer.link != nullptr) peer.link->send(where_i_am());
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      const WatchedRank& peer = peers_[rank];
      if (peer.link == nullptr || peer.has_left || now - peer.heard <= options_.silence) continue;
      silent_ = static_cast<int>(rank);
      suspect(silent_,
              fmt::format("nothing was heard of it for {:.0f} seconds: its process is stopped, or its machine or "
                          "the network is down",
                          std::chrono::duration<double>(now - peer.heard).count()),
              false);
    }
    if (rank_ == 0) look_for_standstill(now);
    if (has_stopped_) return;
    timer_.expires_after(options_.heartbeat);
    timer_.async_wait([this](const Failure& failure) {
      if (!failure) beat();
    });
  }

  void look_for_standstill(Clock::time_point now) {
    peers_.front().position = progress_.position();
    if (const std::optional<StandstillRule::Standstill> found = standstill_.look(peers_, progress_, now))
      suspect(found->rank,
              fmt::format("no rank has got on for {:.0f} seconds, and it has come least far",
                          std::chrono::duration<double>(found->lasts).count()),
              false);
  }

  void suspect(int rank, const std::string& cause, bool is_consequence) {
    if (has_stopped_) return;
    if (rank_ != 0) {  // rank 0 is gone
      if (rank_ == 1) return stop(describe(rank, cause));
      // Rank 1 speaks, and is given the time to.
      if (!suspicion_) after(kForPrinting, [this] { stop(""); });
      suspicion_ = {rank, cause, false};
      return;
    }
    if (!is_consequence) return stop(describe(rank, cause));
    if (suspicion_) return;
    suspicion_ = {rank, cause, true};
    after(kAfterConsequence, [this] { stop(describe(suspicion_->rank, suspicion_->cause)); });
  }

  template <typename Action>
  void after(std::chrono::milliseconds time, Action action) {
    verdict_.expires_after(time);
    verdict_.async_wait([action = std::move(action)](const Failure& failure) {
      if (!failure) action();
    });
  }

  std::string describe(int failed, const std::string& cause) {
    WatchedRank& here = peers_[static_cast<size_t>(rank_)];
    here.position = progress_.position();
    here.heard = Clock::now();
    return describe_failure(peers_, rank_, failed, cause, options_.advice);
  }

  void stop(const std::string& message) {
    if (has_stopped_) return;
    has_stopped_ = true;
    timer_.cancel();
    verdict_.cancel();
    // Before any rank ends: launchers end the others then.
    if (!message.empty()) {
      for (const WatchedRank& peer : peers_)
        if (peer.link != nullptr) peer.link->send({.record = true});
      record();
      options_.say(recorded_.empty() ? message : message + " " + recorded_);
    }
    record();
    for (const WatchedRank& peer : peers_)
      if (peer.link != nullptr) peer.link->send({.stop = silent_});
    if (silent_ >= 0 && silent_ < static_cast<int>(peers_.size()))
      kill_near_process(peers_[static_cast<size_t>(silent_)], peers_[static_cast<size_t>(rank_)]);
    options_.stop();
    stopped_.set_value();
    for (const WatchedRank& peer : peers_)
      if (peer.link != nullptr) peer.link->close();
  }

  void record() {
    if (!options_.record || has_recorded_) return;
    has_recorded_ = true;
    recorded_ = options_.record();
  }

  void leave() {
    if (has_stopped_) return;
    leaving_ = true;
    if (rank_ != 0) link_to_first().send({.leaves = true});
    verdict_.expires_after(kFarewell);
    verdict_.async_wait([this](const Failure& failure) {
      if (!failure) finish_leaving(true);
    });
    finish_leaving();
  }

  // Rank 0 waits for the others, and they for it.
  void finish_leaving(bool now = false) {
    if (!leaving_ || has_stopped_) return;
    const bool others_have_left =
        std::ranges::all_of(peers_, [](const WatchedRank& peer) { return peer.link == nullptr || peer.has_left; });
    if (!now && !others_have_left) return;
    has_stopped_ = true;
    for (const WatchedRank& peer : peers_) {
      if (peer.link == nullptr) continue;
      if (rank_ == 0) peer.link->send({.leaves = true});
      peer.link->close();
    }
    timer_.cancel();
    verdict_.cancel();
  }

  RankProgress& progress_;
  ControlPlaneOptions options_;
  const int rank_;
  asio::io_context io_;             // outlives the links of peers_
  std::vector<WatchedRank> peers_;  // by rank
  asio::steady_timer timer_, verdict_;
  std::optional<Suspicion> suspicion_;
  Clock::time_point last_beat_;
  StandstillRule standstill_;
  int silent_ = -1;  // the rank of which nothing is heard; none: -1
  bool leaving_ = false, has_stopped_ = false, has_recorded_ = false;
  std::string recorded_;
  std::promise<void> stopped_;
  const std::shared_future<void> is_stopped_ = stopped_.get_future().share();
  std::thread thread_;
};

ControlPlane::ControlPlane(Communicator& world, RankProgress& progress, ControlPlaneOptions options)
    : watch_(std::make_unique<Watch>(world, progress, std::move(options))) {}

ControlPlane::~ControlPlane() = default;

void ControlPlane::fail(const std::string& cause, bool is_consequence) { watch_->fail(cause, is_consequence); }

}  // namespace causeway::communicator
