#include "causeway/model/mesh_axis.h"

#include <algorithm>

namespace causeway::model {

const MeshAxis* find_axis(const Mesh& mesh, MeshAxisId axis) {
  const auto found = std::ranges::find(mesh.axes, name_of(axis), &MeshAxis::name);
  return found == mesh.axes.end() ? nullptr : &*found;
}

}  // namespace causeway::model
