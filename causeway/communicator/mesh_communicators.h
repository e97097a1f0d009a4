// One rank's end of every group of a mesh.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

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

  // For the groups of a stage, those made so far and those to come (Communicator::share_memory()). Called by its ranks.
  void share_memory(std::byte* memory, size_t bytes);
  void forget_memory();

  // Of this rank and those that differ from it along the axes that `name` says (group_name()), in the order of
  // Mesh::group(). It is made when it is first asked for, which every rank of the mesh does in the same order; axes of
  // one rank make no difference. Lives as long as this. Where the mesh has stages, the ranks of one stage do so: a
  // group is of one stage, or of ranks that differ in their stages alone.
  Communicator& group(std::string_view name);
  // One direction of one stream between this rank's stage and another one, whose ranks have the same coordinates along
  // the other axes: what sends and receives there, and who the other is in it. Streams, by kMessageStreams: 0 goes from
  // each stage to the next one (from the last one to the first), 1 the other way, 2 between the first and the last one.
  struct Channel {
    Communicator& communicator;
    int peer = 0;
  };
  Channel channel(int64_t other_stage, int stream, bool sends);
  // Who does the work of the groups, as Communicator::name() of the first one that was asked for.
  std::string name() const { return (of_stage_.empty() ? *world_ : *of_stage_.front()).name(); }
  // As Communicator::abandon() of the world and all groups.
  void abandon(std::string_view reason) { world_->abandon(reason); }

 private:
  void connect_stages();
  bool is_world(const std::vector<size_t>& axes) const;
  Communicator& connected(Communicator& group);
  std::unique_ptr<Communicator> make_group(Communicator& of, const std::vector<size_t>& axes) const;

  std::shared_ptr<Communicator> world_;
  Mesh mesh_;
  std::unique_ptr<Communicator> stage_;  // the ranks of this one's stage, where there are several stages
  // By sender, receiver and stream, where groups do not tell streams apart.
  std::map<std::tuple<int64_t, int64_t, int>, std::unique_ptr<Communicator>> channels_;
  RankProgress progress_;
  std::map<std::string, std::unique_ptr<Communicator>> groups_;  // by the axes of several ranks
  // Of one stage, in the order in which they were first asked for, which is that of all its ranks.
  std::vector<Communicator*> of_stage_;
  std::byte* shared_ = nullptr;
  size_t shared_bytes_ = 0;
};

}  // namespace causeway::communicator
