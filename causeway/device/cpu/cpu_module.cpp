#include "causeway/device/cpu/cpu_module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "causeway/base/error.h"

namespace causeway::device {
namespace {

std::string loader_reason() {
  const char* reason = ::dlerror();
  return reason == nullptr ? "no reason given" : reason;
}

// A path to an open file that no earlier call returned: the loader takes a path it has seen for the module it loaded
// from there, and descriptors are reused. The serial number is spelled in separators, which the kernel skips.
std::string unique_path(int file) {
  static std::atomic<uint64_t> next_serial{0};
  std::string path = "/proc/self/fd";
  for (uint64_t serial = next_serial.fetch_add(1); serial != 0; serial /= 2) path += serial % 2 != 0 ? "/." : "//";
  return fmt::format("{}/{}", path, file);
}

}  // namespace

CpuModule::CpuModule(std::string_view image) {
  const int file = ::memfd_create("causeway-kernel", MFD_CLOEXEC);
  if (file < 0) {
    throw Error(ErrorKind::kResource, fmt::format("cannot create memory for a kernel: {}", std::strerror(errno)));
  }
  while (!image.empty()) {
    const ssize_t count = ::write(file, image.data(), image.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      ::close(file);
      throw Error(ErrorKind::kResource, fmt::format("cannot store a kernel in memory: {}", std::strerror(code)));
    }
    image.remove_prefix(static_cast<size_t>(count));
  }
  const std::string path = unique_path(file);
  handle_ = ::dlopen(path.c_str(), RTLD_LOCAL | RTLD_NOW);
  const std::string reason = handle_ == nullptr ? loader_reason() : std::string();
  ::close(file);
  if (handle_ == nullptr) {
    throw Error(ErrorKind::kCorrupt, "a compiled kernel cannot be loaded: " + reason, "",
                "If /proc is not mounted here, mount it; otherwise empty the kernel cache: `causeway cache clear`.");
  }
}

CpuModule::CpuModule(CpuModule&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

CpuModule& CpuModule::operator=(CpuModule&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

CpuModule::~CpuModule() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

DeviceKernel CpuModule::kernel(const std::string& name) const {
  void* symbol = ::dlsym(handle_, name.c_str());
  if (symbol == nullptr) throw Error(ErrorKind::kNotFound, fmt::format("the module has no kernel \"{}\"", name));
  return symbol;
}

}  // namespace causeway::device
