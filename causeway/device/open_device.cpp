#include "causeway/device/open_device.h"

#include <charconv>
#include <functional>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/base/field_words.h"
#include "causeway/base/log.h"
#include "causeway/base/named_values.h"
#include "causeway/base/thread_pool.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/cpu/host_memory.h"
#include "causeway/device/cpu/host_target.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {
namespace {

// "cuda:sm_80, hip:gfx90a"
std::string gpu_target_names() {
  std::string names;
  for (const GpuArchitecture& architecture : gpu_architectures())
    names += fmt::format("{}{}:{}", names.empty() ? "" : ", ", architecture.driver, architecture.processor);
  return names;
}

std::string device_names() {
  return fmt::format(
      "Devices: auto, cpu, cpu:LEVEL, cuda, cuda:N, hip, hip:N (N counts GPUs from 0), emulator:ARCHITECTURE ({}).",
      gpu_architecture_names(false));
}

enum class DeviceKind { kAuto, kCpu, kCuda, kHip, kEmulator };
constexpr auto named_values(DeviceKind) {
  return std::to_array<NamedValue<DeviceKind>>({{DeviceKind::kAuto, "auto"},
                                                {DeviceKind::kCpu, "cpu"},
                                                {DeviceKind::kCuda, "cuda"},
                                                {DeviceKind::kHip, "hip"},
                                                {DeviceKind::kEmulator, "emulator"}});
}

// "cuda:1" in two parts; `detail` is what follows the colon.
struct Spec {
  DeviceKind kind = DeviceKind::kAuto;
  std::string detail;
  bool has_detail = false;

  bool is_vendors_gpu() const { return kind == DeviceKind::kCuda || kind == DeviceKind::kHip; }
};

Spec split(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::optional<DeviceKind> kind = value_named<DeviceKind>(name);
  if (!kind) {
    const std::string hint = name_hint(NameOf::kDevice, name, names_of<DeviceKind>());
    throw Error(ErrorKind::kInvalidArgument, fmt::format("there is no device '{}'", text), "device",
                hint + (hint.empty() ? "" : " ") + device_names());
  }
  const Spec spec{*kind, colon == std::string::npos ? "" : text.substr(colon + 1), colon != std::string::npos};
  if (spec.has_detail && spec.kind == DeviceKind::kAuto) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("there is no device '{}': there is one {}", text, name),
                "device", fmt::format("Write {}.", name));
  }
  if (spec.kind == DeviceKind::kEmulator && spec.detail.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "the emulator needs an architecture to imitate", "device",
                fmt::format("Write, for example, emulator:{}.", gpu_architectures().front().processor));
  }
  return spec;
}

// cpu, or cpu:x86-64-v3 for its kernels of a lower level.
Target processor_target(const Spec& spec) {
  return spec.has_detail ? host_target_of_level(spec.detail) : host_target();
}

int gpu_index(const Spec& spec) {
  if (!spec.has_detail) return 0;
  int index = 0;
  const char* end = spec.detail.data() + spec.detail.size();
  const auto [stop, problem] = std::from_chars(spec.detail.data(), end, index);
  if (problem != std::errc() || stop != end || index < 0) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not the number of a GPU", spec.detail), "device",
                fmt::format("Write {0}, or {0}:0, {0}:1 and so on; `causeway doctor` lists what is here. Commands that "
                            "only compile take an architecture as well.",
                            spec.kind));
  }
  return index;
}

// Which devices run kernels of it.
std::string devices_of(const std::string& architecture) {
  const std::string_view driver = gpu_architecture(architecture).driver;
  return fmt::format("Leave it out, or set device to {0} or emulator:{1}; {0}:{1} where nothing is to run.", driver,
                     architecture);
}

// `own`: what the device does run; empty where that is not known.
[[noreturn]] void refuse_architecture(const std::string& spec, const std::string& architecture,
                                      const std::string& own = {}) {
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{} does not run kernels of {}{}", spec, architecture,
                          own.empty() ? "" : fmt::format(": its own are {}, and no others run there", own)),
              "device_architecture", devices_of(architecture));
}

