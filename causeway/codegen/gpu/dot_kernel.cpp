// GEMMs on GPUs: the problem is found in the graph, planned (gemm_plan.h), and written as a Problem of
// kernels/gpu/gemm.h, or gemm_grouped.h. Operands are read from memory as they lie there, and elementwise values of the
// result are computed while a block has it in shared memory.
#include <algorithm>

#include "causeway/codegen/gpu/gemm_epilogue_writer.h"
#include "causeway/codegen/gpu/gemm_mainloop.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

// What is multiplied, as kernel text has it.
std::string operand_type(const GpuGemmMainloopPlan& mainloop) {
  switch (mainloop.type) {
    case GpuGemmType::kBF16:
      return "bf16";
    case GpuGemmType::kF16:
      return "f16";
    case GpuGemmType::kF32:
      return "float";
    case GpuGemmType::kTf32:
      return "tf32";
    case GpuGemmType::kF8Pair:
      return fmt::format("F8Pair<{}, {}>", storage_type(mainloop.a.dtype), storage_type(mainloop.b.dtype));
  }
  CAUSEWAY_CHECK(false, "no such type of operands");
  return {};
}

// Whether operands are read from memory as another type than they have there.
bool is_reinterpreted(GpuGemmType type) { return type == GpuGemmType::kTf32 || type == GpuGemmType::kF8Pair; }

// "sm_90a".
std::string processors_that_scale_blocks() {
  std::string names;
  for (const GpuArchitecture& architecture : gpu_architectures())
    if (architecture.has_warpgroup_matrix && architecture.has_f8_matrix)
      names += fmt::format("{}{}", names.empty() ? "" : " or ", architecture.processor);
  return names;
}

class GpuDotWriter : public GpuGemmEpilogueWriter {
 public:
  using GpuGemmEpilogueWriter::GpuGemmEpilogueWriter;

