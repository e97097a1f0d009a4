// The block map of an attention mask on GPUs, through kernels/gpu/attention_block_map.h.
#include "causeway/codegen/expressions/attention_writer.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/kernels/attention_layout.h"

namespace causeway::codegen {
namespace {

class GpuAttentionBlockMapWriter : public AttentionWriter {
 public:
  using AttentionWriter::AttentionWriter;

  GeneratedKernel write() {
    const Shape& map = graph_.shape(request_.members.front());
    const std::string problem = map_problem();
    std::string source = "#include \"causeway/kernels/gpu/attention_block_map.h\"\n" + problem +
                         gpu_kernel("kernel", kBlockMapThreads) +
                         "const Problem problem(buffers, sizes);\ngpu_attention_block_map(problem, task);\n}\n";
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases = {gpu_phase("kernel", kBlockMapThreads, 0, [map](const SymbolBindings& bindings) {
      return map[0].evaluate(bindings) * map[1].evaluate(bindings) * map[2].evaluate(bindings) *
             attention_block_map_parts(map[3].evaluate(bindings));
    })};
    return kernel;
  }
};

}  // namespace

GeneratedKernel write_gpu_attention_block_map_kernel(const KernelInputs& inputs) {
  return GpuAttentionBlockMapWriter(inputs).write();
}

}  // namespace causeway::codegen
