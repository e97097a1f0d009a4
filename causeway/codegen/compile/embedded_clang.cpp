#include "causeway/codegen/compile/embedded_clang.h"

#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "causeway/base/file_descriptor.h"
#include "causeway/codegen/compile/gpu_module.h"
#include "causeway/codegen/compile/gpu_passes.h"
#include "clang/AST/ASTConsumer.h"
#include "clang/Basic/Version.h"
#include "clang/CodeGen/BackendUtil.h"
#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/FrontendAction.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "lld/Common/Driver.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/RegisterTargetPassConfigCallback.h"

LLD_HAS_DRIVER(elf)

// The distribution's LLVM was configured with Polly, whose archive it does not ship; this is its one entry point.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {  // NOLINT(readability-identifier-naming): LLVM's name
  return {LLVM_PLUGIN_API_VERSION, "Polly", "none", [](llvm::PassBuilder&) {}};
}

namespace causeway::codegen {
namespace {

// Compilations share it, a link holds it alone.
std::shared_mutex& global_options_mutex() {
  static std::shared_mutex mutex;
  return mutex;
}

// LLVM ends the process where a back end meets what it cannot translate. So back ends run on a thread of their own, and
// one that meets a fatal error stays where it is for ever: LLVM's frames cannot be unwound, and what points into them
// must remain.
class BackEndThread {
 public:
  // Runs `work`; empty, or LLVM's reason for giving up. In the latter case what `work` refers to must never go away.
  template <class Work>
  static std::string run(const Work& work) {
    const auto state = std::make_shared<BackEndThread>();
    std::thread thread([state, &work] {
      current_ = state.get();
      work();
      state->end({});
    });
    std::unique_lock lock(state->mutex_);
    state->ended_signal_.wait(lock, [&] { return state->ended_; });
    lock.unlock();
    state->reason_.empty() ? thread.join() : thread.detach();
    return state->reason_;
  }

  static void on_fatal_error(void*, const char* reason, bool) {
    if (current_ == nullptr) {
      llvm::errs() << "LLVM: " << reason << '\n';
      return;  // LLVM ends the process
    }
    current_->end(*reason == '\0' ? "a fatal error without a reason" : reason);
    for (;;) ::pause();
  }

 private:
  void end(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
    ended_ = true;
    ended_signal_.notify_one();
  }

  static inline thread_local BackEndThread* current_ = nullptr;  // NOLINT(readability-identifier-naming)
  std::mutex mutex_;
  std::condition_variable ended_signal_;
  bool ended_ = false;
  std::string reason_;
};

void initialize_once() {
  static std::once_flag flag;
  std::call_once(flag, [] {
    llvm::install_fatal_error_handler(BackEndThread::on_fatal_error);
    static const llvm::RegisterTargetPassConfigCallback callback(
        [](llvm::TargetMachine& machine, llvm::legacy::PassManagerBase&, llvm::TargetPassConfig* passes) {
          choose_back_end_passes(machine, *passes);
        });
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
  });
}

// Writes into the diagnostics what the back end reports; an error there must not end the process, which is what LLVM
// does by default.
void collect_backend_diagnostic(const llvm::DiagnosticInfo* info, void* context) {
  auto& [text, failed] = *static_cast<std::pair<llvm::raw_string_ostream*, bool>*>(context);
  const char* label = nullptr;
  switch (info->getSeverity()) {
    case llvm::DS_Error:
      label = "error: ";
      failed = true;
      break;
    case llvm::DS_Warning:
      label = "warning: ";
      break;
    case llvm::DS_Remark:
    case llvm::DS_Note:
      return;
  }
  *text << label;
  llvm::DiagnosticPrinterRawOStream printer(*text);
  info->print(printer);
  *text << '\n';
}

// Runs the front end and keeps the module, before any optimisation.
class ModuleAction : public clang::ASTFrontendAction {
 public:
  explicit ModuleAction(llvm::LLVMContext& context) : context_(context) {}

  std::unique_ptr<llvm::Module> take_module() { return std::move(module_); }

 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef file) override {
    auto generator = clang::CreateLLVMCodeGen(compiler, file, context_);
    generator_ = generator.get();
    return generator;
  }

  void EndSourceFileAction() override {
    if (!getCompilerInstance().getDiagnostics().hasErrorOccurred()) module_ = generator_->ReleaseModule();
  }

 private:
  llvm::LLVMContext& context_;
  clang::CodeGenerator* generator_ = nullptr;
  std::unique_ptr<llvm::Module> module_;
};

// One compilation's objects of clang and LLVM. The module goes before its context.
struct CompilerState {
  clang::DiagnosticOptions diagnostic_options;
  std::shared_ptr<clang::CompilerInvocation> invocation = std::make_shared<clang::CompilerInvocation>();
  clang::CompilerInstance compiler{invocation};
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  llvm::SmallVector<char, 0> bytes;
};

void export_kernels(llvm::Module& module) {
  for (llvm::Function& function : module) {
    const llvm::StringRef name = function.getName();
    if (function.isDeclaration() || !function.hasExternalLinkage() || name.starts_with("_Z") || name.starts_with("__"))
      continue;
    function.setVisibility(llvm::GlobalValue::DefaultVisibility);
    function.setDSOLocal(true);
  }
}

}  // namespace

