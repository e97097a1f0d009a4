// Matrix products through kernels/x86/matmul.h: operands are computed while they are packed, and elementwise values of
// the result are computed while it is in registers.
#include <algorithm>

#include "causeway/codegen/expressions/problem_writer.h"
#include "causeway/codegen/x86/matmul_geometry.h"

namespace causeway::codegen {
namespace {

X86Level x86_level(const Target& target) {
  if (target.has_avx512_bf16()) return X86Level::kAvx512Bf16;
  if (target.has_avx512()) return X86Level::kAvx512;
  return target.has_avx2() ? X86Level::kAvx2 : X86Level::kPortable;
}

int64_t known_size(const Dim& size) { return size.is_constant() ? size.constant() : kUnknownSize; }

class DotWriter : public ProblemWriter {
 public:
  using ProblemWriter::ProblemWriter;

  GeneratedKernel write(bool& conflict) {
    const Value result = request_.members.front();
    const Node& node = graph_.node(result);
    const Shape& a = graph_.shape(node.inputs[0]);
    const Shape& c = graph_.shape(result);
    const size_t rank = c.size();
    const Shape batch_shape(c.begin(), c.end() - 2);
    const Dim batch = element_count(batch_shape), m = c[rank - 2], n = c[rank - 1];
    const Dim k = a[node.attributes.transpose_a ? rank - 2 : rank - 1];
    const bool bf16_operands = graph_.dtype(node.inputs[0]) == DType::kBF16;

    std::string functions;
    bool a_contiguous_in_k = false, b_contiguous_in_k = false;
    functions +=
        operand("load_a", "m", m, k, batch_shape, node.inputs[0], !node.attributes.transpose_a, a_contiguous_in_k);
    functions +=
        operand("load_b", "n", n, k, batch_shape, node.inputs[1], node.attributes.transpose_b, b_contiguous_in_k);
    functions += epilogue(result, batch, m, n);

    const KernelArgument workspace{KernelArgument::Kind::kWorkspace, {}, true};
    const size_t workspace_argument = arguments_.size();
    arguments_.push_back(workspace);
    MatmulProblem problem{bf16_operands, known_size(batch), known_size(m), known_size(n), known_size(k)};
    MatmulMachine machine;
    machine.level = x86_level(target_);
    machine.threads = target_.parallel_units;
    const MatmulBlocks blocks = choose_matmul_blocks(problem, machine);
    const bool thin = matmul_is_thin(blocks);
    std::string members, initialisation;
    declare_size("batch", batch, members, initialisation);
    declare_size("m", m, members, initialisation);
    declare_size("n", n, members, initialisation);
    declare_size("k", k, members, initialisation);
    members += "void* workspace;\n";
    initialisation += fmt::format("workspace = buffers[{}];\n", workspace_argument);
    const std::string source =
        "#include \"causeway/kernels/elementwise.h\"\n#include \"causeway/kernels/x86/matmul.h\"\n"
        "namespace {\nstruct Problem {\n" +
        fmt::format(
            "using Operand = {};\nstatic constexpr bool kAContiguousInK = {};\n"
            "static constexpr bool kBContiguousInN = {};\n{}\n",
            bf16_operands ? "bf16" : "float", a_contiguous_in_k, !b_contiguous_in_k, matmul_blocks_text(blocks)) +
        problem_members(members, initialisation) + functions + "};\n}\n" +
        (thin ? "" : entry_point("kernel_pack", "matmul_pack(problem, task);")) +
        entry_point("kernel_run", "matmul_run(problem, task, scratch);");
    conflict = conflict_;
    GeneratedKernel kernel = finish(source);
    const auto launch = [=](const SymbolBindings& bindings) {
      return matmul_launch(blocks, batch.evaluate(bindings), m.evaluate(bindings), n.evaluate(bindings),
                           k.evaluate(bindings));
    };
    if (!thin)
      kernel.phases.push_back({"kernel_pack", [launch](const SymbolBindings& b) { return launch(b).pack_tasks; },
                               [](const SymbolBindings&) { return int64_t{0}; }});
    kernel.phases.push_back({"kernel_run", [launch](const SymbolBindings& b) { return launch(b).run_tasks; },
                             [launch](const SymbolBindings& b) { return launch(b).scratch_bytes; }});
    kernel.workspace_bytes = [launch](const SymbolBindings& b) { return launch(b).workspace_bytes; };
    return kernel;
  }

