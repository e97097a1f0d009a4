#include "causeway/tensor/stage_ops.h"

#include "causeway/graph/op.h"
#include "causeway/program/context.h"
#include "causeway/tensor/operand.h"
#include "causeway/tensor/sharding_ops.h"

namespace causeway::tensor {
namespace {

Attributes message_attributes(std::string_view function, int64_t stage, int stream, const Sharding& sharding,
                              const std::string& name) {
  const Mesh& mesh = Context::current()->mesh();
  const int64_t own = mesh.stage(Context::current()->rank());
  require_argument(stage >= 0 && stage < mesh.stages() && stage != own, function,
                   fmt::format("stage {} of {} exchanges nothing with stage {}", own, mesh.stages(), stage));
  Attributes attributes;
  attributes.group = mesh.stage_axis()->name;
  attributes.count = mesh.stages();
  attributes.peer = stage;
  attributes.stream = stream;
  attributes.sharding = sharding;
  attributes.name = name;
  return attributes;
}

}  // namespace

void send_to_stage(const Tensor& x, int64_t stage, int stream, const Sharding& sharding, const std::string& name) {
  apply(Op::kSend, {x}, message_attributes("send_to_stage", stage, stream, sharding, name));
}

Tensor receive_from_stage(const TensorType& type, int64_t stage, int stream, const Sharding& sharding,
                          const std::string& name) {
  Attributes attributes = message_attributes("receive_from_stage", stage, stream, sharding, name);
  attributes.dtype = type.dtype;
  attributes.shape = type.shape;
  return apply(Op::kReceive, {}, std::move(attributes));
}

Tensor sum_over_stages(const Tensor& x) {
  const Mesh& mesh = Context::current()->mesh();
  if (mesh.stages() == 1) return x;
  Attributes attributes;
  attributes.group = mesh.stage_axis()->name;
  attributes.count = mesh.stages();
  // Stages that lay x differently would exchange different numbers of elements.
  return apply(Op::kAllReduce, {constrain_sharding(x, {})}, std::move(attributes));
}

}  // namespace causeway::tensor
