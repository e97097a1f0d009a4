// Matrix products through kernels/gpu/matmul.h: operands are read from memory as they lie there, and elementwise values
// of the result are computed while a block has it in shared memory.
#include <algorithm>

#include "causeway/codegen/gpu_matmul_geometry.h"
#include "causeway/codegen/problem_writer.h"

namespace causeway {
namespace {

int64_t known_size(const Dim& size) { return size.is_constant() ? size.constant() : kUnknownSize; }

bool divisible(const Dim& size, int64_t by) { return size.divide_exactly(by).has_value(); }

std::string operand_type(DType dtype) {
  // Every value of the 8-bit types is a bf16.
  return size_bytes(dtype) == 1 ? "bf16" : storage_type(dtype);
}

class GpuDotWriter : public ProblemWriter {
 public:
  using ProblemWriter::ProblemWriter;

  GeneratedKernel write(bool& conflict) {
    const Value result = request_.members.front();
    const Node& node = graph_.node(result);
    const Shape& a_shape = graph_.shape(node.inputs[0]);
    const Shape& c = graph_.shape(result);
    const size_t rank = c.size();
    const Shape batch_shape(c.begin(), c.end() - 2);
    const Dim batch = element_count(batch_shape), m = c[rank - 2], n = c[rank - 1];
    const Dim k = a_shape[node.attributes.transpose_a ? rank - 2 : rank - 1];
    const std::string operand = operand_type(graph_.dtype(node.inputs[0]));

    const DirectOperand a = find_operand(node.inputs[0], batch_shape, m, k, !node.attributes.transpose_a);
    const DirectOperand b = find_operand(node.inputs[1], batch_shape, n, k, node.attributes.transpose_b);
    const std::string store = epilogue(result, batch, m, n);
    conflict = conflict_;
    if (conflict) return {};

    const GpuMatmulPlan plan = choose_gpu_matmul(target_.architecture(), operand == "float" ? 4 : 2, known_size(batch),
                                                 known_size(m), known_size(n), known_size(k));
    const int lanes = store_lanes(n);
    std::string members, initialisation;
    declare_size("batch", batch, members, initialisation);
    declare_size("m", m, members, initialisation);
    declare_size("n", n, members, initialisation);
    declare_size("k", k, members, initialisation);
    members += fmt::format("static constexpr int kStoreLanes = {};\n{}\nstatic constexpr int kSplits = {};\n", lanes,
                           gpu_matmul_tile_text(plan.tile), plan.splits);
    const std::string operands =
        operand_struct("A", "a", a, initialisation) + operand_struct("B", "b", b, initialisation);
    if (plan.splits > 1) {
      members += "float* workspace;\n";
      initialisation += fmt::format("workspace = {};\n", buffer_pointer("float", arguments_.size()));
      arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    }
    const std::string problem = fmt::format("struct Problem {{\nusing Operand = {};\n", operand) + operands +
                                problem_members(members, initialisation) + store + "};\n";
    const int threads = gpu_matmul_waves(plan.tile) * target_.architecture().wave_width;
    std::string source = "#include \"causeway/kernels/gpu/matmul.h\"\nnamespace {\n" + problem + "}\n" +
                         gpu_kernel("kernel_run", threads, plan.tile.blocks_per_unit) +
                         "const Problem problem(buffers, sizes);\nmatmul_run(problem, task);\n}\n";
    if (plan.splits > 1)
      source += gpu_kernel("kernel_combine", kGpuMatmulCombineThreads) +
                "const Problem problem(buffers, sizes);\nmatmul_combine(problem, task);\n}\n";
    GeneratedKernel kernel = finish(std::move(source));
    add_phases(kernel, plan, lanes, a, b, operand == "float" ? 4 : 2, batch, m, n);
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

  void note_load(Value value, const Index& linear) override { loads_.push_back(linear); }

 private:
  // An operand as it lies in memory: element (batch, line, k) of `value` is at
  // offset + batch indices . batch strides + (contiguous_in_k ? line * stride + k : k * stride + line).
  struct DirectOperand {
    Value value;
    Dim offset;
    bool contiguous_in_k = true;
    Dim stride;
    struct BatchDimension {
      Dim extent;
      Dim stride;
    };
    std::vector<BatchDimension> batch;  // the fastest last; none of extent 1
    bool aligned = false;
  };

  // Sets conflict_ when the operand has to be computed, or its index is not such a sum: stored, it is.
  DirectOperand find_operand(Value operand, const Shape& batch_shape, const Dim& lines, const Dim& k, bool k_last) {
    DirectOperand found;
    found.value = operand;
    while (!materialized_.contains(found.value)) {
      const Node& node = graph_.node(found.value);
      if (node.op != Op::kReshape && node.op != Op::kPermute && node.op != Op::kSlice) {
        conflict_ = true;
        return found;
      }
      found.value = node.inputs[0];
    }
    const int first = static_cast<int>(variables_.size());
    for (const Dim& extent : batch_shape) parameter("batch_index", extent);
    const int line_variable = parameter("line", lines), k_variable = parameter("k_index", k);
    std::vector<Index> at;
    for (size_t i = 0; i < batch_shape.size(); ++i) at.push_back(Index::of(first + static_cast<int>(i)));
    at.push_back(Index::of(k_last ? line_variable : k_variable));
    at.push_back(Index::of(k_last ? k_variable : line_variable));
    const size_t known = variables_.size();
    Index linear;
    if (found.value == operand) {
      linear = linearize(at, graph_.shape(operand));
    } else {
      // The text is thrown away: it is the index that counts.
      ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
      loads_.clear();
      emitter.emit(operand, {{}, at});
      if (variables_.size() != known || loads_.size() != 1) {
        conflict_ = true;
        return found;
      }
      linear = loads_.front();
    }
    const auto coefficient = [&](int variable) {
      for (const Index::Term& term : linear.terms)
        if (term.variable == variable) return term.coefficient;
      return Dim(0);
    };
    found.offset = linear.offset;
    const Dim line_stride = coefficient(line_variable), k_stride = coefficient(k_variable);
    const auto is_contiguous = [](const Dim& extent, const Dim& stride) {
      return extent.is_constant(1) || stride.is_constant(1);
    };
    if (is_contiguous(k, k_stride) && (k_last || !is_contiguous(lines, line_stride))) {
      found.stride = lines.is_constant(1) ? Dim(0) : line_stride;
    } else if (is_contiguous(lines, line_stride)) {
      found.contiguous_in_k = false;
      found.stride = k.is_constant(1) ? Dim(0) : k_stride;
    } else {
      conflict_ = true;
      return found;
    }
    for (size_t i = 0; i < batch_shape.size(); ++i) {
      if (batch_shape[i].is_constant(1)) continue;
      const Dim stride = coefficient(first + static_cast<int>(i));
      if (!found.batch.empty() && found.batch.back().stride == stride * batch_shape[i]) {
        found.batch.back() = {found.batch.back().extent * batch_shape[i], stride};
      } else {
        found.batch.push_back({batch_shape[i], stride});
      }
    }
    const int64_t piece = 16 / static_cast<int64_t>(size_bytes(graph_.dtype(found.value)));
    found.aligned = piece <= 8 && divisible(found.contiguous_in_k ? k : lines, piece) &&
                    divisible(found.offset, piece) && divisible(found.stride, piece) &&
                    std::all_of(found.batch.begin(), found.batch.end(),
                                [&](const auto& dimension) { return divisible(dimension.stride, piece); });
    return found;
  }

  std::string operand_struct(const std::string& type, const std::string& name, const DirectOperand& operand,
                             std::string& initialisation) {
    std::string members, body;
    const auto declare = [&](const std::string& member, const Dim& value) {
      if (value.is_constant()) {
        members += fmt::format("static constexpr int64_t {} = {};\n", member, value.constant());
      } else {
        members += fmt::format("int64_t {};\n", member);
        initialisation += fmt::format("{}.{} = {};\n", name, member, symbols_.text(value));
      }
    };
    const std::string element = storage_type(graph_.dtype(operand.value));
    members += fmt::format(
        "using Element = {};\nstatic constexpr bool kContiguousInK = {};\nstatic constexpr bool kAligned = {};\n"
        "const Element* data;\n",
        element, operand.contiguous_in_k, operand.aligned);
    // As an argument, so that the parts of one tensor share a kernel.
    const std::string offset = operand.offset.is_constant(0) ? "" : " + " + size_argument(operand.offset);
    initialisation += fmt::format("{}.data = {}{};\n", name, pointer(operand.value), offset);
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
    }
    return fmt::format(
        "struct {} {{\n{}CAUSEWAY_INLINE int64_t batch_offset(int64_t batch_index) const {{ return {}; }}\n}};\n{} "
        "{};\n",
        type, members, body.empty() ? "0" : body, type, name);
  }

