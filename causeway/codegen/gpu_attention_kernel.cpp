// Attention through kernels/gpu/attention.h and attention_gradient.h: operands that lie in memory as rows are copied as
// they are, others are computed element by element while they are staged.
#include <fmt/format.h>

#include "causeway/codegen/attention_writer.h"
#include "causeway/codegen/gpu_attention_geometry.h"

namespace causeway {
namespace {

constexpr int kMapThreads = 128;

class GpuAttentionWriter : public AttentionWriter {
 public:
  using AttentionWriter::AttentionWriter;

  GeneratedKernel write() {
    if (node_.op == Op::kAttentionBlockMap) return write_block_map();
    return backward_ ? write_backward() : write_forward();
  }

  void note_load(Value value, const Index& linear) override { loads_.push_back(linear); }

 private:
  std::string operand() const { return storage_type(graph_.dtype(node_.inputs[0])); }

  GpuAttentionRequest geometry_request() const {
    return {graph_.shape(node_.inputs[0])[3].constant(), static_cast<int>(size_bytes(graph_.dtype(node_.inputs[0]))),
            spec_.block_q, spec_.block_k, spec_.score != nullptr};
  }

  // The problem and its constants; more_members adds what depends on the direction.
  std::string problem(const std::string& more_members, const std::string& rows) {
    const std::string problem_functions = functions() + rows;
    std::string members, initialisation;
    declare_sizes(members, initialisation);
    return "struct Problem {\n" + constants(operand()) + more_members + problem_members(members, initialisation) +
           problem_functions + "};\n";
  }

  std::string tile_constants(const GpuAttentionTiles& tiles) const {
    return fmt::format(
        "static constexpr int kWaves = {};\nstatic constexpr int kStages = {};\nstatic constexpr int kDimPadded = {};\n"
        "static constexpr bool kMapIsUsable = {};\n",
        tiles.waves, tiles.stages, (geometry_request().head_dim + 15) / 16 * 16, tiles.map_is_usable);
  }

  static SizeFunction no_scratch() {
    return [](const SymbolBindings&) { return int64_t{0}; };
  }

  KernelPhase phase(const std::string& name, int threads, int shared_bytes, const Dim& heads, const Dim& length,
                    int64_t tile) const {
    KernelPhase result;
    result.function = name;
    result.tasks = [batch = batch_, heads, length, tile](const SymbolBindings& bindings) {
      return batch.evaluate(bindings) * heads.evaluate(bindings) * divide_up(length.evaluate(bindings), tile);
    };
    result.scratch_bytes = no_scratch();
    result.threads = threads;
    result.shared_bytes = shared_bytes;
    return result;
  }

  int threads(const GpuAttentionTiles& tiles) const { return tiles.waves * target_.architecture().wave_width; }

  GeneratedKernel write_forward() {
    read_inputs();
    if (const auto tiles = hopper_attention_forward_tiles(geometry_request(), target_.architecture())) {
      return write_forward(
          "attention_hopper.h", "hopper_attention_forward(problem, task);",
          fmt::format("static constexpr int kGroups = {};\nstatic constexpr int kStages = {};\n", tiles->groups,
                      tiles->stages),
          {.query_tile = 64 * tiles->groups, .key_tile = tiles->key_tile, .shared_bytes = tiles->shared_bytes},
          128 * (tiles->groups + 1));
    }
    const GpuAttentionTiles tiles = gpu_attention_forward_tiles(geometry_request(), target_.architecture());
    return write_forward("attention.h", "gpu_attention_forward(problem, task);", tile_constants(tiles), tiles,
                         threads(tiles));
  }

