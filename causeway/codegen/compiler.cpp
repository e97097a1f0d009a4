#include "causeway/codegen/compiler.h"

#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/base/log.h"
#include "causeway/codegen/embedded_clang.h"
#include "causeway/codegen/kernel_text.h"

namespace causeway {
namespace {

// Arguments of clang's front end (-cc1) shared by every family. Freestanding keeps loops from turning into calls of
// memcpy and the like; it is also the default here that floating-point operations neither trap nor set errno.
const std::vector<std::string>& shared_arguments() {
  static const std::vector<std::string> arguments = {"-x",
                                                     "c++",
                                                     "-std=c++20",
                                                     "-O3",
                                                     "-vectorize-loops",
                                                     "-vectorize-slp",
                                                     "-ffreestanding",
                                                     "-fno-rtti",
                                                     "-nostdsysteminc",
                                                     "-nobuiltininc",
                                                     std::string("-I") + kVirtualRoot,
                                                     "-ffp-contract=fast",
                                                     "-fvisibility=hidden",
                                                     "-fno-threadsafe-statics",
                                                     "-mframe-pointer=none",
                                                     "-Wno-pass-failed",
                                                     "-ferror-limit",
                                                     "20"};
  return arguments;
}

std::vector<std::string> x86_arguments(const Target& target) {
  std::vector<std::string> arguments = shared_arguments();
  arguments.insert(arguments.end(),
                   {"-triple", "x86_64-unknown-linux-gnu", "-target-cpu", target.processor, "-mrelocation-model", "pic",
                    "-pic-level", "2", fmt::format("-mprefer-vector-width={}", target.vector_bytes * 8)});
  for (const std::string& feature : target.features) {
    arguments.insert(arguments.end(), {"-target-feature", "+" + feature});
  }
  return arguments;
}

std::vector<VirtualFile> virtual_files() {
  std::vector<VirtualFile> files;
  for (const KernelTextFile& file : kernel_text_files()) files.emplace_back(file.path, file.text);
  return files;
}

std::string run(const std::string& source, const Target& target, CompilerAction action) {
  if (target.family != Target::Family::kX86) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("this build compiles kernels for x86 processors, not for the {} family",
                            target_family_name(target.family)),
                target.text(), "Run on the cpu device.");
  }
  CompilerOutput output = run_embedded_clang(source, x86_arguments(target), virtual_files(), action);
  if (!output.succeeded) {
    throw Error(ErrorKind::kInvalidArgument, "the kernel text does not compile:\n" + output.diagnostics, target.text());
  }
  if (!output.diagnostics.empty()) log_debug("kernel compiler: {}", output.diagnostics);
  return std::move(output.bytes);
}

}  // namespace

std::string compile_module(const std::string& source, const Target& target) {
  return link_module(compile_object(source, target), target);
}

std::string compile_object(const std::string& source, const Target& target) {
  return run(source, target, CompilerAction::kObject);
}

std::string link_module(const std::string& object, const Target& target) {
  CompilerOutput image = run_embedded_linker(object);
  if (!image.succeeded) {
    throw Error(ErrorKind::kInvalidArgument, "the kernel does not link:\n" + image.diagnostics, target.text());
  }
  return std::move(image.bytes);
}

std::string compile_to_assembly(const std::string& source, const Target& target) {
  return run(source, target, CompilerAction::kAssembly);
}

const std::string& compiler_fingerprint() {
  static const std::string fingerprint = [] {
    std::string text = embedded_compiler_version();
    for (const std::string& argument : x86_arguments(Target{})) text += '\n' + argument;
    for (const KernelTextFile& file : kernel_text_files()) {
      text += fmt::format("\n{} {}\n", file.path, file.text.size());
      text += file.text;
    }
    return hash_text(text).hex();
  }();
  return fingerprint;
}

}  // namespace causeway
