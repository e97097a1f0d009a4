// A kernel of the user's: its text, and an entry point that calls it for every block of threads.
#include "causeway/graph/user_kernel.h"

#include <fmt/format.h>

#include "causeway/codegen/expressions/kernel_writer.h"

namespace causeway::codegen {
namespace {

constexpr int kPartialBytes = 256;  // kernels/block.h keeps partial sums there, before the user's shared memory

class UserKernelWriter : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

  GeneratedKernel write() {
    const Node& node = graph_.node(request_.members.front());
    const UserKernelSpec& spec = *node.attributes.user_kernel;
    std::string arguments;
    for (const Value input : node.inputs) arguments += ", " + pointer(input);
    for (const Value output : request_.members) arguments += ", " + pointer(output);
    for (const Dim& size : spec.sizes) arguments += ", " + size_argument(size);
    const std::string pointers = prologue();
    // The compiler's messages name the user's own lines.
    std::string source = "#include \"causeway/kernels/block.h\"\n#line 1 \"" + spec.name + "\"\n" + spec.source + "\n";
    GeneratedKernel kernel;
    KernelPhase phase;
    phase.function = "kernel";
    phase.tasks = [tasks = spec.tasks](const SymbolBindings& bindings) { return tasks.evaluate(bindings); };
    phase.scratch_bytes = [bytes = spec.shared_bytes](const SymbolBindings&) { return int64_t{bytes}; };
    if (target_.is_gpu()) {
      source += gpu_kernel("kernel", spec.threads) + pointers +
                fmt::format("const Block block{{task, thread_index(), {}, shared_memory() + {}}};\n", spec.threads,
                            kPartialBytes);
      phase.threads = spec.threads;
      phase.shared_bytes = kPartialBytes + spec.shared_bytes;
    } else {
      source +=
          "extern \"C\" void kernel(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {\n" +
          pointers + "const Block block{task, 0, 1, static_cast<char*>(scratch)};\n";
    }
    source += spec.name + "(block" + arguments + ");\n}\n";
    kernel = finish(std::move(source));
    kernel.phases = {std::move(phase)};
    return kernel;
  }
};

}  // namespace

GeneratedKernel generate_user_kernel(const Graph& graph, const MaterializedValues& materialized,
                                     const KernelRequest& request, const Target& target) {
  return UserKernelWriter(graph, materialized, request, target).write();
}

}  // namespace causeway::codegen
