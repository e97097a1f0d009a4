#include "causeway/device/emulator/emulator_module.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/device/emulator/kernel_runtime.h"

namespace causeway::device {
namespace {

// The end of what the loader mapped for the image that begins there.
uintptr_t image_end(uintptr_t begin) {
  struct Search {
    uintptr_t begin;
    uintptr_t end;
  } search{begin, begin};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto& search = *static_cast<Search*>(context);
        if (info->dlpi_addr != search.begin) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) & segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          search.end = std::max<uintptr_t>(search.end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
        }
        return 1;
      },
      &search);
  return search.end;
}

}  // namespace

EmulatorModule::EmulatorModule(std::string_view image, const std::string& device) : module_(image), lines_(image) {
  void* table = nullptr;
  int64_t bytes = 0;
  try {
    table = const_cast<void*>(module_.kernel("causeway_emulator_runtime"));
    bytes = *static_cast<const int64_t*>(module_.kernel("causeway_emulator_runtime_bytes"));
  } catch (const Error&) {
    bytes = 0;
  }
  if (bytes != static_cast<int64_t>(sizeof(EmulatorRuntime))) {
    throw Error(ErrorKind::kCorrupt, "the image was not compiled for this emulator", device,
                "Compile text that includes causeway/kernels/gpu/intrinsics.h for the target of this device; if it "
                "came from the kernel cache, empty that: `causeway cache clear`.");
  }
  *static_cast<const EmulatorRuntime**>(table) = &emulator_runtime();
  Dl_info info;
  if (::dladdr(table, &info) != 0) {
    begin_ = reinterpret_cast<uintptr_t>(info.dli_fbase);
    end_ = image_end(begin_);
  }
}

DeviceKernel EmulatorModule::kernel(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<EmulatedKernel>& kernel = kernels_[name];
  if (kernel == nullptr) {
    auto loaded = std::make_unique<EmulatedKernel>();
    loaded->name = name;
    loaded->entry = reinterpret_cast<void (*)(const void*)>(const_cast<void*>(module_.kernel(name)));
    loaded->module = this;
    kernel = std::move(loaded);
  }
  return kernel.get();
}

std::string EmulatorModule::place(uint64_t offset) const {
  const std::string line = lines_.find(offset);
  return line.empty() ? std::string() : " at " + line;
}

}  // namespace causeway::device
