// A vendor's library, opened when the program runs: one build serves machines with and without it.
#pragma once

#include <span>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::device {

// Whether libraries opened later may use the library's symbols: plugins of some are not linked against it.
enum class LibraryScope { kLocal, kGlobal };

// Stays open until the process ends: drivers start threads of their own that outlive any handle.
class VendorLibrary {
 public:
  // Opens the first of `names` (file names or paths) that the system's loader accepts. Throws Error(kNotFound) at
  // `where`, with the loader's reason for the first name and `hint`; `what` is how the message calls it.
  VendorLibrary(std::span<const std::string> names, std::string where, std::string hint,
                const std::string& what = "the driver's library", LibraryScope scope = LibraryScope::kLocal);

  // The name by which it was opened.
  const std::string& path() const { return path_; }

  // Points `function` at the exported function or object of that name. Throws Error(kUnsupported): the library is too
  // old.
  template <typename Function>
  void bind(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(required(name));
  }
  // Null where the library has no such function.
  template <typename Function>
  void bind_if_present(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(find(name));
  }

 private:
  void* find(const char* name) const;
  void* required(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
  std::string where_;
  std::string hint_;
};

}  // namespace causeway::device
