#include "causeway/model/weight_pieces.h"

#include "causeway/model/parameter_sharding.h"

namespace causeway::model {

int64_t weight_pieces(const Mesh& mesh) {
  const int64_t divides = mesh.ranks();
  const Sharding sharding = weight_sharding({{divides, LogicalDim::kFfn}, {divides, LogicalDim::kWidth}}, mesh);
  int64_t pieces = 1;
  for (const std::vector<std::string>& axes : sharding.dims)
    for (const std::string& axis : axes) pieces *= mesh.axes[mesh.axis(axis)].size;
  return pieces;
}

}  // namespace causeway::model
