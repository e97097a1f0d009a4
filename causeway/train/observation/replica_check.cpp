#include "causeway/train/observation/replica_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "causeway/base/content_hasher.h"
#include "causeway/base/error.h"
#include "causeway/program/context.h"

namespace causeway::train {
namespace {

struct Replica {
  std::string name;
  Tensor tensor;
  Hash128 hash = {};
};

Hash128 hash_of(const Tensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.local_bytes());
  std::vector<std::byte> piece(std::min<size_t>(bytes, size_t{1} << 24));
  ContentHasher hasher;
  for (size_t offset = 0; offset < bytes; offset += piece.size()) {
    const size_t count = std::min(piece.size(), bytes - offset);
    tensor.read_bytes_from(offset, std::span(piece).first(count));
    hasher.add(std::span(piece).first(count));
  }
  return hasher.hash();
}

// Where this rank is along the axes that cut the tensor, "fsdp 1, tp 0": ranks for which it is the same hold the same
// part. Nothing where every axis cuts it.
std::optional<std::string> part_of(const Tensor& tensor) {
  const Context& context = *tensor.context();
  const Mesh& mesh = context.mesh();
  std::string part;
  bool is_held_twice = false;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::string& name = mesh.axes[axis].name;
    // Stages of a pipeline hold other layers each.
    const bool cuts = mesh.axes[axis].stages ||
                      std::ranges::any_of(tensor.sharding().dims, [&](const std::vector<std::string>& axes) {
                        return std::ranges::find(axes, name) != axes.end();
                      });
    if (cuts) part += fmt::format("{}{} {}", part.empty() ? "" : ", ", name, mesh.coordinate(context.rank(), axis));
    is_held_twice = is_held_twice || !cuts;
  }
  if (!is_held_twice) return std::nullopt;
  return part.empty() ? "whole" : part;
}

// By the ranks' hashes of one thing: who has which.
using Holders = std::map<std::string, std::vector<size_t>>;

// What each rank says of each key; only keys of which ranks say different things.
std::map<std::string, Holders> differences(const Ranks& ranks, const nlohmann::json& own) {
  std::map<std::string, Holders> all;
  const std::vector<std::string> texts = ranks.gather(own.dump());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const nlohmann::json said = nlohmann::json::parse(texts[rank]);  // items() refers to it
    for (const auto& [key, hash] : said.items()) all[key][hash.get<std::string>()].push_back(rank);
  }
  std::erase_if(all, [](const auto& entry) { return entry.second.size() == 1; });
  return all;
}

std::string ranks_text(const std::vector<size_t>& ranks) {
  constexpr size_t kMostNamed = 8;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() > kMostNamed)
    return fmt::format("ranks {} and {} more", fmt::join(ranks.begin(), ranks.begin() + kMostNamed, ", "),
                       ranks.size() - kMostNamed);
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back());
}

// "weight differs on rank 2 from what ranks 0, 1 and 3 have": those who are the most are on the right.
std::string difference_text(const std::string& name, const Holders& holders) {
  std::vector<std::vector<size_t>> groups;
  for (const auto& [hash, group] : holders) groups.push_back(group);
  std::ranges::sort(groups, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  std::vector<size_t> others;
  for (size_t i = 1; i < groups.size(); ++i) others.insert(others.end(), groups[i].begin(), groups[i].end());
  std::ranges::sort(others);
  return fmt::format("{} on {} differs from that on {}", name, ranks_text(others), ranks_text(groups.front()));
}

}  // namespace

void compare_replicas(const Ranks& ranks, const LanguageModel& model, const TrainingStep& training, int64_t step) {
  if (ranks.count() == 1) return;
  std::map<std::string, std::vector<Replica>> by_part;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    if (const std::optional<std::string> part = part_of(tensor)) by_part[*part].push_back({name, tensor});
  };
  for (const Parameter& parameter : model.parameters()) add(parameter.name, parameter.tensor);
  for (const TrainingStep::StateTensor& state : training.optimizer_state()) add(state.name, state.tensor);

  // Ranks that hold other tensors in the same place have nothing to compare: the key has their names.
  nlohmann::json together = nlohmann::json::object(), single = nlohmann::json::object();
  for (auto& [part, replicas] : by_part) {
    std::string names, hashes;
    for (Replica& replica : replicas) {
      replica.hash = hash_of(replica.tensor);
      names += replica.name + "\n";
      hashes += replica.hash.hex();
      single[fmt::format("{} ({})", replica.name, part)] = replica.hash.hex();
    }
    together[part + " " + hash_text(names).hex()] = hash_text(hashes).hex();
  }
  if (differences(ranks, together).empty()) return;
  const std::map<std::string, Holders> found = differences(ranks, single);
  CAUSEWAY_CHECK(!found.empty(), "hashes of tensors are equal, and those of all of them are not");
  std::string what = fmt::format("after step {} ranks that hold the same tensors do not hold the same values: {}", step,
                                 difference_text(found.begin()->first, found.begin()->second));
  if (found.size() > 1) what += fmt::format("; others that differ: {}", found.size() - 1);
  throw ReplicasDiffer(Error(
      ErrorKind::kCorrupt, what, "train.check_replicas",
      "Memory, a link or a computation has changed bits on one of them, and it is not known how long ago. Nothing was "
      "saved since the last checkpoint: look at the machines of these ranks, and go on with --resume auto."));
}

}  // namespace causeway::train
