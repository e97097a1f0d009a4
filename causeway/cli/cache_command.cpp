// `causeway cache`: what is kept of compiled kernels between runs.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/base/user_cache.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/device/cuda/cuda_driver.h"

namespace causeway::cli {
namespace {

std::string kernels_text(int64_t count) { return fmt::format("{} kernel{}", count, count == 1 ? "" : "s"); }

KernelCacheFiles open_kernel_files() {
  UserCache cache = open_user_cache(KernelCache::kUserCacheName);
  if (!cache.directory)
    throw Error(ErrorKind::kIo, "there is no kernel cache: " + cache.problem, "",
                "Until that is mended, kernels are compiled in every run.");
  return KernelCacheFiles(std::move(*cache.directory));
}

// What NVIDIA's driver keeps, where there is such a directory.
std::optional<PrivateDirectory> open_driver_cache() {
  const UserCache kernels = open_user_cache(KernelCache::kUserCacheName);
  if (!kernels.directory) return std::nullopt;
  try {
    return PrivateDirectory::open(kernels.directory->path().parent_path() / kCudaCacheName);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound) return std::nullopt;
    throw;
  }
}

void show(bool as_json) {
  const UserCache place = open_user_cache(KernelCache::kUserCacheName);
  if (as_json) {
    nlohmann::ordered_json json = {{"directory", ""}, {"problem", place.problem}};
    if (place.directory) {
      const KernelCacheFiles files = open_kernel_files();
      const KernelCacheUsage usage = files.usage();
      json["directory"] = files.path().string();
      json["kernels"] = usage.kernels;
      json["bytes"] = usage.bytes;
      json["limit_bytes"] = files.limit();
      const std::optional<PrivateDirectory> driver = open_driver_cache();
      json["driver_bytes"] = driver ? driver->bytes_below() : 0;
    }
    output_json(json);
    return;
  }
  const KernelCacheFiles files = open_kernel_files();
  if (!place.problem.empty()) output("Not in its usual place: {}\n", place.problem);
  const KernelCacheUsage usage = files.usage();
  output("{:<10}{:>10} of {} at most, compiled kernels in {}: {}\n", "kernels", format_bytes(usage.bytes),
         format_bytes(files.limit()), files.path().string(), usage.kernels);
  if (const std::optional<PrivateDirectory> driver = open_driver_cache())
    output("{:<10}{:>10}, machine code that NVIDIA's driver made of them, in {}\n", "driver",
           format_bytes(driver->bytes_below()), driver->path().string());
}

void prune(const std::string& size) {
  const int64_t bytes = parse_byte_size(size, "cache prune");
  const KernelCacheFiles files = open_kernel_files();
  const KernelCacheUsage removed = files.prune(bytes);
  output("{} removed, {}; {} are left.\n", kernels_text(removed.kernels), format_bytes(removed.bytes),
         format_bytes(files.usage().bytes));
}

void limit(const std::string& size) {
  const int64_t bytes = parse_byte_size(size, "cache limit");
  const KernelCacheFiles files = open_kernel_files();
  files.set_limit(bytes);
  const KernelCacheUsage removed = files.prune(bytes);
  output("At most {} of compiled kernels are kept from now on. {} removed, {}.\n", format_bytes(bytes),
         kernels_text(removed.kernels), format_bytes(removed.bytes));
}

void clear() {
  const KernelCacheUsage removed = open_kernel_files().prune(0);
  output("{} removed, {}.\n", kernels_text(removed.kernels), format_bytes(removed.bytes));
  if (const std::optional<PrivateDirectory> driver = open_driver_cache()) {
    const int64_t bytes = driver->bytes_below();
    driver->remove_everything_below();
    output("What NVIDIA's driver made of them removed, {}.\n", format_bytes(bytes));
  }
}

}  // namespace

void add_cache_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("cache", "Show what is kept of compiled kernels, and remove it");
  command->require_subcommand(0, 1);
  command->footer("Example: causeway cache");
  auto as_json = std::make_shared<bool>(false);
  auto size = std::make_shared<std::string>();
  command->add_flag("--json", *as_json, "Print as JSON");
  command->callback([command, as_json] {
    if (command->get_subcommands().empty()) show(*as_json);
  });
  const auto add = [&](const char* name, const char* description, const char* example) {
    CLI::App* sub = command->add_subcommand(name, description);
    sub->footer(std::string("Example: causeway cache ") + example);
    return sub;
  };
  CLI::App* pruning = add("prune", "Remove the kernels not used for longest, down to a size", "prune 500M");
  pruning->add_option("size", *size, "Bytes to keep, as 500M or 1G")->required();
  pruning->callback([size] { prune(*size); });
  CLI::App* limiting = add("limit", "Set the size that the cache is kept to by itself", "limit 4G");
  limiting->add_option("size", *size, "Bytes, as 500M or 4G")->required();
  limiting->callback([size] { limit(*size); });
  add("clear", "Remove all of it", "clear")->callback([] { clear(); });
}

}  // namespace causeway::cli
