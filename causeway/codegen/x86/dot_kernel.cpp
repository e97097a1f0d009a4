// GEMMs on x86-64 (kernels/x86/gemm.h, and gemm_grouped.h): operands are computed while they are packed, and
// elementwise values of the result are computed while it is in registers.
#include <algorithm>

#include "causeway/codegen/expressions/gemm_nest.h"
#include "causeway/codegen/expressions/problem_writer.h"
#include "causeway/codegen/x86/gemm_mainloop.h"
#include "causeway/graph/op.h"
#include "causeway/kernels/x86/gemm_grouped_layout.h"

namespace causeway::codegen {
namespace {

X86Level x86_level(const Target& target) {
  if (target.has_amx_bf16()) return X86Level::kAmxBf16;
  if (target.has_avx512_bf16()) return X86Level::kAvx512Bf16;
  if (target.has_avx512()) return X86Level::kAvx512;
  return target.has_avx2() ? X86Level::kAvx2 : X86Level::kPortable;
}

class DotWriter : public ProblemWriter {
 public:
  explicit DotWriter(const KernelInputs& inputs) : ProblemWriter(inputs), nest_(inputs) {}

  GeneratedKernel write() {
    const Node& node = graph_.node(request_.members.front());
    const auto& [batch_shape, batch, m, n, k] = nest_.sizes();
    const bool bf16_operands = graph_.dtype(node.inputs[0]) == DType::kBF16;
    const bool grouped = node.op == Op::kGroupedDot;

    GemmProblem problem{bf16_operands, known_size(batch), known_size(m),
                        known_size(n), known_size(k),     request_.fixed_order};
    if (node.op == Op::kScaledDot)
      throw Error(ErrorKind::kUnsupported, "a processor has no kernel for scaled_dot", node.scope,
                  "Scale operands of a dot.");
    GemmMachine machine;
    machine.level = x86_level(target_);
    machine.threads = target_.parallel_units;
    const auto [mainloop, blocks] = grouped ? plan_grouped_gemm(problem, machine) : plan_gemm(problem, machine);
    const GemmMainloop::Prefetches prefetches =
        mainloop->prefetches != nullptr && !grouped ? mainloop->prefetches(blocks) : GemmMainloop::Prefetches{};

    std::string functions;
    bool a_contiguous_in_k = false, b_contiguous_in_k = false;
    functions += operand("A", "a", "m", "int64_t batch_index, int64_t m_index, int64_t k_index", m, node.inputs[0],
                         !node.attributes.transpose_a, prefetches.a, a_contiguous_in_k);
    functions += operand("B", "b", "n", "int64_t batch_index, int64_t k_index, int64_t n_index", n, node.inputs[1],
                         node.attributes.transpose_b, prefetches.b, b_contiguous_in_k);
    functions += epilogue(blocks, prefetches.epilogue);
    // Elements of a bf16 operand are rounded where they are computed.
    if (bf16_operands && !blocks.pairs && !gemm_is_skinny(blocks))
      functions += "static constexpr bool kOperandsAreRounded = true;\n";
    check_no_obstacle(nest_.obstacle());
    const std::string plan = plan_text(blocks, bf16_operands, a_contiguous_in_k, b_contiguous_in_k);
    if (grouped) return write_grouped(node, *mainloop, blocks, functions, plan);

    const KernelArgument workspace{KernelArgument::Kind::kWorkspace, {}, true};
    const size_t workspace_argument = arguments_.size();
    arguments_.push_back(workspace);
    std::string members, initialisation;
    declare_size("batch", batch, members, initialisation);
    declare_size("m", m, members, initialisation);
    declare_size("n", n, members, initialisation);
    declare_size("k", k, members, initialisation);
    members += "void* workspace;\n";
    initialisation += fmt::format("workspace = buffers[{}];\n", workspace_argument);
    const std::string source =
        fmt::format("#include \"causeway/kernels/elementwise.h\"\n#include \"{}\"\n", mainloop->header) +
        "namespace {\nstruct Problem {\n" + plan + problem_members(members, initialisation) + functions + "};\n}\n" +
        (mainloop->pack ? entry_point("kernel_pack", fmt::format("{}(problem, task);", *mainloop->pack)) : "") +
        entry_point("kernel_run", fmt::format("{}(problem, task, scratch);", mainloop->run));
    GeneratedKernel kernel = finish(source);
    const auto launch = [blocks = blocks, sizes = nest_.sizes()](const SymbolBindings& bindings) {
      return gemm_launch(blocks, sizes.batch.evaluate(bindings), sizes.m.evaluate(bindings), sizes.n.evaluate(bindings),
                         sizes.k.evaluate(bindings));
    };
    if (mainloop->pack)
      kernel.phases.push_back({"kernel_pack", [launch](const SymbolBindings& b) { return launch(b).pack_tasks; },
                               [](const SymbolBindings&) { return int64_t{0}; }});
    kernel.phases.push_back({"kernel_run", [launch](const SymbolBindings& b) { return launch(b).run_tasks; },
                             [launch](const SymbolBindings& b) { return launch(b).scratch_bytes; }});
    kernel.workspace_bytes = [launch](const SymbolBindings& b) { return launch(b).workspace_bytes; };
    return kernel;
  }

