// Who watches whether all ranks of a run are alive: connections over TCP beside the collectives, which wait for ever
// for a rank that is gone.
//
// Rank 0 listens; the others connect, by an address that the ranks exchange through their world. From then on a thread
// of each says every second where its rank is (RankProgress), and rank 0 decides that one has failed when
//   - it says so itself (fail()),
//   - its connection ends without a farewell: it was killed, or crashed,
//   - nothing was heard of it for five seconds: it is stopped, or its machine or the network is down,
//   - all ranks are within a step and none of them gets on: a deadlock.
// Then one message names the rank, its host, step, phase and the cause, once, and every process of the run ends,
// whatever it was doing: a thread that waits in a collective cannot be woken. When rank 0 is gone itself, rank 1
// speaks. No rank judges after a pause of its own (Ctrl-Z, a machine that slept) before it has heard of the others
// again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "causeway/communicator/communicator.h"
#include "causeway/communicator/rank_progress.h"

namespace causeway::communicator {

struct ControlPlaneOptions {
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds silence{5000};  // how long nothing may be heard of a rank
  // How long no rank may get on while all are within a step, but for at least 20 times as long as the longest step
  // took.
  std::chrono::milliseconds standstill{8000};
  // Appended to the message: what to do next.
  std::string advice;
  // What happens when a rank has failed, on a thread of the control plane: every rank that still can records what it
  // was at (once, and soon: launchers may end it) and returns a sentence about that; one rank says what happened, with
  // its own sentence; and every rank stops. By default nothing is recorded, the message is printed as an error, and the
  // process ends with status 1 without cleaning up: files are as a kill would leave them.
  std::function<std::string()> record = {};
  std::function<void(const std::string& message)> say = {};
  std::function<void()> stop = {};
};

class ControlPlane {
 public:
  // Called by all ranks of `world`, each of which drives one of several; it and `progress` outlive this. Throws
  // Error(kIo) in all of them where they cannot connect within half a minute.
  ControlPlane(Communicator& world, RankProgress& progress, ControlPlaneOptions options = {});
  // All ranks end in good order: what they do after that is watched no more. Waits for them, some seconds at most.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // This rank cannot go on, for a reason that the others do not know of. Returns only when `stop` does. A consequence
  // is what another rank's failure brings about, as CollectiveError is: it is named only where nothing better is heard.
  void fail(const std::string& cause, bool is_consequence);

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace causeway::communicator
