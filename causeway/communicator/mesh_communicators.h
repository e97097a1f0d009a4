// One rank's end of every group of a mesh.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "causeway/communicator/communicator.h"
#include "causeway/communicator/rank_progress.h"
#include "causeway/graph/sharding.h"

namespace causeway::communicator {

class MeshCommunicators {
 public:
  // `world` is of all ranks of the mesh in their order, and drives one of them. Throws Error(kInvalidArgument) where
  // their numbers differ.
  MeshCommunicators(std::shared_ptr<Communicator> world, Mesh mesh);

  Communicator& world() const { return *world_; }
  const Mesh& mesh() const { return mesh_; }
  int rank() const { return world_->first_local(); }
  // Of this rank; may be read by other threads.
  RankProgress& progress() { return progress_; }

  // Of this rank and those that differ from it along the axes that `name` says (group_name()), in the order of
  // Mesh::group(). It is made when it is first asked for, which every rank of the mesh does in the same order; axes of
  // one rank make no difference. Lives as long as this.
  Communicator& group(std::string_view name);
  // As Communicator::abandon() of the world and all groups.
  void abandon(std::string_view reason) { world_->abandon(reason); }

 private:
  std::shared_ptr<Communicator> world_;
  Mesh mesh_;
  RankProgress progress_;
  std::map<std::string, std::unique_ptr<Communicator>> groups_;  // by the axes of several ranks
};

}  // namespace causeway::communicator
