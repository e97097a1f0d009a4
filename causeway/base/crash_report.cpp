#include "causeway/base/crash_report.h"

#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace causeway {
namespace {

struct CrashSignal {
  int number;
  std::string_view name;
};
constexpr CrashSignal kSignals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGILL, "SIGILL"}, {SIGFPE, "SIGFPE"}, {SIGABRT, "SIGABRT"}};
constexpr int kMostFrames = 64;
// The stack that overflowed has no room for a report.
constexpr size_t kStackBytes = size_t{64} << 10;

// A handler may allocate nothing, so all of it is there beforehand.
std::array<char, 256> program_name{};               // NOLINT(readability-identifier-naming)
alignas(16) std::array<char, kStackBytes> stack{};  // NOLINT(readability-identifier-naming)
std::atomic<bool> crashed = false;                  // NOLINT(readability-identifier-naming)

void write_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void write_hexadecimal(uintptr_t value) {
  std::array<char, 2 + 2 * sizeof value> digits{};
  size_t at = digits.size();
  do {
    digits[--at] = "0123456789abcdef"[value % 16];
    value /= 16;
  } while (value != 0);
  digits[--at] = 'x';
  digits[--at] = '0';
  write_text({digits.data() + at, digits.size() - at});
}

void on_crash(int number, siginfo_t* information, void*) {
  // Several threads may crash at once: the first one speaks, and ends the process.
  if (crashed.exchange(true)) {
    for (;;) ::pause();
  }
  const auto* const known = std::ranges::find(kSignals, number, &CrashSignal::number);
  write_text("\ninternal error: ");
  write_text(program_name.data());
  write_text(" crashed: ");
  write_text(known->name);
  if (number != SIGABRT) {
    write_text(" at address ");
    write_hexadecimal(reinterpret_cast<uintptr_t>(information->si_addr));
  }
  write_text(", in\n");
  std::array<void*, kMostFrames> frames{};
  const int count = ::backtrace(frames.data(), kMostFrames);
  ::backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
  write_text("This is a fault of the program; please report it with these lines and the command line.\n");
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
  ::raise(number);
}

}  // namespace

void report_crashes(const std::string& program) {
  if (kSanitizerReportsCrashes) return;
  std::strncpy(program_name.data(), program.c_str(), program_name.size() - 1);
  // Its first call loads a library, which a handler must not.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  const stack_t handlers_stack{stack.data(), 0, stack.size()};
  ::sigaltstack(&handlers_stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const CrashSignal& signal : kSignals) ::sigaction(signal.number, &action, nullptr);
}

}  // namespace causeway
