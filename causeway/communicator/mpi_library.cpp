#include "causeway/communicator/mpi_library.h"

#include <vector>

#include "causeway/base/error.h"

namespace causeway::communicator {

MpiAbi mpich_abi() {
  return {.family = "MPICH",
          .world = 0x44000000,
          .byte = 0x4c00010d,
          .uint16 = 0x4c00023c,
          .f32 = 0x4c00040a,
          .f64 = 0x4c00080b,
          .sum = 0x58000003,
          .errors_return = 0x54000001,
          .in_place = reinterpret_cast<const void*>(intptr_t{-1}),
          .ignored_status = reinterpret_cast<void*>(intptr_t{1})};
}

MpiAbi find_mpi_abi(const VendorLibrary& library) {
  void* world = nullptr;
  library.bind_if_present(world, "ompi_mpi_comm_world");
  if (world == nullptr) return mpich_abi();
  MpiAbi abi;
  abi.family = "Open MPI";
  abi.in_place = reinterpret_cast<const void*>(intptr_t{1});
  const auto find = [&](MpiHandle& handle, const char* symbol) {
    void* object = nullptr;
    library.bind(object, symbol);
    handle = reinterpret_cast<MpiHandle>(object);
  };
  find(abi.world, "ompi_mpi_comm_world");
  find(abi.byte, "ompi_mpi_byte");
  find(abi.uint16, "ompi_mpi_uint16_t");
  find(abi.f32, "ompi_mpi_float");
  find(abi.f64, "ompi_mpi_double");
  find(abi.sum, "ompi_mpi_op_sum");
  find(abi.errors_return, "ompi_mpi_errors_return");
  return abi;
}

VendorLibrary open_mpi_library(const std::string& file, MpiFamily family) {
  // Where Red Hat's packages have them beside Debian's.
  const std::vector<std::string> open_mpi = {"libmpi.so.40", "/usr/lib64/openmpi/lib/libmpi.so.40"},
                                 mpich = {"libmpi.so.12", "libmpich.so.12", "/usr/lib64/mpich/lib/libmpi.so.12"};
  std::vector<std::string> names = {file};
  if (file.empty()) {
    names = family == MpiFamily::kMpich ? mpich : open_mpi;
    if (family == MpiFamily::kEither) names.insert(names.end(), mpich.begin(), mpich.end());
  }
  std::string packages = "the package libopenmpi3 (Debian) or openmpi has libmpi.so.40";
  if (family == MpiFamily::kMpich) packages = "the package libmpich12 (Debian) or mpich has libmpich.so.12";
  // Open MPI 4 and 5 open plugins, which may look for its symbols.
  return VendorLibrary(names, "mpi",
                       fmt::format("Install the library of the MPI whose launcher started this: {}. Where it lies "
                                   "elsewhere, name its file by --mpi.",
                                   packages),
                       family == MpiFamily::kMpich ? "MPI's library (MPICH)" : "MPI's library (Open MPI)",
                       LibraryScope::kGlobal);
}

std::string short_mpi_name(std::string_view library_version) {
  const std::string_view line = library_version.substr(0, library_version.find_first_of("\n\r"));
  if (line.starts_with("Open MPI v")) return fmt::format("Open MPI {}", line.substr(10, line.find(',') - 10));
  if (constexpr std::string_view kMpich = "MPICH Version:"; line.starts_with(kMpich)) {
    const size_t version = line.find_first_not_of(" \t", kMpich.size());
    return version == std::string_view::npos ? "MPICH" : fmt::format("MPICH {}", line.substr(version));
  }
  const size_t end = line.find_last_not_of(" \t");
  return end == std::string_view::npos ? "MPI" : std::string(line.substr(0, end + 1));
}

MpiLibrary::MpiLibrary(const VendorLibrary& library) : abi(find_mpi_abi(library)) {
  library.bind(init, "MPI_Init_thread");
  library.bind(finalize, "MPI_Finalize");
  library.bind(abort, "MPI_Abort");
  library.bind(library_version, "MPI_Get_library_version");
  library.bind(error_string, "MPI_Error_string");
  library.bind(set_error_handler, "MPI_Comm_set_errhandler");
  library.bind(size, "MPI_Comm_size");
  library.bind(rank, "MPI_Comm_rank");
  library.bind(split, "MPI_Comm_split");
  library.bind(free_communicator, "MPI_Comm_free");
  library.bind(create_operation, "MPI_Op_create");
  library.bind(barrier, "MPI_Barrier");
  library.bind(start_barrier, "MPI_Ibarrier");
  library.bind(all_reduce, "MPI_Allreduce");
  library.bind(reduce, "MPI_Reduce");
  library.bind(reduce_scatter, "MPI_Reduce_scatter_block");
  library.bind(all_gather, "MPI_Allgather");
  library.bind(all_to_all, "MPI_Alltoall");
  library.bind(broadcast, "MPI_Bcast");
  library.bind(start_send, "MPI_Isend");
  library.bind(start_receive, "MPI_Irecv");
  library.bind(wait, "MPI_Wait");
  library.bind(test, "MPI_Test");
}

}  // namespace causeway::communicator
