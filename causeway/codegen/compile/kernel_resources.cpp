#include "causeway/codegen/compile/kernel_resources.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/python_packages.h"
#include "causeway/codegen/compile/elf_reader.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {
namespace {

namespace fs = std::filesystem;

// LLVM, "User Guide for AMDGPU Backend", Code Object V3 Metadata.
std::vector<KernelResources> amd_resources(const std::string& image) {
  constexpr uint32_t kMetadataNote = 32;
  const ElfReader elf(image);
  const std::string_view note = elf.note("AMDGPU", kMetadataNote);
  const std::vector<std::string> exported = elf.exported_symbols();
  const nlohmann::json metadata = nlohmann::json::from_msgpack(note.begin(), note.end(), true, false);
  if (!metadata.is_object() || !metadata.contains("amdhsa.kernels")) throw_damaged_code_object();
  std::vector<KernelResources> kernels;
  for (const nlohmann::json& entry : metadata["amdhsa.kernels"]) {
    const auto number = [&](const char* key) { return entry.value(key, 0); };
    KernelResources kernel;
    kernel.kernel = entry.value(".name", "");
    kernel.registers = number(".vgpr_count");
    kernel.accumulation_registers = number(".agpr_count");
    kernel.scalar_registers = number(".sgpr_count");
    kernel.shared_bytes = number(".group_segment_fixed_size");
    kernel.spill_bytes = 4 * number(".vgpr_spill_count");
    kernel.stack_bytes = number(".private_segment_fixed_size");
    kernel.exported = std::ranges::find(exported, entry.value(".symbol", "")) != exported.end();
    if (const int spilled = number(".sgpr_spill_count"); spilled > 0)
      kernel.notes.push_back(fmt::format("{} scalar registers are spilled", spilled));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

// A directory of its own under the system's temporary one, gone with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(fs::temp_directory_path() / "causeway-XXXXXX") {
    std::string name = path_.string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(ErrorKind::kIo, "cannot create a temporary directory", path_.string(),
                  "Set TMPDIR to a writable one.");
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Runs the program with its output in the file `log`; true when it succeeded.
bool run_program(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw Error(ErrorKind::kIo, "cannot run the program", command[0], std::strerror(failure));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int resident_blocks(const KernelResources& kernel, int threads, int shared_bytes, const GpuArchitecture& architecture) {
  const auto round_up = [](int value, int granule) { return (value + granule - 1) / granule * granule; };
  const GpuArchitecture::Occupancy& has = architecture.occupancy;
  const int waves = (threads + architecture.wave_width - 1) / architecture.wave_width;
  const int wave_registers = std::max(1, kernel.registers) * architecture.wave_width;
  int unit_waves = std::min(has.unit_waves, has.unit_registers / round_up(wave_registers, has.register_granule));
  if (has.most_scalar_registers != 0 && kernel.scalar_registers > has.most_scalar_registers)
    unit_waves = std::min(unit_waves, has.unit_waves - 1);
  const int shared = round_up(kernel.shared_bytes + shared_bytes, has.shared_granule) + has.shared_reserved;
  const int by_shared = shared == 0 ? INT_MAX : (architecture.shared_bytes + has.shared_reserved) / shared;
  return std::min({waves > 1 ? has.blocks_of_several_waves : has.blocks,
                   has.units * unit_waves / round_up(waves, has.wave_granule), by_shared});
}

std::string find_ptxas() {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const fs::path candidate = fs::path(directory) / "ptxas";
    if (candidate.is_absolute() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  constexpr char kUsual[] = "/usr/local/cuda/bin/ptxas";
  if (::access(kUsual, X_OK) == 0) return kUsual;
  const std::string packaged[] = {"nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas"};
  for (const std::string& candidate : python_package_files(packaged))
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  return "";
}

std::string_view how_to_get_ptxas() {
  return "Install NVIDIA's CUDA toolkit, 12.0 or newer, with ptxas on PATH or in /usr/local/cuda/bin, or the Python "
         "package nvidia-cuda-nvcc in an environment whose bin folder is on PATH.";
}

std::vector<KernelResources> parse_ptxas_report(const std::string& report) {
  static const std::regex kEntry("Compiling entry function '([^']*)'");
  static const std::regex kStack("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores");
  static const std::regex kRegisters("Used ([0-9]+) registers");
  static const std::regex kShared("([0-9]+) bytes smem");
  static const std::regex kNote("\\(C[0-9]+\\)");
  std::vector<KernelResources> kernels;
  std::vector<std::string> notes;
  std::istringstream lines(report);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, kNote) || line.find("warning") != std::string::npos) notes.push_back(line);
    if (std::regex_search(line, match, kEntry)) {
      kernels.emplace_back().kernel = match[1];
      kernels.back().exported = true;
    }
    if (kernels.empty()) continue;
    KernelResources& kernel = kernels.back();
    if (std::regex_search(line, match, kStack)) {
      kernel.stack_bytes = std::stoi(match[1]);
      kernel.spill_bytes = std::stoi(match[2]);
    }
    if (std::regex_search(line, match, kRegisters)) kernel.registers = std::stoi(match[1]);
    if (std::regex_search(line, match, kShared)) kernel.shared_bytes = std::stoi(match[1]);
  }
  // A note is given to the kernel it names, else to all: where it stands in the report says nothing.
  for (const std::string& note : notes) {
    const auto names = [&](const KernelResources& kernel) {
      return note.find("'" + kernel.kernel + "'") != std::string::npos;
    };
    const bool named = std::ranges::any_of(kernels, names);
    for (KernelResources& kernel : kernels)
      if (!named || names(kernel)) kernel.notes.push_back(note);
  }
  return kernels;
}

std::optional<std::vector<KernelResources>> kernel_resources(const std::string& image, const Target& target) {
  std::vector<KernelResources> kernels;
  if (target.family == Target::Family::kAmdgpu) {
    kernels = amd_resources(image);
  } else if (target.family == Target::Family::kNvptx) {
    const std::string ptxas = find_ptxas();
    if (ptxas.empty()) return std::nullopt;
    const TemporaryDirectory directory;
    const auto file = [&](const char* name) { return (directory.path() / name).string(); };
    write_file_atomically(file("kernel.ptx"), image);
    const bool succeeded = run_program(
        {ptxas, "-v", "-arch", target.processor, file("kernel.ptx"), "-o", file("kernel.cubin")}, file("log"));
    const std::string report = read_text_file(file("log"));
    if (!succeeded) throw Error(ErrorKind::kInvalidArgument, "ptxas refuses the kernel:\n" + report, target.text());
    kernels = parse_ptxas_report(report);
  } else {
    return std::nullopt;
  }
  std::ranges::sort(kernels, {}, &KernelResources::kernel);
  return kernels;
}

}  // namespace causeway::codegen
