// Runs the program of one graph on every rank of a mesh: a thread, a device and working memory for each.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/thread_ranks.h"
#include "causeway/device/open_device.h"
#include "tests/program/program_runner.h"

namespace causeway::program {

inline std::vector<std::shared_ptr<Device>> devices_of_ranks(const std::string& specification, int64_t ranks) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int64_t rank = 0; rank < ranks; ++rank) devices.push_back(open_device(specification));
  return devices;
}

// Calls work(rank, the rank's program, its runner) on every rank at once.
inline void run_programs(const Graph& graph, const Mesh& mesh, const std::string& device,
                         const LoweringOptions& lowering,
                         const std::function<void(size_t rank, Program& program, ProgramRunner& runner)>& work) {
  const std::vector<std::shared_ptr<Device>> devices = devices_of_ranks(device, mesh.ranks());
  run_thread_ranks(devices, [&](const std::shared_ptr<Communicator>& world) {
    MeshCommunicators communicators(world, mesh);
    const auto rank = static_cast<size_t>(communicators.rank());
    ProgramRunner runner(devices[rank]);
    Program program(graph, runner.device(), runner.library(), runner.arena(), lowering, &communicators);
    work(rank, program, runner);
  });
}

// What a step leaves in the inputs that it assigns to is what the next one starts from. `results` are as
// ProgramRunner::run() gives them.
inline void carry_over(const Graph& graph, const std::vector<HostTensor>& results, std::vector<HostTensor>& inputs) {
  for (size_t a = 0; a < graph.assignments.size(); ++a) {
    const auto input = std::find(graph.inputs().begin(), graph.inputs().end(), graph.assignments[a].target);
    inputs[static_cast<size_t>(input - graph.inputs().begin())] = results[graph.outputs.size() + a];
  }
}

}  // namespace causeway::program
