#include "causeway/communicator/control_plane.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/host_name.h"
#include "causeway/base/open_file_limit.h"
#include "causeway/communicator/control_message.h"

namespace causeway::communicator {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Failure = boost::system::error_code;
using nlohmann::json;

// Rank 0 may have strangers to turn away before it answers.
constexpr auto kRank0Waits = std::chrono::seconds(25), kOneAttempt = std::chrono::seconds(3),
               kAnswer = std::chrono::seconds(8);
constexpr auto kOwnPause = std::chrono::milliseconds(3000);
// What somebody who connects has to say that it belongs to the run, and how soon the port is tried again where no more
// connections could be taken.
constexpr auto kHello = std::chrono::seconds(1);
constexpr auto kAcceptAgain = std::chrono::milliseconds(20);
constexpr auto kFarewell = std::chrono::seconds(5), kVerdict = std::chrono::seconds(3);
// Better causes than consequences arrive meanwhile.
constexpr auto kAfterConsequence = std::chrono::seconds(1);
// For launchers, which drop what they have not read of a process when one ends.
constexpr auto kForPrinting = std::chrono::milliseconds(300);
// A character of a cause takes six in a line at most.
constexpr size_t kLongestLine = 32768, kLongestCause = 4000, kMostListed = 16;
constexpr int kStandstillSteps = 20;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

void print_failure(const std::string& message) {
  notice("error: {}\n", message);
  std::this_thread::sleep_for(kForPrinting);
}

// Addresses of this machine that others may reach.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    std::array<char, NI_MAXHOST> text{};
    const bool is_v4 = one->ifa_addr->sa_family == AF_INET, is_v6 = one->ifa_addr->sa_family == AF_INET6;
    if (!is_v4 && !is_v6) continue;
    const socklen_t length = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(one->ifa_addr, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    const std::string address = text.data();
    if (address.find('%') == std::string::npos) addresses.push_back(address);  // a link's own
  }
  ::freeifaddrs(list);
  return addresses;
}

// Within what process numbers mean the same: a container of a machine has its own.
std::string process_numbering() {
  std::error_code code;
  return std::filesystem::read_symlink("/proc/self/ns/pid", code).string();
}

// Messages to and from another rank. What cannot be sent at once is lost: then nobody reads.
class Link : public std::enable_shared_from_this<Link> {
 public:
  explicit Link(tcp::socket socket) : socket_(std::move(socket)), incoming_(kLongestLine) {
    Failure ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
  }

  void send(const ControlMessage& message) {
    const std::string line = print_control_message(message) + "\n";
    Failure ignored;
    asio::write(socket_, asio::buffer(line), ignored);
  }

  // Calls one of them for the next message or the end, and is silent then until it is called again. What makes no
  // sense is an end, with what is wrong with it.
  void read(std::function<void(const ControlMessage&)> on_message, std::function<void(const std::string&)> on_end) {
    asio::async_read_until(socket_, incoming_, '\n',
                           [self = shared_from_this(), on_message = std::move(on_message), on_end = std::move(on_end)](
                               const Failure& failure, size_t) {
                             if (self->closed_) return;
                             if (failure) return on_end("");
                             std::string line;
                             std::istream stream(&self->incoming_);
                             std::getline(stream, line);
                             ControlMessage message;
                             try {
                               message = parse_control_message(line);
                             } catch (const Error& error) {
                               return on_end(error.message());
                             }
                             on_message(message);
                           });
  }

  void close() {
    closed_ = true;
    Failure ignored;
    socket_.close(ignored);
  }

 private:
  tcp::socket socket_;
  asio::streambuf incoming_;
  bool closed_ = false;
};

}  // namespace

