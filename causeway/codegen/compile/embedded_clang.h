// The embedded clang, LLVM and lld behind three functions in plain C++. Nothing here throws and no LLVM type shows:
// the implementation is built without RTTI, as the distribution's LLVM is, and shares no class with the rest.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::codegen {

struct CompilerOutput {
  bool succeeded = false;
  std::string bytes;        // the object file or listing
  std::string diagnostics;  // errors and warnings as clang prints them, empty when there are none
};

enum class CompilerAction { kObject, kAssembly };

// A file the compiler may include: its path and its text, which must be followed by a zero byte in memory.
using VirtualFile = std::pair<std::string_view, std::string_view>;

// Where virtual files are mounted; pass it with -I.
inline constexpr char kVirtualRoot[] = "/kernels";

// Compiles `source` with clang's frontend arguments (those of clang -cc1). It sees `files` under kVirtualRoot and
// nothing of the machine's own file system. Functions with unmangled names are exported from the object, all others are
// hidden. Thread-safe.
CompilerOutput run_embedded_clang(const std::string& source, const std::vector<std::string>& arguments,
                                  std::span<const VirtualFile> files, CompilerAction action);

// Links one object file into a shared object, through memory only. Thread-safe; one link runs at a time and waits for
// the compilations under way, because lld resets LLVM's global options.
CompilerOutput run_embedded_linker(const std::string& object, bool keep_debug_information = false);

// Clang's full version, part of every cache key.
std::string embedded_compiler_version();

}  // namespace causeway::codegen
