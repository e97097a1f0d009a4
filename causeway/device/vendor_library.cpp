#include "causeway/device/vendor_library.h"

#include <dlfcn.h>

#include "causeway/base/error.h"

namespace causeway::device {

VendorLibrary::VendorLibrary(std::span<const std::string> names, std::string where, std::string hint,
                             const std::string& what, LibraryScope scope)
    : where_(std::move(where)), hint_(std::move(hint)) {
  std::string reason;
  for (const std::string& name : names) {
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | (scope == LibraryScope::kGlobal ? RTLD_GLOBAL : RTLD_LOCAL));
    if (handle_ != nullptr) {
      path_ = name;
      return;
    }
    const char* text = ::dlerror();
    if (reason.empty() && text != nullptr) reason = text;
  }
  throw Error(ErrorKind::kNotFound, fmt::format("{} cannot be opened: {}", what, reason), where_, hint_);
}

void* VendorLibrary::find(const char* name) const { return ::dlsym(handle_, name); }

void* VendorLibrary::required(const char* name) const {
  void* symbol = find(name);
  if (symbol == nullptr) {
    throw Error(ErrorKind::kUnsupported, fmt::format("{} is too old: it has no function {}", path_, name), where_,
                hint_);
  }
  return symbol;
}

}  // namespace causeway::device