  bool is_stored(Value value) override { return nest_.is_stored(value); }
  std::optional<ElementValue> variable(Value value, const Index& linear) override {
    return nest_.variable(value, linear);
  }
  void note_load(Value value, const Index& linear) override {
    nest_.note_load(value, linear);
    loads_.emplace_back(value, linear);
  }

 private:
  // How the operands lie and are multiplied.
  static std::string plan_text(const GemmBlocks& blocks, bool bf16_operands, bool a_contiguous_in_k,
                               bool b_contiguous_in_k) {
    return fmt::format(
        "using Operand = {};\nstatic constexpr bool kAContiguousInK = {};\n"
        "static constexpr bool kBContiguousInN = {};\n{}\n",
        bf16_operands ? "bf16" : "float", a_contiguous_in_k, !b_contiguous_in_k, gemm_blocks_text(blocks));
  }

  // A grouped_dot (kernels/x86/gemm_grouped.h), from its loads and its store.
  GeneratedKernel write_grouped(const Node& node, const GemmMainloop& mainloop, const GemmBlocks& blocks,
                                const std::string& functions, const std::string& plan) {
    const auto& [batch_shape, batch, m, n, k] = nest_.sizes();
    const bool sums_rows = node.attributes.transpose_a;
    const Dim slabs = graph_.shape(node.inputs[2])[0], groups = graph_.shape(node.inputs[2])[1] - Dim(1);
    std::string members, initialisation;
    declare_size("slabs", slabs, members, initialisation);
    declare_size("groups", groups, members, initialisation);
    declare_size("m", m, members, initialisation);
    declare_size("n", n, members, initialisation);
    declare_size("k", k, members, initialisation);
    const std::string offset = fmt::format(
        "static constexpr bool kSumsRows = {};\n"
        "CAUSEWAY_INLINE int64_t offset(int64_t slab, int64_t i) const {{ return {}[slab * (groups + 1) + i]; }}\n",
        sums_rows, pointer(node.inputs[2]));
    GeneratedKernel kernel =
        finish(fmt::format("#include \"causeway/kernels/elementwise.h\"\n#include \"{}\"\n"
                           "#include \"causeway/kernels/x86/gemm_grouped.h\"\n",
                           mainloop.header) +
               "namespace {\nstruct Problem {\n" + plan + problem_members(members, initialisation) + offset +
               functions + "};\n}\n" + entry_point("kernel_run", "grouped_gemm_run(problem, task, scratch);"));
    const SizeFunction tasks = [=, batch = batch, m = m, n = n](const SymbolBindings& b) {
      return sums_rows
                 ? gemm_run_tasks(blocks, batch.evaluate(b), m.evaluate(b), n.evaluate(b))
                 : grouped_gemm_row_tasks(blocks, slabs.evaluate(b), groups.evaluate(b), m.evaluate(b), n.evaluate(b));
    };
    kernel.phases.push_back({"kernel_run", tasks, [blocks, k = k](const SymbolBindings& b) {
                               return grouped_gemm_scratch_bytes(blocks, k.evaluate(b));
                             }});
    return kernel;
  }

