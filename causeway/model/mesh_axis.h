// The axes that a mesh of ranks may have in training (docs/distributed.md says what each cuts). A graph knows them by
// name alone.
#pragma once

#include "causeway/base/named_values.h"
#include "causeway/graph/sharding.h"
#include "causeway/namespaces.h"

namespace causeway::model {

enum class MeshAxisId { kDp, kFsdp, kCp, kTp, kPp };
constexpr auto named_values(MeshAxisId) {
  return std::to_array<NamedValue<MeshAxisId>>({{MeshAxisId::kDp, "dp"},
                                                {MeshAxisId::kFsdp, "fsdp"},
                                                {MeshAxisId::kCp, "cp"},
                                                {MeshAxisId::kTp, "tp"},
                                                {MeshAxisId::kPp, "pp"}});
}

// Nothing where the mesh lacks it, as it does axes of one rank.
const MeshAxis* find_axis(const Mesh& mesh, MeshAxisId axis);

}  // namespace causeway::model
