// What is used of MPI, declared after the MPI standard 3.1, so that no MPI is needed to build. The standard leaves the
// types of handles and the values of constants to the library; two families of them are known here:
// - Open MPI 4 and 5 (libmpi.so.40): a handle is the address of an object, the predefined ones are exported symbols;
// - the MPICH ABI (libmpi.so.12, libmpich.so.12: MPICH, Intel MPI, MVAPICH2): a handle is an int.
// An int is passed and returned in the lower half of a register or stack slot, so that one declaration with handles as
// wide as an address serves both; memory that a library fills with a handle is cleared before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "causeway/communicator/mpi_launch.h"
#include "causeway/device/vendor_library.h"

namespace causeway::communicator {

static_assert(sizeof(void*) == 8, "handles of either family fit into 64 bits");

using MpiHandle = uint64_t;

// Predefined handles and constants.
struct MpiAbi {
  std::string_view family;
  MpiHandle world = 0;                               // MPI_COMM_WORLD
  MpiHandle byte = 0, uint16 = 0, f32 = 0, f64 = 0;  // MPI_BYTE, MPI_UINT16_T, MPI_FLOAT, MPI_DOUBLE
  MpiHandle sum = 0;                                 // MPI_SUM
  MpiHandle errors_return = 0;                       // MPI_ERRORS_RETURN
  const void* in_place = nullptr;                    // MPI_IN_PLACE
  void* ignored_status = nullptr;                    // MPI_STATUS_IGNORE
};

// The family's, of the library's symbols.
MpiAbi find_mpi_abi(const VendorLibrary& library);
// As mpi.h of MPICH has them.
MpiAbi mpich_abi();

inline constexpr int kMpiUndefined = -32766;  // MPI_UNDEFINED, in both families
inline constexpr int kMpiThreadFunneled = 1;  // MPI_THREAD_FUNNELED, in both
inline constexpr int kMpiLongestText = 8192;  // no shorter than any MPI_MAX_..._STRING of both

// The file, or where it is empty what the launcher's family calls its library. Throws Error(kNotFound), which names the
// packages.
VendorLibrary open_mpi_library(const std::string& file, MpiFamily family);

// "Open MPI v4.1.4, package: ...": "Open MPI 4.1.4". "MPICH Version:\t4.0.2\n...": "MPICH 4.0.2". Of others the first
// line.
std::string short_mpi_name(std::string_view library_version);

struct MpiLibrary {
  using ReduceFunction = void(void* from, void* to, int* count, MpiHandle* type);

  int (*init)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*finalize)() = nullptr;
  int (*abort)(MpiHandle communicator, int status) = nullptr;
  int (*library_version)(char* text, int* length) = nullptr;
  int (*error_string)(int code, char* text, int* length) = nullptr;
  int (*set_error_handler)(MpiHandle communicator, MpiHandle handler) = nullptr;
  int (*size)(MpiHandle communicator, int* size) = nullptr;
  int (*rank)(MpiHandle communicator, int* rank) = nullptr;
  int (*split)(MpiHandle communicator, int color, int key, MpiHandle* created) = nullptr;
  int (*free_communicator)(MpiHandle* communicator) = nullptr;
  int (*create_operation)(ReduceFunction* function, int commutes, MpiHandle* created) = nullptr;

  int (*barrier)(MpiHandle communicator) = nullptr;
  int (*start_barrier)(MpiHandle communicator, MpiHandle* request) = nullptr;
  int (*all_reduce)(const void* from, void* to, int count, MpiHandle type, MpiHandle operation,
                    MpiHandle communicator) = nullptr;
  int (*reduce)(const void* from, void* to, int count, MpiHandle type, MpiHandle operation, int root,
                MpiHandle communicator) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, int count, MpiHandle type, MpiHandle operation,
                        MpiHandle communicator) = nullptr;
  int (*all_gather)(const void* from, int sent, MpiHandle sent_type, void* to, int received, MpiHandle received_type,
                    MpiHandle communicator) = nullptr;
  int (*all_to_all)(const void* from, int sent, MpiHandle sent_type, void* to, int received, MpiHandle received_type,
                    MpiHandle communicator) = nullptr;
  int (*broadcast)(void* data, int count, MpiHandle type, int root, MpiHandle communicator) = nullptr;
  int (*start_send)(const void* from, int count, MpiHandle type, int receiver, int tag, MpiHandle communicator,
                    MpiHandle* request) = nullptr;
  int (*start_receive)(void* to, int count, MpiHandle type, int sender, int tag, MpiHandle communicator,
                       MpiHandle* request) = nullptr;
  int (*wait)(MpiHandle* request, void* status) = nullptr;
  int (*test)(MpiHandle* request, int* done, void* status) = nullptr;

  MpiAbi abi;

  // Throws Error(kUnsupported) where a function is missing.
  explicit MpiLibrary(const VendorLibrary& library);
};

}  // namespace causeway::communicator
