#include "causeway/communicator/rank_connections.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/open_file_limit.h"

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
// What somebody who connects has to say that it belongs to the run, and how soon the port is tried again where no more
// connections could be taken.
constexpr auto kHello = std::chrono::seconds(1);
constexpr auto kAcceptAgain = std::chrono::milliseconds(20);

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
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

// What it leaves under way when all are connected (strangers that are yet to say something) keeps it.
class RankConnector : public std::enable_shared_from_this<RankConnector> {
 public:
  RankConnector(asio::io_context& io, std::vector<std::string> hosts, int rank)
      : io_(io), hosts_(std::move(hosts)), rank_(rank), accept_again_(io), links_(hosts_.size()) {}

  std::vector<std::shared_ptr<ControlLink>> connect_all(Communicator& world) {
    world.together([&] {
      if (rank_ == 0) listen();
    });
    const json offer = json::parse(world.of_first(offer_.dump()));
    world.together([&] { rank_ == 0 ? await_all() : connect(offer); });
    return links_;
  }

 private:
  bool spans_hosts() const {
    return std::ranges::any_of(hosts_, [&](const std::string& host) { return host != hosts_.front(); });
  }

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
      return std::all_of(links_.begin() + 1, links_.end(), [](const auto& link) { return link != nullptr; });
    };
    run_until(Clock::now() + kRank0Waits, all_are_here);
    if (!all_are_here()) {
      std::string missing;
      for (size_t rank = 1; rank < links_.size(); ++rank)
        if (links_[rank] == nullptr)
          missing += fmt::format("{}{} ({})", missing.empty() ? "" : ", ", rank, hosts_[rank]);
      throw cannot_connect(fmt::format("rank 0 on {} was not reached by rank {}", hosts_.front(), missing));
    }
    Failure ignored;
    acceptor_->close(ignored);
  }

  // Anybody may connect. No failure of one connection ends the others: where there is no file left for one, strangers
  // are about to give some back.
  void accept() {
    acceptor_->async_accept([this, self = shared_from_this()](const Failure& failure, tcp::socket socket) {
      if (!acceptor_->is_open()) return;
      if (!failure) {
        meet(std::move(socket));
        return accept();
      }
      if (raise_limit_of_open_files()) return accept();
      accept_again_.expires_after(kAcceptAgain);
      accept_again_.async_wait([this, self](const Failure& cancelled) {
        if (!cancelled && acceptor_->is_open()) accept();
      });
    });
  }

  // Who does not know the token, or says nothing for a second, is a stranger.
  void meet(tcp::socket socket) {
    const auto link = std::make_shared<ControlLink>(std::move(socket));
    const auto patience = std::make_shared<asio::steady_timer>(io_, kHello);
    patience->async_wait([this, self = shared_from_this(), link](const Failure& cancelled) {
      const bool belongs = std::ranges::find(links_, link) != links_.end();
      if (!cancelled && !belongs) link->close();
    });
    link->read(
        [this, self = shared_from_this(), link, patience](const ControlMessage& hello) {
          patience->cancel();
          const int rank = hello.rank.value_or(0);
          if (hello.token != token_ || rank == 0 || rank >= static_cast<int>(links_.size())) return link->close();
          link->send({.welcome = rank});
          links_[static_cast<size_t>(rank)] = link;
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
                                     hosts_[static_cast<size_t>(rank_)], hosts_.front(), problem));
  }

  // Empty when rank 0 has answered.
  std::string try_to_connect(const tcp::endpoint& endpoint, const std::string& token) {
    std::optional<std::string> outcome;
    tcp::socket socket(io_);
    std::shared_ptr<ControlLink> link;
    socket.async_connect(endpoint, [&](const Failure& failure) {
      if (failure) {
        outcome = failure.message();
        return;
      }
      link = std::make_shared<ControlLink>(std::move(socket));
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
      links_.front() = link;
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

  asio::io_context& io_;
  const std::vector<std::string> hosts_;  // by rank
  const int rank_;
  std::optional<tcp::acceptor> acceptor_;
  asio::steady_timer accept_again_;
  std::string token_;
  json offer_;  // where rank 0 listens, and the token
  std::vector<std::shared_ptr<ControlLink>> links_;
};

}  // namespace

std::vector<std::shared_ptr<ControlLink>> connect_ranks(Communicator& world, asio::io_context& io,
                                                        const std::vector<std::string>& hosts) {
  return std::make_shared<RankConnector>(io, hosts, world.first_local())->connect_all(world);
}

}  // namespace causeway::communicator