std::shared_ptr<Device> open_emulator(const std::string& processor) {
  gpu_architecture(processor);  // names the known ones where this is none
  return std::make_shared<EmulatorDevice>(processor, EmulatorOptions());
}

// The first of a vendor's GPUs that can be opened, or null.
std::shared_ptr<Device> first_usable(const std::function<int()>& count,
                                     const std::function<std::shared_ptr<Device>(int)>& open) {
  const auto explain = [](const Error& error) {
    log_at(error.kind() == ErrorKind::kNotFound ? LogLevel::kDebug : LogLevel::kInfo, "a GPU is not used: {}",
           error.what());
  };
  try {
    const int devices = count();
    for (int index = 0; index < devices; ++index) {
      try {
        return open(index);
      } catch (const Error& error) {
        explain(error);
      }
    }
  } catch (const Error& error) {
    explain(error);
  }
  return nullptr;
}

std::shared_ptr<Device> open_best(const DeviceLibraries& libraries, const std::string& architecture) {
  const std::string_view driver = architecture.empty() ? "" : gpu_architecture(architecture).driver;
  std::shared_ptr<Device> device;
  if (driver != "hip")
    device = first_usable(
        [&] { return CudaDevice::count(libraries.cuda); },
        [&](int index) { return std::make_shared<CudaDevice>(CudaOptions{index, libraries.cuda, architecture}); });
  if (device == nullptr && driver != "cuda") {
    device = first_usable([&] { return HipDevice::count(libraries.hip); },
                          [&](int index) {
                            auto gpu = std::make_shared<HipDevice>(HipOptions{index, libraries.hip});
                            require_architecture(gpu->target(), architecture, gpu->name());
                            return gpu;
                          });
  }
  if (device == nullptr && !architecture.empty())
    throw Error(ErrorKind::kNotFound, fmt::format("no GPU here runs kernels of {}", architecture),
                "device_architecture", "Leave it out, or see with `causeway doctor` what is here and why not.");
  if (device == nullptr) device = std::make_shared<CpuDevice>();
  log_debug("device: {} ({})", device->name(), device->target().text());
  return device;
}

DeviceDescription describe_processor() {
  DeviceDescription description;
  description.spec = "cpu";
  description.product = host_processor_name();
  description.architecture = host_target().text();
  description.parallel_units = available_processors();
  const HostMemory memory = host_memory();
  description.memory_total = memory.total_bytes;
  description.memory_free = memory.available_bytes;
  description.found = description.usable = true;
  return description;
}

DeviceDescription unusable(const std::string& spec, const std::exception& problem) {
  DeviceDescription description;
  description.spec = spec;
  description.problem = problem.what();
  if (const auto* error = dynamic_cast<const Error*>(&problem)) {
    description.problem = error->message();
    description.advice = error->hint();
    description.found = error->kind() != ErrorKind::kNotFound;
  }
  return description;
}

void describe_vendor(const std::string& name, const std::function<int()>& count,
                     const std::function<GpuInfo(int)>& open, std::vector<DeviceDescription>& descriptions) {
  int devices = 0;
  try {
    devices = count();
  } catch (const std::exception& problem) {
    descriptions.push_back(unusable(name, problem));
  }
  for (int index = 0; index < devices; ++index) {
    const std::string spec = fmt::format("{}:{}", name, index);
    try {
      const GpuInfo info = open(index);
      descriptions.push_back({spec, info.product, info.processor, info.architectures, info.software,
                              info.parallel_units, info.memory_total, info.memory_free, true, true, "", ""});
    } catch (const std::exception& problem) {
      descriptions.push_back(unusable(spec, problem));
    }
  }
}

}  // namespace