  bool is_stored(Value value) override { return is_member(value) || KernelWriter::is_stored(value); }

  std::optional<EmittedValue> variable(Value value, const Index& linear) override {
    if (!is_member(value)) return std::nullopt;
    const auto entry = member_variables_.find(value);
    if (entry == member_variables_.end() || !(entry->second.linear == linear)) {
      conflict_ = true;
      return std::nullopt;
    }
    return entry->second.value;
  }

  void note_load(Value value, const Index& linear) override { loads_.push_back({value, linear}); }

 private:
  std::string operand(const std::string& name, const std::string& row_name, const Dim& rows, const Dim& k,
                      const Shape& batch_shape, Value value, bool k_last, bool& contiguous_in_k) {
    const int batch_variable = parameter("batch_index", element_count(batch_shape));
    const int row = parameter(row_name + "_index", rows);
    const int term = parameter("k_index", k);
    const size_t known = variables_.size();
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    std::vector<Index> at = emitter.delinearize(Index::of(batch_variable), batch_shape);
    at.push_back(Index::of(k_last ? row : term));
    at.push_back(Index::of(k_last ? term : row));
    loads_.clear();
    const EmittedValue result = emitter.emit(value, {{}, at});
    // Dividing for every element would cost more than storing the operand beforehand.
    if (variables_.size() != known && batch_shape.empty()) conflict_ = true;
    contiguous_in_k = k_last;
    // The largest tensor read decides in which order memory is walked.
    std::optional<Dim> largest;
    for (const auto& [loaded, linear] : loads_) {
      for (const Index::Term& part : linear.terms) {
        if (!part.coefficient.is_constant(1) || (part.variable != term && part.variable != row)) continue;
        const Dim count = element_count(graph_.shape(loaded));
        if (!largest || !known_non_negative(*largest - count)) {
          largest = count;
          contiguous_in_k = part.variable == term;
        }
      }
    }
    const std::string parameters = name == "load_a" ? "int64_t batch_index, int64_t m_index, int64_t k_index"
                                                    : "int64_t batch_index, int64_t k_index, int64_t n_index";
    return fmt::format("CAUSEWAY_INLINE float {}({}) const {{\n{}return {};\n}}\n", name, parameters, body(emitter),
                       result.name);
  }

  std::string epilogue(Value result, const Dim& batch, const Dim& m, const Dim& n) {
    const int batch_variable = parameter("batch_index", batch);
    const int row = parameter("m_index", m);
    const int column = parameter("n_index", n);
    const size_t known = variables_.size();
    Index linear = Index::of(column);
    if (!m.is_constant(1)) linear = add(linear, scale(Index::of(row), n));
    if (!batch.is_constant(1)) linear = add(linear, scale(Index::of(batch_variable), m * n));
    const DType dtype = graph_.dtype(result);
    const std::string rounded = dtype == DType::kF32 ? "value" : from_storage(dtype, to_storage(dtype, "value"));
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    std::string stores;
    const std::string index = emitter.index_text(linear);
    member_variables_[result] = {{"result", kBodyDepth}, linear};
    stores += store_statement(result, index, "result");
    for (size_t i = 1; i < request_.members.size(); ++i) {
      const Value member = request_.members[i];
      const EmittedValue value = emitter.define(member, {linear, {}});
      member_variables_[member] = {value, linear};
      stores += store_statement(member, index, value.name);
    }
    if (variables_.size() != known) conflict_ = true;
    return "CAUSEWAY_INLINE void store(int64_t batch_index, int64_t m_index, int64_t n_index, float value) const {\n" +
           fmt::format("const float result = {};\n", rounded) + body(emitter) + stores + "}\n";
  }

  std::vector<std::pair<Value, Index>> loads_;
};

}  // namespace

GeneratedKernel generate_dot_kernel(const Graph& graph, const MaterializedValues& materialized,
                                    const KernelRequest& request, const Target& target, bool& conflict) {
  if (target.is_gpu()) return generate_gpu_dot_kernel(graph, materialized, request, target, conflict);
  return DotWriter(graph, materialized, request, target).write(conflict);
}

}  // namespace causeway::codegen