  GeneratedKernel write() {
    const Node& node = graph_.node(request_.members.front());
    nest_.find_operands();
    check_no_obstacle(nest_.obstacle());
    if (computes_rows()) {
      own_rows_ = find_rows();
      CAUSEWAY_CHECK(own_rows_, "a GEMM cannot compute the rows of its operand");
    }
    GpuGemmProblem problem = find_problem();
    if (problem.a.value != node.inputs[0] && !computes_rows()) pointer(problem.a.value);
    if (problem.b.value != node.inputs[1]) pointer(problem.b.value);
    const std::string epilogue = this->epilogue();
    check_no_obstacle(nest_.obstacle());
    problem.epilogue = epilogue_outline();

    const std::optional<GpuGemmPlan> plan = plan_gemm(problem, target_.architecture());
    if (!plan)
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("{} has no kernel for this scaled_dot", target_.architecture().processor), node.scope,
                  fmt::format("Multiply on {}, with a constant k and an even number of columns, or scale operands of a "
                              "dot.",
                              processors_that_scale_blocks()));
    return write(problem, *plan, epilogue);
  }

  // What is in the way of computing the first operand's rows.
  std::optional<Obstacle> find_rows_obstacle() {
    nest_.find_operands();
    if (nest_.obstacle() || find_rows()) return nest_.obstacle();
    return Obstacle{Obstacle::Kind::kRowsElsewhere, graph_.node(request_.members.front()).inputs[0]};
  }

 private:
  GpuGemmProblem find_problem() const {
    GpuGemmProblem problem = nest_.problem();
    problem.threads_of_rows = own_rows_ ? own_rows_->function.threads : 0;
    return problem;
  }

  GeneratedKernel write(const GpuGemmProblem& problem, const GpuGemmPlan& plan, const std::string& epilogue) {
    const GpuGemmMainloopPlan& mainloop = plan.mainloop;
    const GpuGemmMainloop& kind = *mainloop.kind;
    const GpuGemmLaunch launch = kind.launch(problem, plan, target_.architecture());
    std::string members, initialisation;
    declare_size("batch", problem.batch, members, initialisation);
    declare_size("m", mainloop.a.lines, members, initialisation);
    declare_size("n", mainloop.b.lines, members, initialisation);
    declare_size("k", mainloop.k, members, initialisation);
    if (problem.scales != GpuGemmScales::kNone) {
      const Node& node = graph_.node(request_.members.front());
      declare_scales("A", "a", node.inputs[2], problem.m, members, initialisation);
      declare_scales("B", "b", node.inputs[3], problem.n, members, initialisation);
    }
    if (problem.groups != GpuGemmGroups::kNone) declare_groups(problem, members, initialisation);
    members += plan_text(plan);
    std::string operands = operand_struct("A", "a", mainloop.a, mainloop, initialisation);
    operands += operand_struct("B", "b", mainloop.b, mainloop, initialisation);
    if (launch.combine) {
      members += "float* workspace;\n";
      initialisation += fmt::format("workspace = {};\n", buffer_pointer("float", arguments_.size()));
      arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    }
    const std::string call = call_text(plan);
    const std::string text = fmt::format("struct Problem {{\nusing Operand = {};\n", operand_type(mainloop)) +
                             operands + problem_members(members, initialisation) + epilogue + sent_text(problem, plan) +
                             "};\n";
    if (own_rows_)
      arguments_.insert(arguments_.end(), own_rows_->function.arguments.begin(), own_rows_->function.arguments.end());
    std::string source = fmt::format("#include \"{}\"\nnamespace {{\n", kind.header) + text + "}\n" +
                         (own_rows_ ? own_rows_->function.text : "") +
                         gpu_kernel(launch.run.function, launch.run.threads, launch.blocks_per_unit, launch.tensor_maps,
                                    launch.begins_early) +
                         "const Problem problem(buffers, sizes);\n" + call + "\n}\n";
    if (launch.combine)
      source += gpu_kernel(launch.combine->function, launch.combine->threads, 1, launch.tensor_maps) +
                fmt::format("const Problem problem(buffers, sizes);\n{}(problem, task);\n}}\n", kind.combine);
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases.push_back(launch.run);
    if (launch.combine) kernel.phases.push_back(*launch.combine);
    kernel.workspace_bytes = launch.workspace_bytes;
    if (kind.tensor_maps != nullptr) {
      std::vector<int> at_result;
      if (plan.epilogue.stores_by_tma)
        for (const Value value : this->at_result()) at_result.push_back(argument(value));
      kernel.tensor_maps =
          kind.tensor_maps(problem, plan, argument(mainloop.a.value), argument(mainloop.b.value), at_result);
    }
    return kernel;
  }

  // The position of a tensor among the arguments.
  int argument(Value value) const {
    const auto found = std::find_if(arguments_.begin(), arguments_.end(), [&](const KernelArgument& candidate) {
      return candidate.kind == KernelArgument::Kind::kValue && candidate.value == value;
    });
    return static_cast<int>(found - arguments_.begin());
  }

  // The Problem's members that say how it is computed.
  static std::string plan_text(const GpuGemmPlan& plan) {
    return fmt::format("static constexpr int kStoreLanes = {};\n{}static constexpr int kSplits = {};\n",
                       plan.epilogue.store_lanes, plan.mainloop.kind->members(plan), plan.scheduler.splits);
  }

  static std::string sent_text(const GpuGemmProblem& problem, const GpuGemmPlan& plan) {
    if (!plan.epilogue.stores_by_tma) return {};
    const auto& [members, stored, fetched] = problem.epilogue;
    const bool reads_others = !fetched.empty() && size_bytes(fetched.front()) != size_bytes(stored.front());
    return fmt::format("using TmaStored = {};\nstatic constexpr int kTmaStored = {};\n{}", storage_type(stored.front()),
                       stored.size(),
                       reads_others ? fmt::format("using TmaFetched = {};\n", storage_type(fetched.front())) : "");
  }

  // The statement that runs the mainloop. Appends the argument that tasks are counted with.
  std::string call_text(const GpuGemmPlan& plan) {
    const GpuGemmMainloop& kind = *plan.mainloop.kind;
    const std::string maps = kind.tensor_maps != nullptr ? ", maps" : "";
    const std::string task = plan.scheduler.persistent ? task_counter() : "task";
    const std::string rows = kind.own_rows == nullptr ? ""
                             : own_rows_
                                 ? fmt::format(", [&] {{ compute_rows(buffers + {}, sizes); }}", arguments_.size())
                                 : ", [] {}";
    return fmt::format("{}(problem{}, {}{});", kind.run, maps, task, rows);
  }

  bool computes_rows() const { return !request_.row_members.empty(); }

  // What every block computes of A before its tile.
  struct OwnRows {
    GpuRowFunction function;
    int shared_offset;
  };
  std::optional<OwnRows> find_rows() const {
    const GpuGemmProblem problem = find_problem();
    const Value a = problem.a.value;
    const bool is_row_member =
        std::find(request_.row_members.begin(), request_.row_members.end(), a) != request_.row_members.end();
    const std::optional<GpuGemmOwnRows> rows = plan_own_rows(problem, target_.architecture());
    if (!is_row_member || !rows || !(element_count(graph_.shape(a)) == problem.m * problem.k)) return std::nullopt;
    KernelRequest loop;
    loop.members = request_.row_members;
    for (const Value member : loop.members) loop.stored.push_back(member == a);
    loop.rows = request_.rows;
    loop.columns = request_.columns;
    std::optional<GpuRowFunction> function =
        write_gpu_row_function({graph_, materialized_, loop, target_}, a, rows->shared_offset);
    if (!function || !function->sizes.empty() || function->threads > rows->most_threads) return std::nullopt;
    return OwnRows{std::move(*function), rows->shared_offset};
  }

  // As gemm_grouped.h asks for them.
  void declare_groups(const GpuGemmProblem& problem, std::string& members, std::string& initialisation) {
    declare_size("slabs", problem.slabs, members, initialisation);
    declare_size("groups", problem.group_count, members, initialisation);
    members += fmt::format(
        "static constexpr bool kSumsRows = {};\n"
        "CAUSEWAY_INLINE int64_t offset(int64_t slab, int64_t i) const {{ return {}[slab * (groups + 1) + i]; }}\n",
        problem.groups == GpuGemmGroups::kOfTerms, pointer(graph_.node(request_.members.front()).inputs[2]));
  }

  // Of an operand's blocks, as gemm.h asks for them.
  void declare_scales(const std::string& type, const std::string& name, Value scales, const Dim& lines,
                      std::string& members, std::string& initialisation) {
    const Dim& in_block = graph_.shape(scales)[1];
    declare_size(name + "_scale_count", in_block, members, initialisation);
    members += fmt::format(
        "const float* {0}_scales;\nstatic constexpr int k{1}LinesOfScale = {2};\n"
        "CAUSEWAY_INLINE const float* {0}_scale(int64_t line, int64_t block) const {{\n"
        "return {0}_scales + block * {0}_scale_count + line / k{1}LinesOfScale;\n}}\n",
        name, type, in_block == lines ? 1 : kScaledBlock);
    initialisation += fmt::format("{}_scales = {};\n", name, pointer(scales));
  }

  std::string operand_struct(const std::string& type, const std::string& name, const GpuGemmOperand& operand,
                             const GpuGemmMainloopPlan& mainloop, std::string& initialisation) {
    const std::string element = is_reinterpreted(mainloop.type) ? operand_type(mainloop) : storage_type(operand.dtype);
    std::string members, body, coordinates;
    const auto declare = [&](const std::string& member, const Dim& value) {
      if (value.is_constant()) {
        members += fmt::format("static constexpr int64_t {} = {};\n", member, value.constant());
      } else {
        members += fmt::format("int64_t {};\n", member);
        initialisation += fmt::format("{}.{} = {};\n", name, member, symbols_.text(value));
      }
    };
    members += fmt::format(
        "using Element = {};\nstatic constexpr bool kContiguousInK = {};\nstatic constexpr bool kAligned = {};\n"
        "const Element* data;\n",
        element, operand.contiguous_in_k, operand.aligned);
    // As an argument, so that the parts of one tensor share a kernel.
    const std::string offset = operand.offset.is_constant(0) ? "" : " + " + size_argument(operand.offset);
    const std::string data =
        &operand == &mainloop.a && own_rows_
            ? fmt::format("reinterpret_cast<const {}*>(shared_memory() + {})", element, own_rows_->shared_offset)
        : is_reinterpreted(mainloop.type)
            ? fmt::format("reinterpret_cast<const {}*>({})", element, pointer(operand.value))
            : pointer(operand.value);
    initialisation += fmt::format("{}.data = {}{};\n", name, data, offset);
    declare("stride", operand.stride);
    std::string rest = "batch_index";
    for (size_t i = operand.batch.size(); i-- > 0;) {
      declare(fmt::format("batch_stride{}", i), operand.batch[i].stride);
      std::string index = rest;
      if (i != 0) {
        declare(fmt::format("batch_extent{}", i), operand.batch[i].extent);
        index = fmt::format("{} % batch_extent{}", rest, i);
        rest = fmt::format("{} / batch_extent{}", rest, i);
      }
      body += fmt::format("{}({}) * batch_stride{}", body.empty() ? "" : " + ", index, i);
      coordinates += fmt::format(", static_cast<int>({})", index);
    }
    std::string functions =
        fmt::format("CAUSEWAY_INLINE int64_t batch_offset(int64_t batch_index) const {{ return {}; }}\n",
                    body.empty() ? "0" : body);
    if (mainloop.kind->tensor_maps != nullptr) {
      const std::string parameters =
          "(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int contiguous, int other, "
          "int64_t batch_index";
      const std::string arguments = "(shared, map, barrier, contiguous, other" + coordinates;
      functions += fmt::format("static constexpr int kMapRank = {};\n", 2 + operand.batch.size());
      functions += "CAUSEWAY_INLINE void load" + parameters + ") const { tensor_load" + arguments + "); }\n";
      if (operand.batch.size() <= 1)
        functions += "CAUSEWAY_INLINE void load_multicast" + parameters +
                     ", uint16_t block_mask) const { tensor_load_multicast" + arguments + ", block_mask); }\n";
    }
    return fmt::format("struct {} {{\n{}{}}};\n{} {};\n", type, members, functions, type, name);
  }

  std::optional<OwnRows> own_rows_;
};

}  // namespace

