// Attention on GPUs and its gradients: the problem is found in the graph, planned (attention_plan.h), and written as a
// Problem of kernels/gpu/attention_problem.h. Operands that lie in memory as rows are copied as they are, others are
// computed element by element while they are staged.
#include <algorithm>

#include "causeway/codegen/gpu/attention_launch.h"
#include "causeway/codegen/gpu/attention_operand_writer.h"
#include "causeway/codegen/gpu/attention_tensor_maps.h"

namespace causeway::codegen {
namespace {

class GpuAttentionWriter : public GpuAttentionOperandWriter {
 public:
  using GpuAttentionOperandWriter::GpuAttentionOperandWriter;

  GeneratedKernel write() {
    read_inputs();
    find_operands();
    const GpuAttentionProblem problem = find_problem();
    const GpuAttentionPlan plan = plan_attention(problem, target_.architecture());
    const GpuAttentionLaunch launch = launch_attention(problem, plan, target_.architecture());
    const std::string text = problem_text(plan, launch);
    const bool persistent = std::any_of(launch.kernels.begin(), launch.kernels.end(),
                                        [](const GpuAttentionLaunch::Kernel& one) { return one.run.persistent; });
    const std::string counter = persistent ? task_counter() : "";
    std::string source =
        fmt::format("#include \"causeway/kernels/attention_block_map.h\"\n#include \"{}\"\nnamespace {{\n{}}}\n",
                    launch.include, text);
    for (const GpuAttentionLaunch::Kernel& one : launch.kernels)
      source +=
          gpu_kernel(one.run.function, one.run.threads, one.blocks_per_unit, launch.tensor_maps, one.begins_early) +
          fmt::format("const Problem problem(buffers, sizes);\n{}({});\n}}\n", one.function,
                      one.run.persistent ? "problem, maps, " + counter : "problem, task");
    GeneratedKernel kernel = finish(std::move(source));
    for (const GpuAttentionLaunch::Kernel& one : launch.kernels) kernel.phases.push_back(one.run);
    kernel.workspace_bytes = launch.workspace_bytes;
    kernel.tensor_maps = attention_tensor_maps(mapped_rows(plan));
    return kernel;
  }

  // The first operand that does not lie as rows, and would if it were stored as it is needed.
  std::optional<Obstacle> find_scattered_operand() {
    read_inputs();
    find_operands();
    const std::optional<Value> scattered = scattered_operand();
    if (!scattered || !has_whole_pieces(find_problem())) return std::nullopt;
    return Obstacle{Obstacle::Kind::kScatteredOperand, *scattered};
  }

 private:
  GpuAttentionProblem find_problem() const {
    const int32_t node = request_.members.front().node;
    GpuAttentionProblem problem;
    problem.dtype = graph_.dtype(node_.inputs[0]);
    problem.head_dim = graph_.shape(node_.inputs[0])[3].constant();
    problem.value_dim = graph_.shape(node_.inputs[2])[3].constant();
    problem.batch = batch_;
    problem.query_heads = query_heads_;
    problem.kv_heads = kv_heads_;
    problem.query_length = query_length_;
    problem.key_length = key_length_;
    problem.block_q = spec_.block_q;
    problem.block_k = spec_.block_k;
    problem.has_score = spec_.score != nullptr;
    problem.rounds_to_tf32 = node_.attributes.tf32;
    problem.fixed_order = request_.fixed_order;
    if (backward_)
      problem.gradients = {request_.computes({node, 0}), request_.computes({node, 1}), request_.computes({node, 2})};
    problem.rows = rows();
    return problem;
  }

  std::string problem_text(const GpuAttentionPlan& plan, const GpuAttentionLaunch& launch) {
    const std::string operand = plan.rounds_to_tf32 ? "tf32" : storage_type(graph_.dtype(node_.inputs[0]));
    const std::string of_rows = row_functions(plan);
    const std::string plan_text = attention_tile_text(plan) + access_constants(plan);
    std::string members, initialisation;
    if (launch.takes_workspace) {
      members = "float* workspace;\n";
      initialisation = fmt::format("workspace = {};\n",
                                   launch.workspace_bytes ? buffer_pointer("float", arguments_.size()) : "nullptr");
    }
    if (launch.workspace_bytes) arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    const std::string problem_functions = functions() + of_rows;
    declare_sizes(members, initialisation);
    return "struct Problem {\n" + constants(operand) + plan_text + problem_members(members, initialisation) +
           problem_functions + "};\n";
  }
};

}  // namespace

GeneratedKernel write_gpu_attention_kernel(const KernelInputs& inputs) { return GpuAttentionWriter(inputs).write(); }

std::optional<Obstacle> find_gpu_attention_obstacle(const KernelInputs& inputs) {
  return GpuAttentionWriter(inputs).find_scattered_operand();
}

}  // namespace causeway::codegen
