#include "causeway/codegen/compile/compiler.h"

#include <algorithm>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/base/log.h"
#include "causeway/codegen/compile/embedded_clang.h"
#include "causeway/codegen/compile/gpu_passes.h"
#include "causeway/codegen/compile/kernel_text.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {
namespace {

constexpr char kFuseProducts[] = "-ffp-contract=fast";

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
                                                     kFuseProducts,
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

// PTX 8.0 is what drivers of CUDA 12.0 read; inline assembly must not move across branches.
std::vector<std::string> nvptx_arguments(const Target& target) {
  std::vector<std::string> arguments = shared_arguments();
  arguments.insert(arguments.end(), {"-triple", "nvptx64-nvidia-cuda", "-target-cpu", target.processor,
                                     "-target-feature", "+ptx80", "-fconvergent-functions"});
  return arguments;
}

// Code objects of version 5: older runtimes load them, too. LLVM 22 would write version 6.
std::vector<std::string> amdgpu_arguments(const Target& target) {
  std::vector<std::string> arguments = shared_arguments();
  arguments.insert(arguments.end(),
                   {"-triple", "amdgcn-amd-amdhsa", "-target-cpu", target.processor, "-mcode-object-version=5",
                    "-mrelocation-model", "pic", "-pic-level", "2", "-fconvergent-functions"});
  return arguments;
}

// The text runs on this machine's processor, but never for more than every machine has: results are the same on all.
// It is not optimised: small problems, which the emulator is for, take far longer to compile than to run, and less than
// half as long to compile so.
// Checked, every access to memory is reported, through the thread sanitizer's instrumentation and without its runtime.
std::vector<std::string> emulator_arguments(const Target& target) {
  std::vector<std::string> arguments = shared_arguments();
  std::replace(arguments.begin(), arguments.end(), std::string("-O3"), std::string("-O0"));
  // Accesses of 32 bytes would escape the checks.
  std::erase(arguments, "-vectorize-loops");
  std::erase(arguments, "-vectorize-slp");
  arguments.insert(arguments.end(),
                   {"-triple", "x86_64-unknown-linux-gnu", "-target-cpu", "x86-64-v3", "-mrelocation-model", "pic",
                    "-pic-level", "2", "-fconvergent-functions", "-DCAUSEWAY_EMULATOR=1"});
  if (target.has_feature("checked"))
    arguments.insert(arguments.end(), {"-fsanitize=thread", "-debug-info-kind=line-tables-only", "-dwarf-version=4"});
  return arguments;
}

std::vector<std::string> family_arguments(const Target& target) {
  if (!target.is_gpu()) return x86_arguments(target);
  std::vector<std::string> arguments = target.family == Target::Family::kNvptx    ? nvptx_arguments(target)
                                       : target.family == Target::Family::kAmdgpu ? amdgpu_arguments(target)
                                                                                  : emulator_arguments(target);
  arguments.push_back(fmt::format("-D{}", target.architecture().definition));
  return arguments;
}

std::vector<VirtualFile> virtual_files() {
  std::vector<VirtualFile> files;
  for (const KernelTextFile& file : kernel_text_files()) files.emplace_back(file.path, file.text);
  return files;
}

std::string run(const std::string& source, const Target& target, CompilerAction action) {
  std::vector<std::string> arguments = family_arguments(target);
  // Where the command line asks for fusing, the pragma alone has no effect.
  if (source.find(kSeparateRounding) != std::string::npos)
    std::replace(arguments.begin(), arguments.end(), std::string(kFuseProducts), std::string("-ffp-contract=off"));
  CompilerOutput output = run_embedded_clang(source, arguments, virtual_files(), action);
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
  // The driver takes PTX, which is text.
  return run(source, target,
             target.family == Target::Family::kNvptx ? CompilerAction::kAssembly : CompilerAction::kObject);
}

bool links_objects(const Target& target) { return target.family != Target::Family::kNvptx; }

std::string link_module(const std::string& object, const Target& target) {
  if (!links_objects(target)) return object;
  CompilerOutput image = run_embedded_linker(object, target.has_feature("checked"));
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
    std::string text = embedded_compiler_version() + '\n' + kGpuPasses;
    std::vector<Target> targets = {Target{}};
    for (const GpuArchitecture& architecture : gpu_architectures()) {
      targets.push_back(gpu_target(architecture.processor));
      targets.push_back(gpu_target(architecture.processor, true));
      targets.back().add_feature("checked");
    }
    for (const Target& target : targets)
      for (const std::string& argument : family_arguments(target)) text += '\n' + argument;
    for (const KernelTextFile& file : kernel_text_files()) {
      text += fmt::format("\n{} {}\n", file.path, file.text.size());
      text += file.text;
    }
    return hash_text(text).hex();
  }();
  return fingerprint;
}

}  // namespace causeway::codegen
