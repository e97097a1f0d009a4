#include "causeway/communicator/mpi_launch.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace causeway::communicator {
namespace {

std::optional<int> number(const char* text) {
  if (text == nullptr) return {};
  const std::string_view digits = text;
  int value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

}  // namespace

std::optional<MpiLaunch> find_mpi_launch(const std::function<const char*(const char*)>& environment) {
  struct Variables {
    MpiFamily family;
    const char *size, *rank, *local_rank;
  };
  for (const Variables& variables :
       {Variables{MpiFamily::kOpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {MpiFamily::kMpich, "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"},
        {MpiFamily::kMpich, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK"},
        {MpiFamily::kEither, "SLURM_NTASKS", "PMIX_RANK", "SLURM_LOCALID"}}) {
    const std::optional<int> size = number(environment(variables.size)), rank = number(environment(variables.rank));
    if (size && rank && *rank >= 0 && *rank < *size)
      return MpiLaunch{variables.family, variables.size, *size, *rank,
                       number(environment(variables.local_rank)).value_or(*rank)};
  }
  return {};
}

std::optional<MpiLaunch> find_mpi_launch() {
  return find_mpi_launch([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace causeway::communicator