CompilerOutput run_embedded_clang(const std::string& source, const std::vector<std::string>& arguments,
                                  std::span<const VirtualFile> files, CompilerAction action) {
  initialize_once();
  const std::shared_lock lock(global_options_mutex());
  CompilerOutput output;
  llvm::raw_string_ostream diagnostics_stream(output.diagnostics);

  auto file_system = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  const std::string root = std::string(kVirtualRoot) + "/";
  for (const auto& [path, text] : files) {
    file_system->addFile(root + std::string(path), 0,
                         llvm::MemoryBuffer::getMemBuffer(llvm::StringRef(text.data(), text.size()), path));
  }
  constexpr char kSourceName[] = "/kernel.cpp";
  file_system->addFile(kSourceName, 0, llvm::MemoryBuffer::getMemBufferCopy(source, kSourceName));

  auto state = std::make_unique<CompilerState>();
  clang::DiagnosticOptions& options = state->diagnostic_options;
  options.ShowPresumedLoc = true;  // a user's own lines, by #line
  auto* printer = new clang::TextDiagnosticPrinter(diagnostics_stream, options);
  auto diagnostics = llvm::makeIntrusiveRefCnt<clang::DiagnosticsEngine>(
      llvm::makeIntrusiveRefCnt<clang::DiagnosticIDs>(), options, printer);

  std::vector<const char*> argument_pointers;
  for (const std::string& argument : arguments) argument_pointers.push_back(argument.c_str());
  argument_pointers.push_back(kSourceName);
  if (!clang::CompilerInvocation::CreateFromArgs(*state->invocation, argument_pointers, *diagnostics)) return output;

  clang::CompilerInstance& compiler = state->compiler;
  compiler.setDiagnostics(diagnostics);
  compiler.setVerboseOutputStream(std::make_unique<llvm::raw_null_ostream>());
  compiler.setVirtualFileSystem(file_system);
  compiler.createFileManager();

  std::pair<llvm::raw_string_ostream*, bool> backend_state(&diagnostics_stream, false);
  state->context.setDiagnosticHandlerCallBack(collect_backend_diagnostic, &backend_state);
  ModuleAction module_action(state->context);
  if (!compiler.ExecuteAction(module_action)) return output;
  state->module = module_action.take_module();
  if (state->module == nullptr) return output;
  if (const llvm::Triple triple(state->module->getTargetTriple()); triple.isNVPTX() || triple.isAMDGPU()) {
    if (const std::string name = missing_function(*state->module); !name.empty()) {
      output.diagnostics += "error: the kernel calls " + name + ", which no GPU has\n";
      return output;
    }
    apply_launch_bounds(*state->module);
    mark_pure_calls(*state->module);
    compiler.getCodeGenOpts().PassBuilderCallbacks.emplace_back(add_gpu_passes);
  } else {
    export_kernels(*state->module);
  }

  const std::string fatal_error = BackEndThread::run([&] {
    clang::emitBackendOutput(compiler, compiler.getCodeGenOpts(), compiler.getTarget().getDataLayoutString(),
                             state->module.get(),
                             action == CompilerAction::kObject ? clang::Backend_EmitObj : clang::Backend_EmitAssembly,
                             file_system, std::make_unique<llvm::raw_svector_ostream>(state->bytes));
  });
  if (!fatal_error.empty()) {
    output.diagnostics += "error: the back end gave up: " + fatal_error + "\n";
    static_cast<void>(state.release());  // still in use
    return output;
  }
  if (backend_state.second || compiler.getDiagnostics().hasErrorOccurred()) return output;
  output.bytes.assign(state->bytes.begin(), state->bytes.end());
  output.succeeded = true;
  return output;
}

CompilerOutput run_embedded_linker(const std::string& object, bool keep_debug_information) {
  const std::unique_lock lock(global_options_mutex());
  CompilerOutput output;

  // The object is read from an anonymous file; the image is written into a pipe, which lld treats as a plain stream,
  // and drained by a thread. So linking needs no writable directory.
  const FileDescriptor input(::memfd_create("kernel.o", MFD_CLOEXEC));
  Pipe image = make_pipe();
  if (!input || !image.read_end) {
    output.diagnostics = "cannot open an anonymous file for linking";
    return output;
  }
  const bool written = ::write(input.get(), object.data(), object.size()) == static_cast<ssize_t>(object.size());
  std::thread reader([&] {
    char buffer[1 << 16];
    ssize_t count = 0;
    while ((count = ::read(image.read_end.get(), buffer, sizeof buffer)) > 0) {
      output.bytes.append(buffer, static_cast<size_t>(count));
    }
  });

  const std::string input_path = "/proc/self/fd/" + std::to_string(input.get());
  const std::string output_path = "/proc/self/fd/" + std::to_string(image.write_end.get());
  const char* strip = keep_debug_information ? "--discard-all" : "--strip-all";
  const char* arguments[] = {"ld.lld", "-shared",           "--threads=1",     strip, "--hash-style=gnu", "-z", "now",
                             "-o",     output_path.c_str(), input_path.c_str()};
  llvm::raw_string_ostream messages(output.diagnostics);
  llvm::raw_null_ostream nothing;
  lld::Result result{1, true};
  if (written) {
    llvm::CrashRecoveryContext::Enable();
    result = lld::lldMain(arguments, nothing, messages, {{lld::Gnu, &lld::elf::link}});
    llvm::CrashRecoveryContext::Disable();
  }
  image.write_end = FileDescriptor();
  reader.join();
  output.succeeded = result.retCode == 0 && !output.bytes.empty();
  return output;
}

std::string embedded_compiler_version() { return clang::getClangFullVersion(); }

}  // namespace causeway::codegen
