// What ranks say to each other on the control plane: a line of JSON each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "causeway/communicator/rank_progress.h"

namespace causeway::communicator {

struct RankFailure {
  std::string cause;
  bool is_consequence = false;  // of another rank's failure
  bool operator==(const RankFailure&) const = default;
};

// Any of these may be said, together or alone.
struct ControlMessage {
  std::optional<std::string> token = {};  // of the run: whoever knows it belongs to it
  std::optional<int> rank = {};           // who speaks
  std::optional<int> welcome = {};        // the rank that was heard
  std::optional<RankPosition> position = {};
  std::optional<RankFailure> failure = {};
  std::optional<int> stop = {};  // all ranks end; the rank of which nothing is heard, -1: none
  bool leaves = false;           // in good order
  bool record = false;           // write down the last collectives: the run ends
  bool operator==(const ControlMessage&) const = default;
};

// Without an end of line. What is no UTF-8 is replaced.
std::string print_control_message(const ControlMessage& message);

// Throws Error(kCorrupt). Ranks are not negative, and counts of a position are from 0 to 2^53. What it does not know it
// passes over.
ControlMessage parse_control_message(std::string_view line);

}  // namespace causeway::communicator
