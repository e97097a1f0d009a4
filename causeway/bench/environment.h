// Where a benchmark ran: what a reader needs to judge a figure or to repeat it. Nothing that names the machine or its
// user.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::bench {

// What only a device's owner knows, each entry left out when empty.
struct DeviceEnvironment {
  std::string product;   // "NVIDIA H200"
  std::string driver;    // "driver for CUDA 13.0"
  std::string compiler;  // of its kernels: compiler_fingerprint()
};

// "operating system", "kernel", "processor", "processors" (with how many may be used), "memory", "clock governor",
// "virtual machine", "container", "program", "commit", "compiler", "kernel compiler", "device", "driver"; what the
// machine does not tell is left out. `root` is where the system's files lie.
std::map<std::string, std::string> describe_environment(const DeviceEnvironment& device = {},
                                                        const std::filesystem::path& root = "/");

// "2026-11-21T07:30:00Z".
std::string utc_now();

// Of this program: "0.1.0".
std::string_view program_version();
// The commit it was built from, 40 digits, with "-modified" behind it where the sources differed from that commit;
// "unknown" when it was built outside its repository.
std::string_view program_commit();

}  // namespace causeway::bench
