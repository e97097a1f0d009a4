// Collectives between processes, in processors' memory, by the machine's MPI, which is opened when it is needed. Each
// process drives one rank.
#pragma once

#include <memory>
#include <string>

#include "causeway/communicator/communicator.h"

namespace causeway::communicator {

struct MpiOptions {
  // The file of the library; otherwise what the launcher's family calls it is looked for where the loader looks.
  std::string library;
  // Elements that one call of MPI may be about, where the standard's int and what libraries do with it end. Larger
  // collectives are made of several calls: sums and broadcasts of pieces, the others of broadcasts, sums and messages
  // for each rank.
  int64_t largest_count = int64_t{1} << 30;
};

// All processes of the launch, a rank each. MPI is initialized by the first call in a process, and left at its exit;
// one thread makes all calls. Throws Error: kInvalidArgument where no launcher started this process, kNotFound where
// the library is not installed, kUnsupported where it is of another MPI than the launcher, or too old, kIo when it does
// not start.
//
// Calls return when this process's part is done. Sums of f32 are f32, in the library's order. bf16, which MPI has not,
// goes as MPI_UINT16_T with an operation of our own: each addition is f32 and is rounded to bf16, so that a sum over n
// ranks is rounded up to n - 1 times. Where MPI has no "in place" or no "out of place", a copy makes up for it: the
// root's, of a broadcast out of place; that of a rank's part, of a reduce_scatter in place.
//
// A process that fails must not leave others waiting. MPI reports errors to this code instead of ending the process;
// they become Error(kIo). When a process leaves through an exception (a communicator of its own is destroyed by it) or
// after such an error, MPI_Abort ends all processes of the launch at its exit; in good order, MPI_Finalize does. A
// process that is killed or crashes is seen by the launcher, which ends the others.
//
// A device that does not share the host's memory exchanges bytes (Communicator::gather() and what is made of it), and
// no collectives.
std::unique_ptr<Communicator> open_mpi(const std::shared_ptr<Device>& device, const MpiOptions& options = {});

}  // namespace causeway::communicator
