#include "causeway/cli/mpi_launcher.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "causeway/communicator/launch_link.h"

namespace causeway::cli {
namespace {

// What a command of this name says of its version; empty where there is none.
std::string version_of(const std::string& command) {
  std::FILE* pipe = ::popen((command + " --version 2>/dev/null </dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 1024> piece;
  for (size_t count; (count = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;) text.append(piece.data(), count);
  return ::pclose(pipe) == 0 ? text : "";
}

// Runs a rank and ends as it does, but by a status where the rank is ended by a signal: MPICH's launcher kills all
// others at once when a process of its own is, whatever it was told. Signals to both are the rank's affair.
constexpr std::string_view kOutlivingShell = "trap : HUP INT TERM USR1; \"$0\" \"$@\"; exit $?";

}  // namespace

std::optional<MpiLauncher> find_mpi_launcher() {
  for (const char* command : {"mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.hydra", "mpirun.mpich"}) {
    const std::string text = version_of(command);
    if (text.empty()) continue;
    const bool is_open_mpi = text.find("Open MPI") != std::string::npos || text.find("OpenRTE") != std::string::npos;
    const bool is_hydra = text.find("HYDRA") != std::string::npos || text.find("Intel(R) MPI") != std::string::npos;
    return MpiLauncher{command,
                       is_open_mpi ? MpiFamily::kOpenMpi
                       : is_hydra  ? MpiFamily::kMpich
                                   : MpiFamily::kEither,
                       text.substr(0, text.find('\n'))};
  }
  return {};
}

bool heeds_signals(const std::vector<std::string>& words) { return !words.empty() && words.front() == "train"; }

std::vector<std::string> launch_arguments(const MpiLauncher& launcher, int processes, bool as_root,
                                          const std::string& program, const std::vector<std::string>& words) {
  const std::string count = fmt::to_string(processes);
  // The ranks of a run end each other; a launcher that kills them first loses what they say.
  const bool ends_itself = heeds_signals(words);
  const std::string link(kLinkIsStandardInput);
  std::vector<std::string> arguments = {launcher.command};
  const auto add = [&](std::initializer_list<std::string> more) { arguments.insert(arguments.end(), more); };
  if (launcher.family == MpiFamily::kOpenMpi) {
    if (as_root) add({"--allow-run-as-root"});
    add({"--oversubscribe", "--bind-to", "none", "-x", fmt::format("{}={}", kProcessesVariable, count)});
    if (ends_itself) add({"-x", fmt::format("{}={}", kLaunchLinkVariable, link)});
  } else if (launcher.family == MpiFamily::kMpich) {
    add({"-genv", kProcessesVariable, count});
    if (ends_itself) add({"-genv", kLaunchLinkVariable, link, "-disable-auto-cleanup"});
  }
  add({"-n", count});
  if (launcher.family == MpiFamily::kMpich && ends_itself) add({"/bin/sh", "-c", std::string(kOutlivingShell)});
  add({program});
  arguments.insert(arguments.end(), words.begin(), words.end());
  return arguments;
}

}  // namespace causeway::cli
