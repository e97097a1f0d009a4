// What a crash says before the process ends: a program that runs for weeks has no debugger beside it.
#pragma once

#include <string>

#include "causeway/namespaces.h"

namespace causeway {

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitizerReportsCrashes = true;
#else
inline constexpr bool kSanitizerReportsCrashes = false;
#endif

// From then on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT write a report on standard error: the signal, the address
// that it is about, `program` (name, version and commit), and the frames of the thread as offsets into its files. Then
// the process ends by the signal as it would have. Once, by the main thread. Nothing where a sanitizer has a report of
// its own.
void report_crashes(const std::string& program);

}  // namespace causeway
