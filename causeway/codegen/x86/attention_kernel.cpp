// Attention on x86 through kernels/x86/attention.h and attention_gradient.h: operands are computed while they are
// packed, score and mask functions are expanded into the kernel.
#include "causeway/codegen/expressions/attention_writer.h"
#include "causeway/codegen/x86/attention_geometry.h"

namespace causeway::codegen {
namespace {

class X86AttentionWriter : public AttentionWriter {
 public:
  using AttentionWriter::AttentionWriter;

  GeneratedKernel write_attention() {
    read_inputs();
    const Shape& q = graph_.shape(node_.inputs[0]);
    const Shape& k = graph_.shape(node_.inputs[1]);
    const Shape& v = graph_.shape(node_.inputs[2]);
    const std::string text = constants(graph_.dtype(node_.inputs[0]) == DType::kBF16 ? "bf16" : "float");
    const std::string problem_functions = functions();
    std::string members, initialisation;
    declare_sizes(members, initialisation);

    const bool backward = backward_;
    const auto shape = [=, block_q = spec_.block_q, block_k = spec_.block_k](const SymbolBindings& bindings) {
      return AttentionShape{.batch = q[0].evaluate(bindings),
                            .query_heads = q[2].constant(),
                            .kv_heads = k[2].constant(),
                            .query_length = q[1].evaluate(bindings),
                            .key_length = k[1].evaluate(bindings),
                            .head_dim = q[3].constant(),
                            .value_dim = v[3].constant(),
                            .block_q = block_q,
                            .block_k = block_k};
    };
    // Splitting by queries is decided when the kernel is compiled, where the sizes are known by then.
    const bool sizes_known = batch_.is_constant() && query_length_.is_constant() && key_length_.is_constant();
    const int64_t workers = sizes_known ? target_.parallel_units : 0;
    if (!backward) {
      const int64_t splits = sizes_known ? attention_forward_launch(shape({}), workers).query_splits : 1;
      members += fmt::format("static constexpr int64_t query_splits = {};\n", splits);
    }
    const auto launch = [=](const SymbolBindings& bindings) {
      return backward ? attention_backward_launch(shape(bindings)) : attention_forward_launch(shape(bindings), workers);
    };
    const std::string source =
        std::string("#include \"causeway/kernels/elementwise.h\"\n#include \"causeway/kernels/x86/attention") +
        (backward ? "_gradient" : "") + ".h\"\nnamespace {\nstruct Problem {\n" + text +
        problem_members(members, initialisation) + problem_functions + "};\n}\n" +
        entry_point("kernel", backward ? "attention_backward(problem, task, scratch);"
                                       : "attention_forward(problem, task, scratch);");
    GeneratedKernel kernel = finish(source);
    kernel.phases = {{"kernel", [launch](const SymbolBindings& b) { return launch(b).task_count; },
                      [launch](const SymbolBindings& b) { return launch(b).scratch_bytes; }}};
    return kernel;
  }

  GeneratedKernel write_block_map() {
    const Shape& map = graph_.shape(request_.members.front());
    const std::string problem = map_problem();
    const std::string source =
        "#include \"causeway/kernels/elementwise.h\"\n#include \"causeway/kernels/attention_block_map.h\"\n" + problem +
        entry_point("kernel", "attention_block_map(problem, task);");
    GeneratedKernel kernel = finish(source);
    kernel.phases = {{"kernel",
                      [map](const SymbolBindings& bindings) {
                        return map[0].evaluate(bindings) * map[1].evaluate(bindings) * map[2].evaluate(bindings);
                      },
                      [](const SymbolBindings&) { return int64_t{0}; }}};
    return kernel;
  }
};

}  // namespace

GeneratedKernel write_attention_kernel(const KernelInputs& inputs) {
  return X86AttentionWriter(inputs).write_attention();
}

GeneratedKernel write_attention_block_map_kernel(const KernelInputs& inputs) {
  return X86AttentionWriter(inputs).write_block_map();
}

}  // namespace causeway::codegen
