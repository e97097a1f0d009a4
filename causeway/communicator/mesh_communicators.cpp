#include "causeway/communicator/mesh_communicators.h"

#include <algorithm>
#include <numeric>
#include <optional>

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
  // Of a mesh of one axis all ranks are the one group.
  if (mesh_.stages() > 1)
    connect_stages();
  else if (std::count_if(mesh_.axes.begin(), mesh_.axes.end(), [](const MeshAxis& axis) { return axis.size > 1; }) == 1)
    world_->start_connecting();
}

// All ranks at once: afterwards those of different stages make groups without each other.
void MeshCommunicators::connect_stages() {
  const size_t axis = mesh_.axis(mesh_.stage_axis()->name);
  std::unique_ptr<Communicator>& column_of_stages = groups_[group_name(mesh_, {axis})];
  column_of_stages = make_group(*world_, {axis});
  column_of_stages->connect();
  stage_ = world_->split(static_cast<int>(mesh_.stage(rank())), rank());
  if (world_->has_streams()) return;
  const int64_t stages = mesh_.stages(), own = mesh_.stage(rank());
  const int column = static_cast<int>(mesh_.group(rank(), {axis}).front());
  const auto connect = [&](int64_t sender, int64_t receiver, int stream) {
    const std::optional<int> color = own == sender || own == receiver ? std::optional(column) : std::nullopt;
    auto ends = world_->split(color, own == sender ? 0 : 1);
    if (ends == nullptr) return;
    ends->connect();
    channels_[{sender, receiver, stream}] = std::move(ends);
  };
  for (int64_t stage = 0; stage < stages; ++stage) {
    connect(stage, (stage + 1) % stages, 0);
    connect((stage + 1) % stages, stage, 1);
  }
  connect(0, stages - 1, 2);
  connect(stages - 1, 0, 2);
}

MeshCommunicators::Channel MeshCommunicators::channel(int64_t other_stage, int stream, bool sends) {
  if (world_->has_streams()) return {group(mesh_.stage_axis()->name), static_cast<int>(other_stage)};
  const int64_t own = mesh_.stage(rank());
  const auto found =
      channels_.find(sends ? std::tuple(own, other_stage, stream) : std::tuple(other_stage, own, stream));
  CAUSEWAY_CHECK(found != channels_.end(), "no stream {} between stages {} and {}", stream, own, other_stage);
  return {*found->second, sends ? 1 : 0};
}

std::unique_ptr<Communicator> MeshCommunicators::make_group(Communicator& of, const std::vector<size_t>& axes) const {
  const std::vector<int64_t> members = mesh_.group(rank(), axes);
  const auto position = std::find(members.begin(), members.end(), rank()) - members.begin();
  const int64_t lowest = *std::min_element(members.begin(), members.end());
  return of.split(static_cast<int>(lowest), static_cast<int>(position));
}

Communicator& MeshCommunicators::group(std::string_view name) {
  std::vector<size_t> axes = group_axes(mesh_, name);
  std::erase_if(axes, [&](size_t axis) { return mesh_.axes[axis].size == 1; });
  std::unique_ptr<Communicator>& group = groups_[group_name(mesh_, axes)];
  if (group != nullptr) return *group;
  if (is_world(axes)) return connected(*world_);
  CAUSEWAY_CHECK(std::none_of(axes.begin(), axes.end(), [&](size_t axis) { return mesh_.axes[axis].stages; }),
                 "a group over '{}', of several stages", name);
  group = make_group(stage_ != nullptr ? *stage_ : *world_, axes);
  return connected(*group);
}

Communicator& MeshCommunicators::connected(Communicator& group) {
  group.connect();
  if (std::ranges::find(of_stage_, &group) != of_stage_.end()) return group;
  of_stage_.push_back(&group);
  if (shared_ != nullptr) group.share_memory(shared_, shared_bytes_);
  return group;
}

void MeshCommunicators::share_memory(std::byte* memory, size_t bytes) {
  shared_ = memory;
  shared_bytes_ = bytes;
  for (Communicator* group : of_stage_) group->share_memory(memory, bytes);
}

void MeshCommunicators::forget_memory() {
  shared_ = nullptr;
  for (Communicator* group : of_stage_) group->forget_memory();
}

// Whether they are all ranks in their order.
bool MeshCommunicators::is_world(const std::vector<size_t>& axes) const {
  std::vector<int64_t> all(static_cast<size_t>(world_->size()));
  std::iota(all.begin(), all.end(), 0);
  return mesh_.group(rank(), axes) == all;
}

}  // namespace causeway::communicator
