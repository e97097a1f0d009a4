#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/thread_pool.h"
#include "causeway/cli/commands.h"
#include "causeway/codegen/compiler.h"
#include "causeway/codegen/kernel_cache.h"
#include "causeway/device/cpu/host_target.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/tensor.h"
#include "causeway/train/progress_line.h"

namespace causeway {
namespace {

// Compiles and runs one small kernel; empty when it gave the right answer.
std::string try_a_kernel() {
  try {
    const Tensor x = Tensor::from_values({1, 2, 3}, {3});
    const double total = sum(square(x)).item();
    return total == 14 ? "" : fmt::format("a test kernel gave {} instead of 14", total);
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string try_the_cache() {
  try {
    const std::filesystem::path directory = KernelCache::default_directory();
    if (directory.empty()) return "there is no home directory; kernels are compiled in every run";
    std::filesystem::create_directories(directory);
    const std::filesystem::path probe = directory / fmt::format("doctor-{}", getpid());
    write_file_atomically(probe, std::string_view("probe"));
    std::filesystem::remove(probe);
    return "";
  } catch (const std::exception& error) {
    return fmt::format("{}; kernels are compiled in every run", error.what());
  }
}

void run(bool as_json) {
  const Target& target = host_target();
  const std::string kernel_problem = try_a_kernel(), cache_problem = try_the_cache();
  const uint64_t memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  const std::string matrix = target.has_avx512_bf16() ? "AVX-512 BF16"
                             : target.has_avx512()    ? "AVX-512 (bf16 widened to f32)"
                             : target.has_avx2()      ? "AVX2 (bf16 widened to f32)"
                                                      : "baseline x86-64 (slow)";
  if (as_json) {
    const nlohmann::ordered_json json = {
        {"version", CAUSEWAY_VERSION},
        {"devices",
         {{{"name", "cpu"},
           {"processor", host_processor_name()},
           {"target", target.text()},
           {"threads", available_processors()},
           {"memory_bytes", memory},
           {"matrix_products", matrix},
           {"usable", kernel_problem.empty()},
           {"problem", kernel_problem}}}},
        {"kernel_cache", {{"directory", KernelCache::default_directory().string()}, {"problem", cache_problem}}},
        {"compiler", compiler_fingerprint()}};
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("causeway {}\n\ncpu           {}\n", CAUSEWAY_VERSION,
               kernel_problem.empty() ? "usable" : "NOT usable: " + kernel_problem);
    fmt::print("  processor   {}, {} threads, {} memory\n", host_processor_name(), available_processors(),
               format_bytes(memory));
    fmt::print("  kernels for {}\n  matrices    {}\n", target.text(), matrix);
    fmt::print("\nkernel cache  {}\n  directory   {}\n", cache_problem.empty() ? "usable" : cache_problem,
               KernelCache::default_directory().string());
    fmt::print("\nNVIDIA, AMD   this version runs on the CPU alone\n");
    fmt::print("\nEnvironment variables are not needed. XDG_CACHE_HOME moves the kernel cache.\n");
  }
  if (!kernel_problem.empty()) command_status = 1;
}

}  // namespace

void add_doctor_command(CLI::App& program) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("doctor", "Show what this machine can do, and what is wrong");
  command->add_flag("--json", *as_json, "Print as JSON");
  command->footer("Example: causeway doctor");
  command->callback([as_json] { run(*as_json); });
}

}  // namespace causeway
