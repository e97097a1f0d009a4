#include "causeway/train/ranks.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/program/context.h"

namespace causeway::train {

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
  return communicators_->world().gather(bytes);
}

bool Ranks::all_of(bool here) const {
  return std::ranges::all_of(gather(here ? "1" : "0"), [](const std::string& rank) { return rank == "1"; });
}

void Ranks::abandon(const std::string& reason) const {
  if (communicators_ != nullptr) communicators_->abandon(reason);
}

}  // namespace causeway::train
