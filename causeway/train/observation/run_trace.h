// A trace of some steps of a run on all ranks, trace.json in the run directory: in the Trace Event format, which
// Perfetto (https://ui.perfetto.dev) and Chrome show.
//
// A process of the trace is a rank; its threads are what the rank's host does, phase by phase, and the queues of its
// device. An event of a queue is an instruction of a program: a kernel, a copy, or collectives with their group, the
// ranks of it, bytes, and a number that counts the collectives of that group from the first traced step on, the same on
// all ranks of the group; or an end of a message between stages, numbered likewise among those of its stream between
// the two ranks. Times are those of rank 0's clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/graph/sharding.h"
#include "causeway/train/ranks.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

class RunTrace {
 public:
  // Of `count` steps from `first` on, counted from 1; 0: of none. `ranks` outlives it.
  RunTrace(const Ranks& ranks, Mesh mesh, std::string device, std::filesystem::path run_directory, int64_t first,
           int64_t count);

  bool is_of(int64_t step) const { return first_ > 0 && step >= first_ && step - first_ < count_; }
  // The rank's host begins a phase of a step, and ends the one before.
  void enter(int64_t step, std::string_view phase);
  // What the step's programs did.
  void add(int64_t step, const std::vector<TracedRun>& runs);
  // Whether there is something to write, and no more to come when the run ends or goes on after `step`.
  bool is_due(int64_t step, bool goes_on) const;
  // Called by all ranks: each writes its own events beside the trace, and the first one puts them together. Returns the
  // file; throws Error, on all ranks, where that fails. What has been written is forgotten.
  std::filesystem::path write();

 private:
  struct Event {
    int thread = 0;
    double start = 0, end = 0;  // seconds of this host's steady clock
    std::string name;
    std::string category;
    std::string arguments;  // the text of a JSON object
  };
  void close_phase(double now);
  std::string text(double ahead, double origin) const;
  std::filesystem::path part(int rank) const;

  const Ranks& ranks_;
  Mesh mesh_;
  std::string device_;
  std::filesystem::path run_directory_;
  int64_t first_ = 0, count_ = 0;
  std::vector<Event> events_;
  std::map<std::string, int64_t> numbers_;  // of the last collective or message, by group or ranks
  struct Phase {
    int64_t step = 0;
    std::string name;
    double start = 0;
  } phase_;
};

}  // namespace causeway::train
