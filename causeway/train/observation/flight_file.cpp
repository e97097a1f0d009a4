#include "causeway/train/observation/flight_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <exception>

#include "causeway/base/enclosed_path.h"
#include "causeway/base/file.h"
#include "causeway/communicator/flight_record.h"

namespace causeway::train {

std::string flight_file_name(int rank) { return fmt::format("flight_rank_{}.json", rank); }

std::string write_flight_file(const std::filesystem::path& run_directory, MeshCommunicators& communicators,
                              const Device& device) noexcept {
  try {
    // Nothing that waits for a disk: the process may be ended any moment.
    const std::string name = flight_file_name(communicators.rank());
    FileWriter file(run_directory / name,
                    open_enclosed(run_directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK));
    const RankPosition position = communicators.progress().position();
    file.write(flight_text(communicators.progress().flight(),
                           {communicators.rank(), static_cast<int>(communicators.mesh().ranks()), position.step,
                            position.phase, !device.target().is_gpu()}));
    return fmt::format("The last collectives of each rank that could still write them are in {}.",
                       (run_directory / "flight_rank_N.json").string());
  } catch (const std::exception&) {  // the failure itself matters more
    return {};
  }
}

}  // namespace causeway::train