class ControlPlane::Watch {
 public:
  Watch(Communicator& world, RankProgress& progress, ControlPlaneOptions options)
      : progress_(progress), options_(std::move(options)), rank_(world.first_local()), timer_(io_), verdict_(io_) {
    CAUSEWAY_CHECK(world.spans_processes() && world.local_size() == 1, "an end of {} ranks of {}", world.local_size(),
                   world.size());
    if (!options_.say) options_.say = print_failure;
    if (!options_.stop) options_.stop = [] { ::_exit(1); };
    const json me = {host_name(), static_cast<int64_t>(::getpid()), process_numbering()};
    for (const std::string& other : world.gather(me.dump())) {
      const json one = json::parse(other);
      Peer& peer = peers_.emplace_back();
      peer.host = one.at(0);
      peer.process = one.at(1);
      peer.numbering = one.at(2);
    }
    world.together([&] {
      if (rank_ == 0) listen();
    });
    const json offer = json::parse(world.of_first(offer_.dump()));
    world.together([&] { rank_ == 0 ? await_all() : connect(offer); });
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
  struct Peer {
    std::string host;
    int64_t process = 0;
    std::string numbering;       // of processes
    std::shared_ptr<Link> link;  // of rank 0 to each other one; of another one to rank 0
    RankPosition position;
    Clock::time_point heard = Clock::now();
    bool has_left = false;
  };
  struct Suspicion {
    int rank = 0;
    std::string cause;
    bool is_consequence = false;
  };

  bool spans_hosts() const {
    return std::ranges::any_of(peers_, [&](const Peer& peer) { return peer.host != peers_.front().host; });
  }
  Link& link_to_first() { return *peers_.front().link; }

  // ---- the beginning, by the rank's own thread

  static Error cannot_connect(const std::string& what) {
    return Error(ErrorKind::kIo, what, "control plane",
                 "Ranks watch each other over TCP: let the machines of a run reach each other, on any port.");
  }

  void listen() {
    Failure failure;
    const auto open = [&](const tcp::endpoint& at) {
      acceptor_ = tcp::acceptor(io_);
      acceptor_->open(at.protocol(), failure);
      if (!failure && at.protocol() == tcp::v6()) acceptor_->set_option(asio::ip::v6_only(false), failure);
      if (!failure) acceptor_->bind(at, failure);
      if (!failure) acceptor_->listen(tcp::socket::max_listen_connections, failure);
      return !failure;
    };
    // Machines may have one kind of addresses only.
    const bool listens =
        spans_hosts() ? open({tcp::v6(), 0}) || open({tcp::v4(), 0})
                      : open({asio::ip::address_v4::loopback(), 0}) || open({asio::ip::address_v6::loopback(), 0});
    if (!listens) throw cannot_connect(fmt::format("rank 0 cannot listen for the others: {}", failure.message()));
    const auto port = acceptor_->local_endpoint().port();
    const std::vector<std::string> addresses =
        spans_hosts() ? own_addresses() : std::vector{acceptor_->local_endpoint().address().to_string()};
    token_ = random_token();
    offer_ = {{"token", token_}, {"port", port}, {"addresses", addresses}};
  }

  // Runs what is under way until `done` or a time has passed.
  template <typename Done>
  void run_until(Clock::time_point end, Done&& done) {
    io_.restart();
    while (!done() && Clock::now() < end) {
      io_.run_one_until(end);
      if (io_.stopped()) io_.restart();
    }
  }

  void await_all() {
    accept();
    const auto all_are_here = [&] {
      return std::all_of(peers_.begin() + 1, peers_.end(), [](const Peer& peer) { return peer.link != nullptr; });
    };
    run_until(Clock::now() + kRank0Waits, all_are_here);
    if (!all_are_here()) {
      std::string missing;
      for (size_t rank = 1; rank < peers_.size(); ++rank)
        if (peers_[rank].link == nullptr)
          missing += fmt::format("{}{} ({})", missing.empty() ? "" : ", ", rank, peers_[rank].host);
      throw cannot_connect(fmt::format("rank 0 on {} was not reached by rank {}", peers_.front().host, missing));
    }
    Failure ignored;
    acceptor_->close(ignored);
  }

  // Anybody may connect. No failure of one connection ends the others: where there is no file left for one, strangers
  // are about to give some back.
  void accept() {
    acceptor_->async_accept([this](const Failure& failure, tcp::socket socket) {
      if (!acceptor_->is_open()) return;
      if (!failure) {
        meet(std::move(socket));
        return accept();
      }
      if (raise_limit_of_open_files()) return accept();
      timer_.expires_after(kAcceptAgain);
      timer_.async_wait([this](const Failure& cancelled) {
        if (!cancelled && acceptor_->is_open()) accept();
      });
    });
  }

  // Who does not know the token, or says nothing for a second, is a stranger.
  void meet(tcp::socket socket) {
    const auto link = std::make_shared<Link>(std::move(socket));
    const auto patience = std::make_shared<asio::steady_timer>(io_, kHello);
    patience->async_wait([this, link](const Failure& cancelled) {
      const bool belongs = std::ranges::any_of(peers_, [&](const Peer& peer) { return peer.link == link; });
      if (!cancelled && !belongs) link->close();
    });
    link->read(
        [this, link, patience](const ControlMessage& hello) {
          patience->cancel();
          const int rank = hello.rank.value_or(0);
          if (hello.token != token_ || rank == 0 || rank >= static_cast<int>(peers_.size())) return link->close();
          link->send({.welcome = rank});
          peers_[static_cast<size_t>(rank)].link = link;
        },
        [link, patience](const std::string&) {
          patience->cancel();
          link->close();
        });
  }

  void connect(const json& offer) {
    std::string problem = "it has no address";
    for (const json& address : offer.at("addresses")) {
      const tcp::endpoint endpoint(asio::ip::make_address(address.get<std::string>()),
                                   offer.at("port").get<uint16_t>());
      const std::string failure = try_to_connect(endpoint, offer.at("token"));
      if (failure.empty()) return;
      problem = fmt::format("{}: {}", address.get<std::string>(), failure);
    }
    throw cannot_connect(fmt::format("rank {} on {} cannot reach rank 0 on {} ({})", rank_,
                                     peers_[static_cast<size_t>(rank_)].host, peers_.front().host, problem));
  }

  // Empty when rank 0 has answered.
  std::string try_to_connect(const tcp::endpoint& endpoint, const std::string& token) {
    std::optional<std::string> outcome;
    tcp::socket socket(io_);
    std::shared_ptr<Link> link;
    socket.async_connect(endpoint, [&](const Failure& failure) {
      if (failure) {
        outcome = failure.message();
        return;
      }
      link = std::make_shared<Link>(std::move(socket));
      link->send({.token = token, .rank = rank_});
      link->read([&](const ControlMessage& answer) { outcome = answer.welcome ? "" : "somebody else answers"; },
                 [&](const std::string& nonsense) {
                   outcome = nonsense.empty() ? "the connection was closed" : "somebody else answers";
                 });
    });
    const Clock::time_point start = Clock::now();
    run_until(start + kOneAttempt, [&] { return outcome.has_value() || link != nullptr; });
    if (link != nullptr) run_until(start + kAnswer, [&] { return outcome.has_value(); });
    if (outcome == "") {
      peers_.front().link = link;
      return "";
    }
    // What is still under way refers to this call.
    Failure ignored;
    if (link != nullptr) link->close();
    socket.close(ignored);
    io_.restart();
    io_.poll();
    return outcome.value_or("no answer");
  }

  // ---- from here on, by the thread of this

  void watch() {
    sigset_t all;  // signals are the rank's own thread's
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    io_.restart();
    for (Peer& peer : peers_) peer.heard = Clock::now();
    for (size_t rank = 0; rank < peers_.size(); ++rank)
      if (peers_[rank].link != nullptr) listen_to(static_cast<int>(rank));
    last_beat_ = moved_ = Clock::now();
    beat();
    io_.run();
  }

  void listen_to(int rank) {
    peers_[static_cast<size_t>(rank)].link->read(
        [this, rank](const ControlMessage& message) { heed(rank, message); },
        [this, rank](const std::string& nonsense) {
          Peer& peer = peers_[static_cast<size_t>(rank)];
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
    Peer& peer = peers_[static_cast<size_t>(rank)];
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
      for (Peer& peer : peers_) peer.heard = now;
      moved_ = now;
    }
    last_beat_ = now;
    for (const Peer& peer : peers_)
      if (peer.link != nullptr) peer.link->send(where_i_am());
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      const Peer& peer = peers_[rank];
      if (peer.link == nullptr || peer.has_left || now - peer.heard <= options_.silence) continue;
      silent_ = static_cast<int>(rank);
      suspect(silent_,
              fmt::format("nothing was heard of it for {:.0f} seconds: its process is stopped, or its machine or "
                          "the network is down",
                          seconds(now - peer.heard)),
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
    int64_t marks = 0;
    bool all_compute = true;
    for (const Peer& peer : peers_) {
      marks += peer.position.marks;
      all_compute = all_compute && peer.position.phase == kStepPhase && !peer.has_left;
    }
    if (marks != marks_ || !all_compute) {
      marks_ = marks;
      moved_ = now;
    }
    const auto patience = std::max<Clock::duration>(options_.standstill, kStandstillSteps * progress_.longest_step());
    if (progress_.steps() < 2 || now - moved_ < patience) return;
    // Who has begun the fewest collectives is waited for.
    const auto last = std::ranges::min_element(
        peers_, {}, [](const Peer& peer) { return std::pair(peer.position.step, peer.position.collectives); });
    suspect(static_cast<int>(last - peers_.begin()),
            fmt::format("no rank has got on for {:.0f} seconds, and it has come least far", seconds(now - moved_)),
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

  static std::string text_of(const RankPosition& at) {
    return at.step == 0 ? fmt::format("before the first step, phase {}", at.phase)
                        : fmt::format("at step {}, phase {}", at.step, at.phase);
  }
  static std::string last_collective(const RankPosition& at) {
    return at.collective.empty() ? "no collective yet"
                                 : fmt::format("last collective number {}, {}", at.collectives, at.collective);
  }

  std::string describe(int failed, const std::string& cause) {
    peers_[static_cast<size_t>(rank_)].position = progress_.position();
    peers_[static_cast<size_t>(rank_)].heard = Clock::now();
    const Peer& peer = peers_[static_cast<size_t>(failed)];
    std::string text = fmt::format("rank {} of {} (host {}, process {}) failed {}: {}\n  Where the ranks were", failed,
                                   peers_.size(), peer.host, peer.process, text_of(peer.position), cause);
    if (rank_ != 0) text += ", as far as the one that says this knows";
    text += ":\n";
    size_t listed = 0;
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      const Peer& one = peers_[rank];
      const bool is_known = rank_ == 0 || static_cast<int>(rank) == rank_ || rank == 0;
      if (!is_known || (static_cast<int>(rank) != failed && listed >= kMostListed)) continue;
      ++listed;
      text += fmt::format("    rank {} {}, {} ({:.1f} s ago)\n", rank, text_of(one.position),
                          last_collective(one.position), seconds(Clock::now() - one.heard));
    }
    if (rank_ == 0 && listed < peers_.size()) text += fmt::format("    and {} more\n", peers_.size() - listed);
    text += "  All ranks were stopped.";
    if (!options_.advice.empty()) text += " " + options_.advice;
    return text;
  }

  void stop(const std::string& message) {
    if (has_stopped_) return;
    has_stopped_ = true;
    timer_.cancel();
    verdict_.cancel();
    // Before any rank ends: launchers end the others then.
    if (!message.empty()) {
      for (const Peer& peer : peers_)
        if (peer.link != nullptr) peer.link->send({.record = true});
      record();
      options_.say(recorded_.empty() ? message : message + " " + recorded_);
    }
    record();
    for (const Peer& peer : peers_)
      if (peer.link != nullptr) peer.link->send({.stop = silent_});
    end_silent_process();
    options_.stop();
    stopped_.set_value();
    for (const Peer& peer : peers_)
      if (peer.link != nullptr) peer.link->close();
  }

  void record() {
    if (!options_.record || has_recorded_) return;
    has_recorded_ = true;
    recorded_ = options_.record();
  }

  // A process that is stopped cannot end itself, and not every launcher ends it.
  void end_silent_process() const {
    if (silent_ < 0 || silent_ >= static_cast<int>(peers_.size())) return;
    const Peer &silent = peers_[static_cast<size_t>(silent_)], &here = peers_[static_cast<size_t>(rank_)];
    const bool is_near = silent.host == here.host && silent.numbering == here.numbering && !here.numbering.empty();
    if (is_near && silent.process != here.process) ::kill(static_cast<pid_t>(silent.process), SIGKILL);
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
        std::ranges::all_of(peers_, [](const Peer& peer) { return peer.link == nullptr || peer.has_left; });
    if (!now && !others_have_left) return;
    has_stopped_ = true;
    for (const Peer& peer : peers_) {
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
  std::vector<Peer> peers_;  // by rank
  asio::io_context io_;
  std::optional<tcp::acceptor> acceptor_;
  json offer_;
  std::string token_;
  asio::steady_timer timer_, verdict_;
  std::optional<Suspicion> suspicion_;
  Clock::time_point last_beat_, moved_;
  int64_t marks_ = 0;
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
