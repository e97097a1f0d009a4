// One rank of a launch: what collectives_test.cpp starts under mpirun. Runs a program with every collective between the
// processes, compares with the reference interpreter and tells what it found.
#include <fmt/format.h>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/mpi_communicator.h"
#include "causeway/device/open_device.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "tests/comparison/bounds.h"
#include "tests/program/collective_graphs.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

void run(const std::string& specification) {
  const std::shared_ptr<Device> device = open_device(specification);
  const std::shared_ptr<Communicator> world = open_mpi(device);
  MeshCommunicators communicators(world, one_axis(world->size()));
  const auto rank = static_cast<size_t>(world->first_local());
  const Graph graph = parse_graph(every_collective(world->size()));
  const std::vector<std::vector<HostTensor>> inputs = random_inputs(graph, world->size());
  const std::vector<HostTensor> expected =
      interpret_ranks(graph, communicators.mesh(), inputs, Rounding::kRounded)[rank];
  ProgramRunner runner(device);
  Program program(graph, runner.device(), runner.library(), runner.arena(), default_lowering(device->target()),
                  &communicators);
  const std::vector<HostTensor> results = runner.run(program, inputs[rank]);
  std::string bits, wrong;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<std::byte> bytes = to_bytes(results[i]);
    bits.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const Comparison comparison = compare(results[i], expected[i], bounds::of_graph(graph, {}));
    if (!comparison.equal) wrong += fmt::format("result {} of rank {}: {}\n", i, rank, comparison.text);
  }
  std::string all_bits;
  for (const std::string& of_rank : world->gather(bits)) all_bits += of_rank;
  std::string all_wrong;
  for (const std::string& of_rank : world->gather(wrong)) all_wrong += of_rank;
  if (rank == 0)
    fmt::print("{} ranks on {}: {} results, wrong [{}], bits {}\n", world->size(), device->name(), results.size(),
               all_wrong, hash_text(all_bits).hex());
}

}  // namespace
}  // namespace causeway::program

int main(int argc, char** argv) {
  try {
    causeway::program::run(argc > 1 ? argv[1] : "cpu");
    return 0;
  } catch (const causeway::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
