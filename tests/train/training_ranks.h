// Training on ranks that are threads of the test, each with a context of its own, on the processor where nothing else
// is said.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/thread_ranks.h"
#include "causeway/device/open_device.h"
#include "causeway/graph/interpreter.h"
#include "causeway/program/context.h"
#include "causeway/tensor/tensor.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// Calls `body` on every rank of the recipe's mesh, in the rank's context; on one without a mesh, in one without.
inline void on_ranks(const Recipe::MeshSizes& sizes, const std::function<void()>& body,
                     const std::string& specification = "cpu") {
  const Mesh mesh = make_mesh(sizes);
  if (mesh.empty()) {
    const ContextScope scope(Context::open(specification));
    return body();
  }
  std::vector<std::shared_ptr<Device>> devices;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) devices.push_back(open_device(specification));
  run_thread_ranks(devices, [&](std::shared_ptr<Communicator> world) {
    ContextOptions options;
    options.mesh = mesh;
    options.rank = world->first_local();
    const std::shared_ptr<Device> device = devices[static_cast<size_t>(options.rank)];
    options.communicators = std::make_shared<MeshCommunicators>(std::move(world), mesh);
    const ContextScope scope(std::make_shared<Context>(device, options));
    body();
  });
}

// What a rank holds of an f32 tensor.
inline HostTensor own_part(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(float));
  tensor.read_bytes(std::as_writable_bytes(std::span(values)));
  return make_host_tensor(DType::kF32, tensor.local_shape(), {values.begin(), values.end()});
}

}  // namespace causeway::train