  // How many neighbouring elements of a row are stored together: the narrowest stored member fills 16 bytes.
  int store_lanes(const Dim& n) const {
    int64_t lanes = 4;
    for (const Value member : request_.members)
      if (member_stored(member))
        lanes =
            std::max<int64_t>(lanes, std::min<int64_t>(8, 16 / static_cast<int64_t>(size_bytes(graph_.dtype(member)))));
    while (lanes > 1 && !divisible(n, lanes)) lanes /= 2;
    return static_cast<int>(lanes);
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
    const std::string rounded =
        dtype == DType::kF32 ? "values[e]" : from_storage(dtype, to_storage(dtype, "values[e]"));
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    std::string arrays, keep, stores;
    const std::string index = emitter.index_text(linear);
    const auto finish_member = [&](size_t position, const std::string& name) {
      const Value member = request_.members[position];
      if (!member_stored(member)) return;
      arrays += fmt::format("{} stored{}[kCount];\n", storage_type(graph_.dtype(member)), position);
      keep += fmt::format("stored{}[e] = {};\n", position, to_storage(graph_.dtype(member), name));
      stores += fmt::format("{}[{}] = stored{}[e];\n", pointer(member), index, position);
    };
    member_variables_[result] = {{"result", kBodyDepth}, linear};
    finish_member(0, "result");
    for (size_t i = 1; i < request_.members.size(); ++i) {
      const EmittedValue value = emitter.define(request_.members[i], {linear, {}});
      member_variables_[request_.members[i]] = {value, linear};
      finish_member(i, value.name);
    }
    if (variables_.size() != known) conflict_ = true;
    const auto loop = [&](const std::string& inside) {
      const bool indexed = inside.find("n_index") != std::string::npos;
      return "#pragma clang loop unroll(full)\nfor (int e = 0; e < kCount; ++e) {\n" +
             std::string(indexed ? "const int64_t n_index = n_first + e;\n" : "") + inside + "}\n";
    };
    return "template <int kCount>\nCAUSEWAY_INLINE void store(int64_t batch_index, int64_t m_index, int64_t n_first, "
           "const float (&values)[kCount]) const {\n" +
           arrays + loop(fmt::format("const float result = {};\n", rounded) + body(emitter) + keep) + loop(stores) +
           "}\n";
  }