std::shared_ptr<Device> open_device(const std::string& text, const DeviceLibraries& libraries,
                                    const std::string& architecture) {
  const Spec spec = split(text);
  if (!architecture.empty()) gpu_architecture(architecture);  // names the known ones where this is none
  // Whether the other vendor's driver is here does not matter.
  if (spec.is_vendors_gpu() && !architecture.empty() && gpu_architecture(architecture).driver != name_of(spec.kind))
    refuse_architecture(text, architecture);
  std::shared_ptr<Device> device;
  switch (spec.kind) {
    case DeviceKind::kAuto:
      return open_best(libraries, architecture);
    case DeviceKind::kCuda:
      return std::make_shared<CudaDevice>(CudaOptions{gpu_index(spec), libraries.cuda, architecture});
    case DeviceKind::kCpu:
      device = std::make_shared<CpuDevice>(processor_target(spec));
      break;
    case DeviceKind::kHip:
      device = std::make_shared<HipDevice>(HipOptions{gpu_index(spec), libraries.hip});
      break;
    case DeviceKind::kEmulator:
      device = open_emulator(spec.detail);
      break;
  }
  require_architecture(device->target(), architecture, text);
  return device;
}

void require_architecture(const Target& target, const std::string& architecture, const std::string& spec) {
  if (architecture.empty()) return;
  if (gpu_architecture(architecture); target.is_gpu() && target.processor == architecture) return;
  if (!target.is_gpu())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the processor does not run kernels of {}", architecture),
                "device_architecture", devices_of(architecture));
  if (target.family == Target::Family::kEmulator)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} imitates {} and does not run kernels of {}", spec, target.processor, architecture),
                "device_architecture", devices_of(architecture));
  refuse_architecture(spec, architecture, target.processor);
}

std::string product_name(Device& device) {
  if (auto* gpu = dynamic_cast<GpuDevice*>(&device)) return gpu->info().product;
  return device.target().is_gpu() ? device.name() : host_processor_name();
}

std::string device_of_local_rank(const std::string& device, std::optional<int> local_rank,
                                 const std::string& architecture, const DeviceLibraries& libraries) {
  if (!local_rank) return device;
  const std::string_view driver = architecture.empty() ? "" : gpu_architecture(architecture).driver;
  const auto numbered = [&](const std::string& name, const std::function<int()>& count) -> std::string {
    if (device != name && (device != "auto" || (!driver.empty() && driver != name))) return "";
    int devices = 0;
    try {
      devices = count();
    } catch (const Error&) {  // whoever opens it says why
    }
    if (devices <= 1) return "";
    if (*local_rank >= devices)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("this machine has {} GPUs, and process {} on it has none left", devices, *local_rank + 1),
                  "device", "Start no more processes on a machine than it has GPUs.");
    return fmt::format("{}:{}", name, *local_rank);
  };
  std::string chosen = numbered("cuda", [&] { return CudaDevice::count(libraries.cuda); });
  if (chosen.empty()) chosen = numbered("hip", [&] { return HipDevice::count(libraries.hip); });
  return chosen.empty() ? device : chosen;
}

Target parse_target(const std::string& text) {
  const Spec spec = split(text);
  if (spec.kind == DeviceKind::kCpu) return processor_target(spec);
  if (spec.kind == DeviceKind::kEmulator) return gpu_target(spec.detail, true);
  if (spec.kind == DeviceKind::kAuto || spec.detail.empty()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' does not say which architecture to compile for", text),
                "device", fmt::format("Write one of {} or cpu.", gpu_target_names()));
  }
  const GpuArchitecture& architecture = gpu_architecture(spec.detail);
  if (architecture.driver != name_of(spec.kind)) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} has no architecture {}", spec.kind, spec.detail), "device",
                fmt::format("Did you mean {}:{}?", architecture.driver, spec.detail));
  }
  return gpu_target(spec.detail);
}

std::vector<DeviceDescription> describe_devices(const DeviceLibraries& libraries) {
  std::vector<DeviceDescription> descriptions = {describe_processor()};
  describe_vendor(
      "cuda", [&] { return CudaDevice::count(libraries.cuda); },
      [&](int index) { return CudaDevice({index, libraries.cuda}).info(); }, descriptions);
  describe_vendor(
      "hip", [&] { return HipDevice::count(libraries.hip); },
      [&](int index) { return HipDevice({index, libraries.hip}).info(); }, descriptions);
  return descriptions;
}

}  // namespace causeway::device
