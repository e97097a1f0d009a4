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

// The first line of two texts that differs, as "A on rank 0 and B on rank R"; empty where a text ends first.
std::string first_difference(const std::string& text, const std::string& other, size_t rank) {
  std::istringstream lines(text), other_lines(other);
  const auto trimmed = [](std::string line) {
    line.erase(0, line.find_first_not_of(" "));
    return line;
  };
  for (std::string line, other_line; std::getline(lines, line) && std::getline(other_lines, other_line);)
    if (line != other_line)
      return fmt::format(": {} on rank 0, {} on rank {}", trimmed(line), trimmed(other_line), rank);
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
  communicators_->progress().begin_collective("exchange of bytes", "all ranks");
  return communicators_->world().gather(bytes);
}

bool Ranks::all_of(bool here) const {
  return std::ranges::all_of(gather(here ? "1" : "0"), [](const std::string& rank) { return rank == "1"; });
}

void Ranks::enter(int64_t step, std::string_view phase) const {
  if (communicators_ != nullptr) communicators_->progress().enter(step, phase);
}

void Ranks::require_equal(const std::string& text, const std::string& what, const std::string& hint) const {
  const std::vector<std::string> hashes = gather(hash_text(text).hex());
  std::vector<size_t> others;
  for (size_t rank = 0; rank < hashes.size(); ++rank)
    if (hashes[rank] != hashes.front()) others.push_back(rank);
  if (others.empty()) return;
  const std::vector<std::string> texts = gather(text);
  throw ErrorOfAllRanks(Error(ErrorKind::kInvalidArgument,
                              fmt::format("{} {} than rank 0{}", who_has(others), what,
                                          first_difference(texts.front(), texts[others.front()], others.front())),
                              "ranks", hint));
}

void Ranks::abandon(const std::string& reason) const {
  if (communicators_ != nullptr) communicators_->abandon(reason);
}

}  // namespace causeway::train
