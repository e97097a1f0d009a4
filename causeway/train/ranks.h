// What the ranks of a run decide together. A run without a mesh is one rank, which agrees with itself.
//
// Every rank makes the same calls in the same order. A rank that throws on its own, between them, leaves others waiting
// for it: what may fail on one rank alone happens within together().
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/communicator/clock_alignment.h"
#include "causeway/namespaces.h"

namespace causeway::program {
class Context;
}
namespace causeway::communicator {
class MeshCommunicators;
}

namespace causeway::train {

// An error that every rank throws.
struct ErrorOfAllRanks : Error {
  explicit ErrorOfAllRanks(const Error& error) : Error(error) {}
};

// What ends a rank where the first one says why.
struct SaidElsewhere : std::exception {
  const char* what() const noexcept override { return "another rank says why the run ended"; }
};

class Ranks {
 public:
  // Those of the context's mesh. Throws Error(kInvalidArgument) where it has several ranks and no communicators.
  explicit Ranks(const Context& context);

  int count() const { return count_; }
  int rank() const { return rank_; }
  // The one that speaks, logs and owns the run directory.
  bool is_first() const { return rank_ == 0; }

  // Says where this rank is, to those that watch it: the step at work, and the phase.
  void enter(int64_t step, std::string_view phase) const;

  // Does the work, and throws ErrorOfAllRanks on every rank when Error came out of it on one: that of the lowest rank.
  // With one rank what comes out of it is thrown, and CollectiveError as it is.
  void together(const std::function<void()>& work) const;
  // The same of work that is the first rank's alone.
  void on_first(const std::function<void()>& work) const;
  // What the first rank gives.
  std::string of_first(const std::string& bytes) const;
  // What each rank gives, in their order.
  std::vector<std::string> gather(const std::string& bytes) const;
  std::vector<int64_t> gather_numbers(int64_t number) const;
  double sum(double number) const;  // in the order of the ranks
  bool all_of(bool here) const;
  // By how much each rank's steady clock is ahead of the first one's.
  std::vector<ClockOffset> align_clocks() const;
  // Throws ErrorOfAllRanks(kInvalidArgument) that names the ranks where `text` is not what it is on the first one, and
  // the first line that differs. `what`: "another recipe" is what those ranks have then.
  void require_equal(const std::string& text, const std::string& what, const std::string& hint) const;
  // The same among the ranks of one stage, where a pipeline has several.
  void require_equal_in_stage(const std::string& text, const std::string& what, const std::string& hint) const;
  // This rank takes no more part: others get an Error with the reason where they wait for it.
  void abandon(const std::string& reason) const;

 private:
  void require_equal_to(const std::string& text, const std::string& what, const std::string& hint,
                        const std::function<size_t(size_t)>& model) const;

  std::shared_ptr<MeshCommunicators> communicators_;  // null for one rank
  int count_ = 1;
  int rank_ = 0;
};

}  // namespace causeway::train
