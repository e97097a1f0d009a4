// What a rank was at when its run failed, left in the run directory.
#pragma once

#include <filesystem>
#include <string>

#include "causeway/communicator/mesh_communicators.h"
#include "causeway/device/device.h"

namespace causeway::train {

// "flight_rank_3.json".
std::string flight_file_name(int rank);

// Writes the rank's last collectives (communicator/flight_record.h) into the run directory, where there is one, and
// returns a sentence that says where those of all ranks are; empty where nothing was written. Any thread's.
std::string write_flight_file(const std::filesystem::path& run_directory, MeshCommunicators& communicators,
                              const Device& device) noexcept;

}  // namespace causeway::train
