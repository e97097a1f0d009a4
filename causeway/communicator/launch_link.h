// What `causeway launch` passes on to a run that goes on: the signals it is sent. Launchers of MPI end the ranks a few
// seconds after a signal, so none reaches them; a line of text takes its way to the first rank, by its standard input,
// which launchers carry there from their own, to whatever machine it is on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "causeway/namespaces.h"

namespace causeway::communicator {

// Set to kLinkIsStandardInput for the processes of such a run.
inline constexpr const char* kLaunchLinkVariable = "CAUSEWAY_LAUNCH_LINK";
inline constexpr std::string_view kLinkIsStandardInput = "stdin";

// The line that comes first: who reads it knows that the link is there.
std::string launch_link_greeting();
// SIGINT, SIGTERM, SIGHUP or SIGUSR1 as a line.
std::string launch_link_line(int signal);

// The rank's end.
class LaunchLink {
 public:
  // Calls `on_signal` for every signal that is passed on, on a thread of its own on which no signal is delivered; for
  // SIGTERM too where the other end has gone after its greeting: whoever started the run is no more. Lines that make no
  // sense are passed over. The descriptor stays the caller's.
  LaunchLink(int descriptor, std::function<void(int signal)> on_signal);
  LaunchLink(const LaunchLink&) = delete;
  LaunchLink& operator=(const LaunchLink&) = delete;
  // No call is going on when this returns.
  ~LaunchLink();

 private:
  void read_lines();

  const int descriptor_;
  const std::function<void(int)> on_signal_;
  int end_;  // becomes readable when this is to end
  std::thread thread_;
};

// Of this process, if it is the first rank of what `causeway launch` started; each signal is then as if this process
// had been sent it. Null otherwise.
std::unique_ptr<LaunchLink> open_launch_link();

}  // namespace causeway::communicator
