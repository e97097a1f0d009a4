// How many files, sockets among them, the process may have open.
#pragma once

namespace causeway {

// Up to the hard limit more may be had than a shell lets a process open by default: asks for all of them. False, with
// errno EMFILE, where there are none to be had.
bool raise_limit_of_open_files();

}  // namespace causeway