  GeneratedKernel write_forward(const std::string& header, const std::string& call, const std::string& more_constants,
                                const GpuAttentionTiles& tiles, int threads) {
    bool q = false, k = false, v = false;
    const std::string rows = row_function("q_row", "t", node_.inputs[0], q) +
                             row_function("k_row", "s", node_.inputs[1], k) +
                             row_function("v_row", "s", node_.inputs[2], v);
    const std::string text =
        problem(more_constants +
                    fmt::format("static constexpr int kQueryTile = {};\nstatic constexpr int kKeyTile = {};\n"
                                "static constexpr bool kDirectQ = {};\nstatic constexpr bool kDirectK = {};\n"
                                "static constexpr bool kDirectV = {};\n",
                                tiles.query_tile, tiles.key_tile, q, k, v),
                rows);
    std::string source = "#include \"causeway/kernels/attention_block_map.h\"\n#include \"causeway/kernels/gpu/" +
                         header + "\"\nnamespace {\n" + text + "}\n" +
                         entry("kernel", threads, tiles.blocks_per_unit, call);
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases = {phase("kernel", threads, tiles.shared_bytes, query_heads_, query_length_, tiles.query_tile)};
    return kernel;
  }

  // How a direction of the gradient is written: by which functions, in which pieces.
  struct GradientPlan {
    std::string header, functions;  // functions + "query_gradient", "key_gradient"
    std::string constants;
    int threads = 0, shared_bytes = 0;
    int lines = 0;  // of a block
    int blocks_per_unit = 1, key_blocks_per_unit = 1;
    bool gradients_together = true;
  };

  GradientPlan gradient_plan() const {
    if (const auto tiles = hopper_attention_gradient_tiles(geometry_request(), target_.architecture())) {
      return {.header = "attention_hopper_gradient.h",
              .functions = "hopper_attention_",
              .constants = fmt::format("static constexpr int kGroups = {};\nstatic constexpr int kGradientStages = {};\n"
                                       "static constexpr int kGradientTile = {};\n",
                                       tiles->groups, tiles->stages, tiles->tile),
              .threads = 128 * (tiles->groups + 1),
              .shared_bytes = tiles->shared_bytes,
              .lines = 64 * tiles->groups};
    }
    const GpuAttentionTiles tiles = gpu_attention_backward_tiles(geometry_request(), target_.architecture());
    return {.header = "attention_gradient.h",
            .functions = "gpu_attention_",
            .constants = tile_constants(tiles) + fmt::format("static constexpr int kGradientTile = {};\n", tiles.key_tile),
            .threads = threads(tiles),
            .shared_bytes = tiles.shared_bytes,
            .lines = tiles.query_tile,
            .blocks_per_unit = tiles.blocks_per_unit,
            .key_blocks_per_unit = tiles.key_blocks_per_unit,
            .gradients_together = tiles.gradients_together};
  }

  GeneratedKernel write_backward() {
    read_inputs();
    const GradientPlan plan = gradient_plan();
    bool q = false, k = false, v = false, gradient = false;
    const std::string rows = row_function("q_row", "t", node_.inputs[0], q) +
                             row_function("k_row", "s", node_.inputs[1], k) +
                             row_function("v_row", "s", node_.inputs[2], v) +
                             row_function("out_gradient_row", "t", node_.inputs[3], gradient);
    const std::string text =
        problem(plan.constants + fmt::format("static constexpr bool kDirectQ = {};\n"
                                             "static constexpr bool kDirectK = {};\nstatic constexpr bool kDirectV = {};\n"
                                             "static constexpr bool kDirectGradient = {};\n",
                                             q, k, v, gradient),
                rows);
    const int32_t node = request_.members.front().node;
    const bool for_queries = is_member({node, 0});
    const bool for_keys = is_member({node, 1}), for_values = is_member({node, 2});
    std::string source =
        "#include \"causeway/kernels/attention_block_map.h\"\n"
        "#include \"causeway/kernels/gpu/" +
        plan.header + "\"\nnamespace {\n" + text + "}\n";
    std::vector<KernelPhase> phases;
    const auto add_keys = [&](const std::string& name, bool keys, bool values) {
      source += entry(name, plan.threads, plan.key_blocks_per_unit,
                      fmt::format("{}key_gradient<{}, {}>(problem, task);", plan.functions, keys, values));
      phases.push_back(phase(name, plan.threads, plan.shared_bytes, kv_heads_, key_length_, plan.lines));
    };
    if (for_queries) {
      source += entry("kernel_queries", plan.threads, plan.blocks_per_unit,
                      plan.functions + "query_gradient(problem, task);");
      phases.push_back(
          phase("kernel_queries", plan.threads, plan.shared_bytes, query_heads_, query_length_, plan.lines));
    }
    if (for_keys && for_values && plan.gradients_together) {
      add_keys("kernel_keys_values", true, true);
    } else {
      if (for_keys) add_keys("kernel_keys", true, false);
      if (for_values) add_keys("kernel_values", false, true);
    }
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases = std::move(phases);
    return kernel;
  }

