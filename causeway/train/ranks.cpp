#include "causeway/train/ranks.h"

#include <algorithm>
#include <sstream>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/program/context.h"

namespace causeway::train {
namespace {

constexpr size_t kMostNamed = 8;

// "rank 1 has", "ranks 1 and 3 have", "ranks 1, 2, 3 and 61 more have".
std::string who_has(const std::vector<size_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {} has", ranks.front());
  const size_t named = ranks.size() <= kMostNamed ? ranks.size() - 1 : kMostNamed;
  const std::vector<size_t> first(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(named));
  const std::string last =
      named + 1 == ranks.size() ? fmt::to_string(ranks.back()) : fmt::format("{} more", ranks.size() - named);
  return fmt::format("ranks {} and {} have", fmt::join(first, ", "), last);
}

// The first line of two ranks' texts that differs, as "A on rank 0, B on rank 2"; empty where a text ends first.
std::string first_difference(const std::string& text, size_t rank, const std::string& other, size_t other_rank) {
  std::istringstream lines(text), other_lines(other);
  const auto trimmed = [](std::string line) {
    line.erase(0, line.find_first_not_of(' '));
    return line;
  };
  for (std::string line, other_line; std::getline(lines, line) && std::getline(other_lines, other_line);)
    if (line != other_line)
      return fmt::format(": {} on rank {}, {} on rank {}", trimmed(line), rank, trimmed(other_line), other_rank);
  return "";
}

}  // namespace

Ranks::Ranks(const Context& context) {
  if (context.mesh().empty()) return;
  if (context.communicators() == nullptr)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("a mesh of {} ranks, which have no communicators", context.mesh().ranks()), "mesh",
                "Give the context of each rank its end of them (ContextOptions::communicators).");
  communicators_ = context.communicators();
  count_ = static_cast<int>(context.mesh().ranks());
  rank_ = context.rank();
}

void Ranks::together(const std::function<void()>& work) const {
  if (communicators_ == nullptr) return work();
  try {
    communicators_->world().together(work);
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error& error) {
    throw ErrorOfAllRanks(error);
  }
}

void Ranks::on_first(const std::function<void()>& work) const {
  together([&] {
    if (is_first()) work();
  });
}

std::string Ranks::of_first(const std::string& bytes) const {
  return communicators_ == nullptr ? bytes : communicators_->world().of_first(bytes);
}

std::vector<std::string> Ranks::gather(const std::string& bytes) const {
  if (communicators_ == nullptr) return {bytes};
  communicators_->progress().begin_collective("exchange of bytes", "all ranks", static_cast<int64_t>(bytes.size()));
  std::vector<std::string> all = communicators_->world().gather(bytes);
  communicators_->progress().end_collectives();
  return all;
}

std::vector<int64_t> Ranks::gather_numbers(int64_t number) const {
  std::vector<int64_t> numbers;
  for (const std::string& text : gather(std::to_string(number))) numbers.push_back(std::stoll(text));
  return numbers;
}

double Ranks::sum(double number) const {
  double sum = 0;
  for (const std::string& text : gather(fmt::format("{}", number))) sum += std::stod(text);
  return sum;
}

std::vector<ClockOffset> Ranks::align_clocks() const {
  if (communicators_ == nullptr) return {ClockOffset{}};
  communicators_->progress().begin_collective("alignment of clocks", "all ranks");
  std::vector<ClockOffset> offsets = communicator::align_clocks(communicators_->world());
  communicators_->progress().end_collectives();
  return offsets;
}

bool Ranks::all_of(bool here) const {
  return std::ranges::all_of(gather(here ? "1" : "0"), [](const std::string& rank) { return rank == "1"; });
}

void Ranks::enter(int64_t step, std::string_view phase) const {
  if (communicators_ != nullptr) communicators_->progress().enter(step, phase);
}

void Ranks::require_equal(const std::string& text, const std::string& what, const std::string& hint) const {
  require_equal_to(text, what, hint, [](size_t) { return size_t{0}; });
}

void Ranks::require_equal_in_stage(const std::string& text, const std::string& what, const std::string& hint) const {
  // Ranks of a stage are neighbours: the stage axis is the outermost.
  const Mesh mesh = communicators_ == nullptr ? Mesh() : communicators_->mesh();
  const auto ranks_of_stage = static_cast<size_t>(count_ / mesh.stages());
  require_equal_to(text, what, hint, [&](size_t rank) { return rank / ranks_of_stage * ranks_of_stage; });
}

// Each rank's text is compared with that of the rank that `model` names for it; those that differ from the first such
// one are named.
void Ranks::require_equal_to(const std::string& text, const std::string& what, const std::string& hint,
                             const std::function<size_t(size_t)>& model) const {
  const std::vector<std::string> hashes = gather(hash_text(text).hex());
  std::vector<size_t> others;
  size_t reference = 0;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[model(rank)] || (!others.empty() && model(rank) != reference)) continue;
    others.push_back(rank);
    reference = model(rank);
  }
  if (others.empty()) return;
  const std::vector<std::string> texts = gather(text);
  throw ErrorOfAllRanks(
      Error(ErrorKind::kInvalidArgument,
            fmt::format("{} {} than rank {}{}", who_has(others), what, reference,
                        first_difference(texts[reference], reference, texts[others.front()], others.front())),
            "ranks", hint));
}

void Ranks::abandon(const std::string& reason) const {
  if (communicators_ != nullptr) communicators_->abandon(reason);
}

}  // namespace causeway::train
