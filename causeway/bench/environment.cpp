#include "causeway/bench/environment.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <ctime>
#include <set>
#include <sstream>
#include <utility>

#include "causeway/base/byte_size.h"
#include "causeway/base/system_files.h"
#include "causeway/base/thread_pool.h"

namespace causeway::bench {
namespace {

namespace fs = std::filesystem;

std::string operating_system(const fs::path& root) {
  std::istringstream lines(read_system_file(root / "etc" / "os-release"));
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    line.erase(0, kKey.size());
    std::erase_if(line, [](char c) { return c == '"' || c == '\''; });
    return line;
  }
  return {};
}

std::string kernel() {
  utsname names = {};
  if (::uname(&names) != 0) return {};
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

// "2 sockets, 64 cores, 128 threads; 16 may be used".
std::string processors(const std::string& cpuinfo) {
  int threads = 0;
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  std::string socket;
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const auto value = [&](std::string_view key) { return find_value(line, key); };
    if (value("processor")) ++threads;
    if (const auto found = value("physical id")) sockets.insert(socket = *found);
    if (const auto found = value("core id")) cores.insert({socket, *found});
  }
  if (threads == 0) return fmt::format("{} may be used", available_processors());
  const auto plural = [](size_t count, const char* noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  std::string text = plural(static_cast<size_t>(threads), "thread");
  if (!cores.empty()) text = plural(cores.size(), "core") + ", " + text;
  if (!sockets.empty()) text = plural(sockets.size(), "socket") + ", " + text;
  return fmt::format("{}; {} may be used", text, available_processors());
}

std::string memory(const fs::path& root) {
  const auto total = find_value(read_system_file(root / "proc" / "meminfo"), "MemTotal");
  if (!total) return {};
  return format_gib(std::strtoll(total->c_str(), nullptr, 10) * 1024, 1);
}

std::string container(const fs::path& root) {
  std::error_code ignored;
  if (fs::exists(root / ".dockerenv", ignored)) return "Docker";
  if (fs::exists(root / "run" / ".containerenv", ignored)) return "Podman";
  if (fs::exists(root / "singularity.d", ignored) || fs::exists(root / ".singularity.d", ignored)) return "Apptainer";
  const std::string groups = read_system_file(root / "proc" / "1" / "cgroup");
  for (const auto& [word, name] : {std::pair("kubepods", "Kubernetes"),
                                   {"docker", "Docker"},
                                   {"containerd", "containerd"},
                                   {"libpod", "Podman"},
                                   {"lxc", "LXC"}})
    if (groups.find(word) != std::string::npos) return name;
  return "none seen";
}

}  // namespace

std::map<std::string, std::string> describe_environment(const DeviceEnvironment& device, const fs::path& root) {
  const std::string cpuinfo = read_system_file(root / "proc" / "cpuinfo");
  std::map<std::string, std::string> environment = {
      {"operating system", operating_system(root)},
      {"kernel", kernel()},
      {"processor", find_value(cpuinfo, "model name").value_or("")},
      {"processors", processors(cpuinfo)},
      {"memory", memory(root)},
      {"clock governor", read_first_line(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").value_or("")},
      {"container", container(root)},
      {"program", fmt::format("causeway {}", program_version())},
      {"commit", std::string(program_commit())},
      {"compiler", __VERSION__},
      {"kernel compiler", device.compiler},
      {"device", device.product},
      {"driver", device.driver},
  };
  if (const auto flags = find_value(cpuinfo, "flags"))
    environment["virtual machine"] = (*flags + " ").find(" hypervisor ") != std::string::npos ? "yes" : "no";
  std::erase_if(environment, [](const auto& entry) { return entry.second.empty(); });
  return environment;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace causeway::bench