  void add_phases(GeneratedKernel& kernel, const GpuMatmulPlan& plan, int lanes, const DirectOperand& a,
                  const DirectOperand& b, int operand_bytes, const Dim& batch, const Dim& m, const Dim& n) const {
    const GpuArchitecture& architecture = target_.architecture();
    const SizeFunction no_scratch = [](const SymbolBindings&) { return int64_t{0}; };
    const GpuMatmulTile tile = plan.tile;
    const int splits = plan.splits;
    KernelPhase run;
    run.function = "kernel_run";
    run.tasks = [=](const SymbolBindings& bindings) {
      return batch.evaluate(bindings) * splits * divide_up(m.evaluate(bindings), tile.m) *
             divide_up(n.evaluate(bindings), tile.n);
    };
    run.scratch_bytes = no_scratch;
    run.threads = gpu_matmul_waves(tile) * architecture.wave_width;
    // AMD's copy transposes what is not contiguous in k.
    const bool k_major = architecture.vendor == GpuArchitecture::Vendor::kAmd;
    run.shared_bytes =
        gpu_matmul_shared_bytes(tile, k_major || a.contiguous_in_k, k_major || b.contiguous_in_k, operand_bytes);
    kernel.phases.push_back(run);
    if (splits == 1) return;
    const auto count = [=](const SymbolBindings& bindings) {
      return batch.evaluate(bindings) * m.evaluate(bindings) * n.evaluate(bindings);
    };
    KernelPhase combine;
    combine.function = "kernel_combine";
    combine.tasks = [=](const SymbolBindings& bindings) {
      return divide_up(count(bindings) / lanes, kGpuMatmulCombineThreads);
    };
    combine.scratch_bytes = no_scratch;
    combine.threads = kGpuMatmulCombineThreads;
    kernel.phases.push_back(combine);
    kernel.workspace_bytes = [=](const SymbolBindings& bindings) {
      return count(bindings) * splits * static_cast<int64_t>(sizeof(float));
    };
  }

  std::vector<Index> loads_;
};

}  // namespace

GeneratedKernel generate_gpu_dot_kernel(const Graph& graph, const MaterializedValues& materialized,
                                        const KernelRequest& request, const Target& target, bool& conflict) {
  return GpuDotWriter(graph, materialized, request, target).write(conflict);
}

}  // namespace causeway
