// What a crash says before the process ends: a program that runs for weeks has no debugger beside it.
#pragma once

#include <string>

#include "causeway/namespaces.h"

namespace causeway {

// From then on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT write a report on standard error: the signal, the address
// that it is about, `program` and where it was built from, and the frames of the thread as offsets into its files.
// Then the process ends by the signal as it would have. Once, by the main thread. Builds with a sanitizer keep that
// one's own report.
void report_crashes(const std::string& program);

}  // namespace causeway
