// A kernel of the user's: its text, and an entry point that calls it for every block of threads.
#include "causeway/graph/user_kernel.h"

#include <fmt/format.h>

#include "causeway/codegen/expressions/kernel_writer.h"

namespace causeway::codegen {
namespace {

constexpr int kPartialBytes = 256;  // kernels/block.h keeps partial sums there, before the user's shared memory

class UserKernelWriter : public KernelWriter {
 public:
  explicit UserKernelWriter(const KernelInputs& inputs)
      : KernelWriter(inputs), spec_(*graph_.node(request_.members.front()).attributes.user_kernel) {}

  // On a processor: a block is one thread, and its shared memory the worker's.
  GeneratedKernel write() {
    const std::string call = call_text(), pointers = prologue();
    GeneratedKernel kernel =
        finish(head() +
               "extern \"C\" void kernel(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {\n" +
               pointers + "const Block block{task, 0, 1, static_cast<char*>(scratch)};\n" + call);
    kernel.phases = {phase()};
    return kernel;
  }

  GeneratedKernel write_for_gpu() {
    const std::string call = call_text(), pointers = prologue();
    GeneratedKernel kernel =
        finish(head() + gpu_kernel("kernel", spec_.threads) + pointers +
               fmt::format("const Block block{{task, thread_index(), {}, shared_memory() + {}}};\n", spec_.threads,
                           kPartialBytes) +
               call);
    kernel.phases = {phase()};
    kernel.phases.front().threads = spec_.threads;
    kernel.phases.front().shared_bytes = kPartialBytes + spec_.shared_bytes;
    return kernel;
  }

 private:
  // The compiler's messages name the user's own lines.
  std::string head() const {
    return "#include \"causeway/kernels/block.h\"\n#line 1 \"" + spec_.name + "\"\n" + spec_.source + "\n";
  }

  std::string call_text() {
    std::string arguments;
    for (const Value input : graph_.node(request_.members.front()).inputs) arguments += ", " + pointer(input);
    for (const Value output : request_.members) arguments += ", " + pointer(output);
    for (const Dim& size : spec_.sizes) arguments += ", " + size_argument(size);
    return spec_.name + "(block" + arguments + ");\n}\n";
  }

  KernelPhase phase() const {
    KernelPhase phase;
    phase.function = "kernel";
    phase.tasks = [tasks = spec_.tasks](const SymbolBindings& bindings) { return tasks.evaluate(bindings); };
    phase.scratch_bytes = [bytes = spec_.shared_bytes](const SymbolBindings&) { return int64_t{bytes}; };
    return phase;
  }

  const UserKernelSpec& spec_;
};

}  // namespace

GeneratedKernel write_user_kernel(const KernelInputs& inputs) { return UserKernelWriter(inputs).write(); }

GeneratedKernel write_gpu_user_kernel(const KernelInputs& inputs) { return UserKernelWriter(inputs).write_for_gpu(); }

}  // namespace causeway::codegen
