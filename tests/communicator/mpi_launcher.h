// Starts programs under the MPI launchers that are installed.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace causeway::communicator {

struct MpiOutcome {
  int status = -1;  // as a shell gives it; 124 when it was still running after two minutes
  std::string output;
};

inline MpiOutcome run_in_shell(const std::string& command) {
  MpiOutcome outcome;
  std::FILE* pipe = ::popen((command + " 2>&1 < /dev/null").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> piece;
  for (size_t count; (count = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    outcome.output.append(piece.data(), count);
  const int state = ::pclose(pipe);
  outcome.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  return outcome;
}

struct MpiLauncher {
  std::string name;     // "Open MPI"
  std::string command;  // with the options that more ranks than processors, and root, need

  MpiOutcome run(int ranks, const std::string& program) const {
    return run_in_shell("timeout 120 " + command + " -n " + std::to_string(ranks) + " " + program);
  }
};

inline std::optional<MpiLauncher> find_launcher(const std::string& name) {
  const bool is_open_mpi = name == "Open MPI";
  const auto candidates = is_open_mpi ? std::array{"mpirun.openmpi", "mpirun", "mpiexec"}
                                      : std::array{"mpiexec.hydra", "mpiexec.mpich", "mpiexec"};
  for (const std::string candidate : candidates)
    if (run_in_shell(candidate + " --version").output.find(is_open_mpi ? "Open MPI" : "HYDRA") != std::string::npos)
      return MpiLauncher{name, candidate + (is_open_mpi ? " --allow-run-as-root --oversubscribe" : "")};
  return {};
}

// A program of that path which is the launcher.
inline void link_launcher(const MpiLauncher& launcher, const std::filesystem::path& path) {
  std::string file = run_in_shell("command -v " + launcher.command.substr(0, launcher.command.find(' '))).output;
  file = file.substr(0, file.find('\n'));
  std::ofstream(path) << "#!/bin/sh\nexec " << file << " \"$@\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace causeway::communicator
