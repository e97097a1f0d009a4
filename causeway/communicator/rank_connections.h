// How the ranks of a run find each other for the control plane: rank 0 listens on a port that the system chooses, and
// the others connect to it, with a token by which it tells them from strangers.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "causeway/communicator/communicator.h"
#include "causeway/communicator/control_link.h"

namespace causeway::communicator {

// Called by all ranks of `world`, each of which drives one; `hosts`: their machines, by rank. Where all are one
// machine, it listens to that machine alone. Returns links by rank: of rank 0 to each other one, of another one to rank
// 0, and null elsewhere. They belong to `io`, which outlives them and which nobody else runs meanwhile. Throws
// Error(kIo) in all ranks where they cannot connect within half a minute.
std::vector<std::shared_ptr<ControlLink>> connect_ranks(Communicator& world, boost::asio::io_context& io,
                                                        const std::vector<std::string>& hosts);

}  // namespace causeway::communicator
