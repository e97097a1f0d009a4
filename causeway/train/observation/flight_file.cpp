#include "causeway/train/observation/flight_file.h"

#include <fmt/format.h>

#include <exception>

#include "causeway/base/file.h"
#include "causeway/communicator/flight_record.h"

namespace causeway::train {

std::string flight_file_name(int rank) { return fmt::format("flight_rank_{}.json", rank); }

std::string write_flight_file(const std::filesystem::path& run_directory, MeshCommunicators& communicators,
                              const Device& device) noexcept {
  try {
    // Nothing that waits for a disk: the process may be ended any moment.
    const std::filesystem::path path = run_directory / flight_file_name(communicators.rank());
    // A new file: if a link of the name is there, nothing is written through it.
    std::error_code failure;
    std::filesystem::remove(path, failure);
    FileWriter file(path, FileWriter::Existing::kRefuse);
    const RankPosition position = communicators.progress().position();
    file.write(flight_text(communicators.progress().flight(),
                           {communicators.rank(), static_cast<int>(communicators.mesh().ranks()), position.step,
                            position.phase, !device.target().runs_asynchronously()}));
    return fmt::format("The last collectives of each rank that could still write them are in {}.",
                       (run_directory / "flight_rank_N.json").string());
  } catch (const std::exception&) {  // the failure itself matters more
    return {};
  }
}

}  // namespace causeway::train
