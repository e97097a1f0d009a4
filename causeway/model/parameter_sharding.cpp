#include "causeway/model/parameter_sharding.h"

#include <algorithm>
#include <optional>

#include "causeway/model/mesh_axis.h"

namespace causeway::model {
namespace {

using enum MeshAxisId;

// The axis that cuts a weight along what a dimension counts, other than fsdp, cp and dp, which take any.
std::optional<MeshAxisId> axis_of(LogicalDim dim) {
  switch (dim) {
    case LogicalDim::kVocabulary:
    case LogicalDim::kLookup:
    case LogicalDim::kHeads:
    case LogicalDim::kKeyHeads:
    case LogicalDim::kFfn:
      return kTp;
    case LogicalDim::kWidth:
    case LogicalDim::kHeadsOfThree:
    case LogicalDim::kHead:
    case LogicalDim::kPositions:
    case LogicalDim::kRank:
    case LogicalDim::kExperts:
      return std::nullopt;
  }
  return std::nullopt;
}

// Adds an axis to those that cut a dimension, in the order of the mesh, where the size divides.
bool try_cut(std::vector<std::string>& axes, const Dim& size, const Mesh& mesh, MeshAxisId id) {
  const MeshAxis* added = find_axis(mesh, id);
  if (added == nullptr || !size.is_constant()) return false;
  int64_t pieces = added->size;
  for (const std::string& axis : axes) pieces *= mesh.axes[mesh.axis(axis)].size;
  if (size.constant() == 0 || size.constant() % pieces != 0) return false;
  const auto behind =
      std::ranges::find_if(axes, [&](const std::string& axis) { return mesh.axis(axis) > mesh.axis(added->name); });
  axes.insert(behind, added->name);
  return true;
}

}  // namespace

Sharding weight_sharding(const std::vector<ParameterDim>& dims, const Mesh& mesh) {
  Sharding sharding;
  sharding.dims.resize(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    if (axis_of(dims[d].logical) == kTp && try_cut(sharding.dims[d], dims[d].size, mesh, kTp)) break;
  if (dims.size() == 1) return sharding;
  // Rows that are found whole would have to be gathered, all of them; parts of every row are exchanged as they are
  // found.
  const auto cut_first = [&](MeshAxisId axis) {
    for (const bool of_lookup : {false, true})
      for (size_t d = 0; d < dims.size(); ++d)
        if ((dims[d].logical == LogicalDim::kLookup) == of_lookup &&
            try_cut(sharding.dims[d], dims[d].size, mesh, axis))
          return;
  };
  cut_first(kFsdp);
  cut_first(kCp);
  cut_first(kDp);
  return sharding;
}

double held_share(const Mesh& mesh) {
  const int64_t divides = mesh.ranks();
  const Sharding sharding = weight_sharding({{divides, LogicalDim::kFfn}, {divides, LogicalDim::kWidth}}, mesh);
  int64_t parts = 1;
  for (const std::vector<std::string>& axes : sharding.dims)
    for (const std::string& axis : axes) parts *= mesh.axes[mesh.axis(axis)].size;
  return 1 / static_cast<double>(parts);
}

Sharding batch_sharding(const Mesh& mesh) {
  Sharding sharding;
  sharding.dims.resize(2);
  for (const MeshAxisId axis : {kFsdp, kDp})
    if (find_axis(mesh, axis) != nullptr) sharding.dims[0].emplace_back(name_of(axis));
  if (find_axis(mesh, kCp) != nullptr) sharding.dims[1].emplace_back(name_of(kCp));
  return sharding;
}

Sharding token_sharding(const Shape& shape, const Mesh& mesh) {
  Sharding sharding;
  sharding.dims.resize(shape.size());
  for (const MeshAxisId axis : {kFsdp, kDp}) try_cut(sharding.dims[0], shape[0], mesh, axis);
  try_cut(sharding.dims[1], shape[1], mesh, kCp);
  return sharding;
}

Sharding stream_sharding(const Shape& shape, const Mesh& mesh) {
  Sharding sharding = token_sharding(shape, mesh);
  try_cut(sharding.dims[1], shape[1], mesh, kTp);
  return sharding;
}

}  // namespace causeway::model