  // With `fetched` also where an element lies that is computed from one in memory, to be fetched beforehand, and how
  // many of them a line of the cache has.
  std::string operand(const std::string& type, const std::string& name, const std::string& row_name,
                      const std::string& parameters, const Dim& rows, Value value, bool k_last, bool fetched,
                      bool& contiguous_in_k) {
    ExpressionEmitter emitter(graph_, *this, nest_.variables(), symbols_);
    const GemmNest::OperandElement element = nest_.walk_operand(emitter, value, row_name + "_index", rows, k_last);
    contiguous_in_k = element.contiguous_in_k;
    const bool prefetches = fetched && element.only_read;
    std::string prefetch;
    if (prefetches)
      prefetch = fmt::format("__builtin_prefetch({} + {}, 0, 2);\n", pointer(element.only_read->first),
                             emitter.index_text(element.only_read->second));
    const std::string statements = body(emitter);
    std::string functions = fmt::format("CAUSEWAY_INLINE float load_{}({}) const {{\n{}return {};\n}}\n", name,
                                        parameters, statements, element.value.name);
    // What the index does not need is left out by the compiler.
    if (prefetches)
      functions += fmt::format(
          "static constexpr int64_t k{}Line = {};\nCAUSEWAY_INLINE void prefetch_{}({}) const {{\n{}{}}}\n", type,
          64 / size_bytes(graph_.dtype(element.only_read->first)), name, parameters, statements, prefetch);
    return functions;
  }

  // With `fetched` also what fetches the lines of a tile's row that are read where results are stored: as rows that lie
  // pages apart, where the processor does not look ahead by itself.
  std::string epilogue(const GemmBlocks& blocks, bool fetched) {
    const DType dtype = graph_.dtype(request_.members.front());
    const std::string sum = rounded(dtype, "value");
    ExpressionEmitter emitter(graph_, *this, nest_.variables(), symbols_);
    nest_.begin_result();
    loads_.clear();
    const std::string index = emitter.index_text(nest_.result_linear());
    std::string stores, prefetches;
    bool reads_result_places = false;
    nest_.walk_result(emitter, [&](size_t position, const ElementValue& value) {
      stores += store_rounded(request_.members[position], index, value.name);
    });
    for (const auto& [value, linear] : loads_) {
      constexpr int64_t kLine = 64;
      if (!(linear == nest_.result_linear())) continue;
      reads_result_places = true;
      const auto columns = kLine / static_cast<int64_t>(size_bytes(graph_.dtype(value)));
      const auto prefetch = [&](int64_t column) {
        prefetches += fmt::format("__builtin_prefetch({} + {} + {}, 0, 3);\n", pointer(value), index, column);
      };
      for (int64_t column = 0; column < blocks.tile_columns; column += columns) prefetch(column);
      // The last of them may be in a line more.
      if (blocks.tile_columns % columns != 0) prefetch(blocks.tile_columns - 1);
    }
    std::string functions =
        "CAUSEWAY_INLINE void store(int64_t batch_index, int64_t m_index, int64_t n_index, float value) const {\n" +
        fmt::format("const float result = {};\n", sum) + body(emitter) + stores + "}\n";
    if (fetched && reads_result_places)
      functions +=
          "CAUSEWAY_INLINE void prefetch_epilogue(int64_t batch_index, int64_t m_index, int64_t n_index) const {\n" +
          prefetches + "}\n";
    return functions;
  }

  std::vector<std::pair<Value, Index>> loads_;  // of elements
  GemmNest nest_;
};

}  // namespace

GeneratedKernel write_dot_kernel(const KernelInputs& inputs) { return DotWriter(inputs).write(); }

std::optional<Obstacle> find_dot_obstacle(const KernelInputs& inputs) {
  GemmNest nest(inputs);
  const Node& node = inputs.graph.node(inputs.request.members.front());
  // Each function of the kernel is a walk of its own.
  const auto analysis = [&] { return ElementWalk(inputs.graph, nest, nest.variables()); };
  ElementWalk a = analysis(), b = analysis(), result = analysis();
  nest.walk_operand(a, node.inputs[0], "m_index", nest.sizes().m, !node.attributes.transpose_a);
  nest.walk_operand(b, node.inputs[1], "n_index", nest.sizes().n, node.attributes.transpose_b);
  nest.begin_result();
  nest.walk_result(result, [](size_t, const ElementValue&) {});
  return nest.obstacle();
}

}  // namespace causeway::codegen