  std::string entry(const std::string& name, int threads, int blocks_per_unit, const std::string& call) {
    return gpu_kernel(name, threads, blocks_per_unit) +
           "const Problem problem(buffers, sizes);\n" + call + "\n}\n";
  }

  // The address of a row of a head, where rows lie in memory as they are needed; `direct` says whether they do.
  std::string row_function(const std::string& name, const std::string& position, Value operand_value, bool& direct) {
    direct = false;
    Value source = operand_value;
    while (!materialized_.contains(source)) {
      const Node& node = graph_.node(source);
      if (node.op != Op::kReshape && node.op != Op::kPermute && node.op != Op::kSlice) return {};
      source = node.inputs[0];
    }
    const Shape& shape = graph_.shape(operand_value);
    const int first = static_cast<int>(variables_.size());
    for (const auto& [variable, axis] :
         {std::pair{std::string("b"), 0}, {std::string("h"), 2}, {position, 1}, {std::string("d"), 3}})
      parameter(variable, shape[static_cast<size_t>(axis)]);
    const std::vector<Index> at = {Index::of(first), Index::of(first + 2), Index::of(first + 1), Index::of(first + 3)};
    const size_t known = variables_.size();
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    loads_.clear();
    emitter.emit(operand_value, {{}, at});
    if (loads_.size() != 1 || variables_.size() != known) return {};
    Index linear = loads_.front();
    const int64_t piece = 16 / static_cast<int64_t>(size_bytes(graph_.dtype(operand_value)));
    bool contiguous = false;
    for (auto term = linear.terms.begin(); term != linear.terms.end();) {
      if (term->variable == first + 3) {
        if (!term->coefficient.is_constant(1)) return {};
        contiguous = true;
        term = linear.terms.erase(term);
        continue;
      }
      if (!term->coefficient.divide_exactly(piece)) return {};
      ++term;
    }
    if (!contiguous || !(linear.offset.is_constant(0) || linear.offset.divide_exactly(piece))) return {};
    if (shape[3].constant() % piece != 0) return {};
    direct = true;
    return fmt::format(
        "CAUSEWAY_INLINE const Operand* {}(int64_t b, int64_t h, int64_t {}) const {{ return {} + {}; }}\n", name,
        position, pointer(source), emitter.index_text(linear));
  }

  GeneratedKernel write_block_map() {
    read_map_inputs();
    const Shape& map = graph_.shape(request_.members.front());
    const std::string problem_functions = map_functions();
    std::string members = fmt::format("static constexpr int kBlockQ = {};\nstatic constexpr int kBlockK = {};\n",
                                      spec_.block_q, spec_.block_k);
    std::string initialisation;
    declare_map_sizes(members, initialisation);
    std::string source = "#include \"causeway/kernels/gpu/attention_block_map.h\"\nnamespace {\nstruct Problem {\n" +
                         problem_members(members, initialisation) + problem_functions + "};\n}\n" +
                         gpu_kernel("kernel", kMapThreads) +
                         "const Problem problem(buffers, sizes);\ngpu_attention_block_map(problem, task);\n}\n";
    GeneratedKernel kernel = finish(std::move(source));
    KernelPhase phase;
    phase.function = "kernel";
    phase.tasks = [map](const SymbolBindings& bindings) { return element_count(map).evaluate(bindings); };
    phase.scratch_bytes = no_scratch();
    phase.threads = kMapThreads;
    phase.shared_bytes = 2 * static_cast<int>(sizeof(int));
    kernel.phases = {std::move(phase)};
    return kernel;
  }

  std::vector<Index> loads_;
};

}  // namespace

GeneratedKernel generate_gpu_attention_kernel(const Graph& graph, const MaterializedValues& materialized,
                                              const KernelRequest& request, const Target& target) {
  return GpuAttentionWriter(graph, materialized, request, target).write();
}

}  // namespace causeway
