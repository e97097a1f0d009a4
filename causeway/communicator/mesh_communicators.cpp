#include "causeway/communicator/mesh_communicators.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::communicator {

MeshCommunicators::MeshCommunicators(std::shared_ptr<Communicator> world, Mesh mesh)
    : world_(std::move(world)), mesh_(std::move(mesh)) {
  CAUSEWAY_CHECK(world_->local_size() == 1, "an end of {} ranks", world_->local_size());
  if (mesh_.ranks() != world_->size())
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("the mesh {} is of {} ranks, and {} take part", mesh_.text(), mesh_.ranks(), world_->size()),
        "mesh", fmt::format("Start {} processes, or give axes whose product is {}.", mesh_.ranks(), world_->size()));
}

Communicator& MeshCommunicators::group(std::string_view name) {
  std::vector<size_t> axes = group_axes(mesh_, name);
  std::erase_if(axes, [&](size_t axis) { return mesh_.axes[axis].size == 1; });
  std::unique_ptr<Communicator>& group = groups_[group_name(mesh_, axes)];
  if (group != nullptr) return *group;
  const std::vector<int64_t> members = mesh_.group(rank(), axes);
  const auto position = std::find(members.begin(), members.end(), rank()) - members.begin();
  const int64_t lowest = *std::min_element(members.begin(), members.end());
  group = world_->split(static_cast<int>(lowest), static_cast<int>(position));
  return *group;
}

}  // namespace causeway::communicator
