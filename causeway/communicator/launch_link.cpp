#include "causeway/communicator/launch_link.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/communicator/mpi_launch.h"

namespace causeway::communicator {
namespace {

constexpr std::string_view kGreeting = "causeway launch";
constexpr size_t kLongestRequest = 64;

struct NamedSignal {
  int number;
  std::string_view name;
};
constexpr NamedSignal kPassedOn[] = {
    {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}, {SIGUSR1, "SIGUSR1"}};

std::optional<int> signal_of(std::string_view name) {
  for (const NamedSignal& one : kPassedOn)
    if (one.name == name) return one.number;
  return {};
}

}  // namespace

std::string launch_link_greeting() { return std::string(kGreeting) + "\n"; }

std::string launch_link_line(int signal) {
  for (const NamedSignal& one : kPassedOn)
    if (one.number == signal) return std::string(one.name) + "\n";
  throw_check_failure("a signal that is passed on", __FILE__, __LINE__, std::to_string(signal));
}

LaunchLink::LaunchLink(int descriptor, std::function<void(int)> on_signal)
    : descriptor_(descriptor), on_signal_(std::move(on_signal)), end_(::eventfd(0, EFD_CLOEXEC)) {
  CAUSEWAY_CHECK(end_ >= 0, "errno {}", errno);
  thread_ = std::thread([this] { read_lines(); });
}

LaunchLink::~LaunchLink() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(end_, &one, sizeof one);
  thread_.join();
  ::close(end_);
}

void LaunchLink::read_lines() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  bool is_greeted = false;
  std::string line;
  std::array<char, 256> piece;
  while (true) {
    std::array<pollfd, 2> both = {pollfd{descriptor_, POLLIN, 0}, pollfd{end_, POLLIN, 0}};
    if (::poll(both.data(), both.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (both[1].revents != 0) return;
    const ssize_t count = ::read(descriptor_, piece.data(), piece.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) {
      // A launcher that carries no standard input gives an empty one.
      if (is_greeted) on_signal_(SIGTERM);
      return;
    }
    for (const char c : std::string_view(piece.data(), static_cast<size_t>(count))) {
      if (c != '\n') {
        if (line.size() < kLongestRequest) line += c;
        continue;
      }
      if (line == kGreeting) is_greeted = true;
      if (const std::optional<int> signal = signal_of(line); signal && is_greeted) on_signal_(*signal);
      line.clear();
    }
  }
}

std::unique_ptr<LaunchLink> open_launch_link() {
  const char* link = std::getenv(kLaunchLinkVariable);
  if (link == nullptr || link != kLinkIsStandardInput) return nullptr;
  if (const std::optional<MpiLaunch> launch = find_mpi_launch(); !launch || launch->rank != 0) return nullptr;
  return std::make_unique<LaunchLink>(STDIN_FILENO, [](int signal) { ::kill(::getpid(), signal); });
}

}  // namespace causeway::communicator