GeneratedKernel write_gpu_dot_kernel(const KernelInputs& inputs) { return GpuDotWriter(inputs).write(); }

bool gpu_gemm_hides_epilogue(const Graph& graph, const KernelRequest& gemm, Value value, const Target& target) {
  const Value result = gemm.members.front();
  GpuGemmProblem problem;
  problem.a.dtype = graph.dtype(graph.node(result).inputs[0]);
  problem.n = graph.shape(result).back();
  problem.fixed_order = gemm.fixed_order;
  for (const Value member : gemm.members) problem.epilogue.members.push_back(graph.dtype(member));
  problem.epilogue.members.push_back(graph.dtype(value));
  problem.epilogue.stored = problem.epilogue.members;
  return hides_epilogue(problem, target.architecture());
}

std::optional<Obstacle> find_gpu_dot_obstacle(const KernelInputs& inputs) {
  if (!inputs.request.row_members.empty())
    if (const auto obstacle = GpuDotWriter(inputs).find_rows_obstacle()) return obstacle;
  GpuGemmNest nest(inputs);
  nest.find_operands();
  nest.begin_result();
  ElementWalk analysis(inputs.graph, nest, nest.variables());
  nest.walk_result(analysis, [](size_t, const ElementValue&) {});
  return nest.obstacle();
}

}  // namespace causeway::codegen
