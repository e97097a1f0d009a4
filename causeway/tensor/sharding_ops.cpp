#include "causeway/tensor/sharding_ops.h"

#include "causeway/graph/op.h"
#include "causeway/program/context.h"
#include "causeway/tensor/operand.h"

namespace causeway::tensor {

Tensor constrain_sharding(const Tensor& x, const Sharding& sharding) {
  const Mesh& mesh = Context::current()->mesh();
  if (mesh.empty()) return x;
  require_argument(sharding.partial.empty(), "constrain_sharding", "takes no sums that are partial", {x});
  check_sharding(sharding, x.shape(), mesh, "constrain_sharding: a tensor");
  Attributes attributes;
  attributes.sharding = sharding;
  return apply(Op::kConstrainSharding, {x}, std::move(attributes));
}

}  // namespace causeway::tensor
