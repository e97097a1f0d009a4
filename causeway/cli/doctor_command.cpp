#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/user_cache.h"
#include "causeway/bench/results/results_store.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/mpi_launcher.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/device/cpu/host_target.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/device/open_device.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/tensor.h"

namespace causeway::cli {
namespace {

// Compiles and runs one small kernel on a device; empty when it gave the right answer.
std::string try_a_kernel(const std::string& device) {
  try {
    const ContextScope context(Context::open(device));
    const Tensor x = Tensor::from_values({1, 2, 3}, {3});
    const double total = sum(square(x)).item();
    return total == 14 ? "" : fmt::format("a test kernel gave {} instead of 14", total);
  } catch (const std::exception& error) {
    return error.what();
  }
}

struct CacheState {
  std::string directory;  // empty: there is none
  std::string problem;    // why it is not where it should be, or not there
  KernelCacheUsage usage;
  int64_t limit = 0;
};

CacheState examine_kernel_cache() {
  CacheState state;
  UserCache cache = open_user_cache(KernelCache::kUserCacheName);
  try {
    if (cache.directory) {
      const KernelCacheFiles files(std::move(*cache.directory));
      files.write(fmt::format("doctor-{}", getpid()), "probe");
      files.remove(fmt::format("doctor-{}", getpid()));
      state = {files.path().string(), cache.problem, files.usage(), files.limit()};
    } else {
      state.problem = cache.problem + "; kernels are compiled in every run";
    }
  } catch (const std::exception& error) {
    state = {};
    state.problem = fmt::format("{}; kernels are compiled in every run", error.what());
  }
  return state;
}

// What is wrong with the place of the benchmarks' results; empty when nothing is.
std::string examine_results_store() {
  try {
    check_default_store();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The devices that drivers show, each with a kernel run on it.
std::vector<DeviceDescription> examine_devices() {
  std::vector<DeviceDescription> devices = describe_devices();
  for (DeviceDescription& device : devices) {
    if (!device.usable) continue;
    device.problem = try_a_kernel(device.spec);
    device.usable = device.problem.empty();
  }
  return devices;
}

// What kernels are compiled for there, and what else they may be.
std::string kernels_of(const DeviceDescription& device) {
  const std::vector<std::string>& own = device.kernel_architectures;
  std::string text = device.architecture;
  for (size_t i = 0; i < own.size(); ++i)
    text += i == 0 ? fmt::format(": {}", own[i]) : fmt::format("; {} with device_architecture={}", own[i], own[i]);
  return text;
}

void print_device(const DeviceDescription& device) {
  output("\n{:<14}{}\n", device.spec,
         device.usable  ? "usable"
         : device.found ? "NOT usable: " + device.problem
                        : "not here: " + device.problem);
  if (!device.advice.empty()) output("  what to do  {}\n", device.advice);
  if (device.product.empty()) return;
  output("  product     {}, {} {}, {} memory ({} free)\n", device.product, device.parallel_units,
         device.spec == "cpu" ? "threads" : "multiprocessors", format_bytes(device.memory_total),
         format_bytes(device.memory_free));
  output("  kernels for {}\n", kernels_of(device));
  if (!device.software.empty()) output("  software    {}\n", device.software);
  if (device.spec.starts_with("hip"))
    output("  note        HIP support was never run on an AMD GPU: its kernels are tested on the emulator\n");
}

void run_doctor(bool as_json) {
  const Target& target = host_target();
  const std::vector<DeviceDescription> devices = examine_devices();
  const CacheState cache = examine_kernel_cache();
  const std::string store_problem = examine_results_store();
  const std::optional<MpiLauncher> launcher = find_mpi_launcher();
  const std::string matrix = target.has_amx_bf16()      ? "AMX (bf16) and AVX-512 BF16"
                             : target.has_avx512_bf16() ? "AVX-512 BF16"
                             : target.has_avx512()      ? "AVX-512 (bf16 widened to f32)"
                             : target.has_avx2()        ? "AVX2 (bf16 widened to f32)"
                                                        : "baseline x86-64 (slow)";
  if (as_json) {
    nlohmann::ordered_json json = {{"version", CAUSEWAY_VERSION}};
    for (const DeviceDescription& device : devices) {
      json["devices"].push_back({{"name", device.spec},
                                 {"product", device.product},
                                 {"architecture", device.architecture},
                                 {"kernel_architectures", device.kernel_architectures},
                                 {"software", device.software},
                                 {"units", device.parallel_units},
                                 {"memory_bytes", device.memory_total},
                                 {"memory_free_bytes", device.memory_free},
                                 {"found", device.found},
                                 {"usable", device.usable},
                                 {"problem", device.problem},
                                 {"advice", device.advice}});
    }
    json["devices"][0]["gemms"] = matrix;
    json["emulator"] = nlohmann::json::array();
    for (const GpuArchitecture& architecture : gpu_architectures())
      json["emulator"].push_back("emulator:" + std::string(architecture.processor));
    json["kernel_cache"] = {{"directory", cache.directory},
                            {"problem", cache.problem},
                            {"kernels", cache.usage.kernels},
                            {"bytes", cache.usage.bytes},
                            {"limit_bytes", cache.limit}};
    json["launcher"] = {{"command", launcher ? launcher->command : ""}, {"version", launcher ? launcher->version : ""}};
    json["results_store"] = {{"problem", store_problem}};
    json["compiler"] = compiler_fingerprint();
    output_json(json);
  } else {
    output("causeway {}\n", CAUSEWAY_VERSION);
    for (const DeviceDescription& device : devices) {
      print_device(device);
      if (device.spec == "cpu") output("  matrices    {}\n", matrix);
    }
    output("\nemulator      usable, for tests: exact and very slow\n");
    for (const GpuArchitecture& architecture : gpu_architectures())
      output("  emulator:{:<8}{}\n", architecture.processor, architecture.product);
    output("\nkernel cache  {}\n", cache.directory.empty() ? "NOT usable: " + cache.problem
                                   : cache.problem.empty() ? "usable"
                                                           : "usable, but not in its usual place: " + cache.problem);
    if (!cache.directory.empty())
      output("  directory   {}\n  size        {} of {} at most (`causeway cache`)\n", cache.directory,
             format_bytes(cache.usage.bytes), format_bytes(cache.limit));
    output("\nlauncher      {}\n",
           launcher ? fmt::format("{} ({}), for `causeway launch`", launcher->command, launcher->version)
                    : "none: `causeway launch` needs mpirun or mpiexec of an MPI");
    if (!store_problem.empty()) output("\nbenchmarks    their results cannot be stored: {}\n", store_problem);
    output(
        "\nEnvironment variables are not needed. XDG_CACHE_HOME moves the kernel cache and, beside it, what NVIDIA's "
        "driver makes of it; XDG_DATA_HOME the benchmarks' results. {} says how many processes a run should have, "
        "where they are "
        "not started by `causeway launch`, which sets it: another number is refused.\n",
        kProcessesVariable);
  }
  // A missing GPU is no fault; one that is there and cannot be used is.
  for (const DeviceDescription& device : devices)
    if (device.found && !device.usable) command_status = 1;
}

}  // namespace

void add_doctor_command(CLI::App& program) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("doctor", "Show what this machine can do, and what is wrong");
  command->add_flag("--json", *as_json, "Print as JSON");
  command->footer("Example: causeway doctor");
  command->callback([as_json] { run_doctor(*as_json); });
}

}  // namespace causeway::cli
