// Attention through kernels/gpu/attention.h and attention_gradient.h: operands that lie in memory as rows are copied as
// they are, others are computed element by element while they are staged.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <vector>

#include "causeway/codegen/expressions/attention_writer.h"
#include "causeway/codegen/gpu/attention_geometry.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/op.h"
#include "causeway/kernels/attention_layout.h"
#include "causeway/kernels/gpu/attention_one_query_layout.h"

namespace causeway::codegen {
namespace {

class GpuAttentionWriter : public AttentionWriter {
 public:
  using AttentionWriter::AttentionWriter;

  GeneratedKernel write() {
    if (node_.op == Op::kAttentionBlockMap) return write_block_map();
    return backward_ ? write_backward() : write_forward();
  }

  // The first operand that lies in memory, but not as rows, and would if it were stored as it is needed.
  std::optional<Obstacle> find_scattered_operand() {
    if (node_.op == Op::kAttentionBlockMap) return std::nullopt;
    read_inputs();
    const Operands operands = read_operands();
    const GpuAttentionRequest request = geometry_request();
    for (size_t i = 0; i < operands.list.size(); ++i) {
      const Value value = node_.inputs[i];
      if (!operands.list[i].rows && !materialized_.contains(value) &&
          request.head_dim * request.operand_bytes % 16 == 0)
        return Obstacle{Obstacle::Kind::kScatteredOperand, value};
    }
    return std::nullopt;
  }

  void note_load(Value value, const Index& linear) override { loads_.push_back(linear); }

 private:
  // Where an operand's rows lie in memory as they are needed, in elements from the beginning of `source`, 16 bytes
  // apart or a multiple.
  struct Rows {
    Value source;
    Dim offset;
    std::array<Dim, 3> strides;  // by sequence, head, position
    Shape shape;                 // [B, T, H, D]
    int64_t element_bytes = 2;
  };
  struct Operand {
    std::string name, row, position;  // "Q", "q_row", "t"
    std::optional<Rows> rows;         // nothing where elements are computed
  };
  struct Operands {
    std::vector<Operand> list;
    int direct() const {
      return static_cast<int>(
          std::count_if(list.begin(), list.end(), [](const Operand& operand) { return operand.rows.has_value(); }));
    }
    bool all_direct() const { return direct() == static_cast<int>(list.size()); }
  };

  // f32 operands that matrix instructions multiply, rounded on their way there.
  bool rounds_to_tf32() const {
    const GpuArchitecture& architecture = target_.architecture();
    return node_.attributes.tf32 && !one_query_ && architecture.has_tf32_matrix &&
           architecture.vendor == GpuArchitecture::Vendor::kNvidia;
  }
  std::string operand() const { return rounds_to_tf32() ? "tf32" : storage_type(graph_.dtype(node_.inputs[0])); }

  GpuAttentionRequest geometry_request(bool computes_operands = false) const {
    return {graph_.shape(node_.inputs[0])[3].constant(),
            static_cast<int>(size_bytes(graph_.dtype(node_.inputs[0]))),
            spec_.block_q,
            spec_.block_k,
            spec_.score != nullptr,
            computes_operands};
  }

  // What else matters to kernels that read operands by address.
  GpuAttentionRequest geometry_request(const Operands& operands) const {
    GpuAttentionRequest request = geometry_request();
    // Ping-pong adds up in another order, and is not for few queries: a fixed order is the same for any number.
    if (request_.fixed_order) return request;
    request.has_key_rows = operands.list[1].rows.has_value() && operands.list[2].rows.has_value();
    request.has_rows = operands.all_direct();
    if (query_length_.is_constant()) request.queries = query_length_.constant();
    return request;
  }

  // The problem and its constants; more_members adds what depends on the direction.
  std::string problem(const std::string& more_members, const std::string& rows, std::string members = "",
                      std::string initialisation = "") {
    const std::string problem_functions = functions() + rows;
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
                    int64_t tile, bool persistent) const {
    KernelPhase result;
    result.function = name;
    result.tasks = [batch = batch_, heads, length, tile](const SymbolBindings& bindings) {
      return batch.evaluate(bindings) * heads.evaluate(bindings) * divide_up(length.evaluate(bindings), tile);
    };
    result.persistent = persistent;
    result.scratch_bytes = no_scratch();
    result.threads = threads;
    result.shared_bytes = shared_bytes;
    return result;
  }

  // How the kernels of warpgroups and TMA go about it, where they do. In which order they add up depends on
  // how many queries there are.
  std::optional<HopperAttentionTiles> hopper_forward_tiles(const Operands& operands) const {
    if (request_.fixed_order) return std::nullopt;
    return hopper_attention_forward_tiles(geometry_request(!operands.all_direct()), target_.architecture());
  }
  std::optional<HopperAttentionGradientTiles> hopper_gradient_tiles(const Operands& operands) const {
    if (request_.fixed_order) return std::nullopt;
    return hopper_attention_gradient_tiles(geometry_request(!operands.all_direct()), target_.architecture());
  }

  int threads(const GpuAttentionTiles& tiles) const { return tiles.waves * target_.architecture().wave_width; }

  GeneratedKernel write_forward() {
    read_inputs();
    const Operands operands = read_operands();
    if (is_one_query(operands)) return write_one_query(operands);
    if (const auto tiles = hopper_forward_tiles(operands)) {
      return write_forward(
          operands, true, "attention_hopper.h", "hopper_attention_forward",
          fmt::format("static constexpr int kGroups = {};\nstatic constexpr int kQueryStages = {};\n"
                      "static constexpr int kStages = {};\n",
                      tiles->groups, tiles->query_stages, tiles->stages),
          {.query_tile = 64 * tiles->groups, .key_tile = tiles->key_tile, .shared_bytes = tiles->shared_bytes},
          128 * (tiles->groups + 1));
    }
    const GpuAttentionTiles tiles = gpu_attention_forward_tiles(geometry_request(operands), target_.architecture());
    return write_forward(operands, false, tiles.ping_pong ? "attention_cdna.h" : "attention.h",
                         tiles.ping_pong ? "cdna_attention_forward" : "gpu_attention_forward", tile_constants(tiles),
                         tiles, threads(tiles));
  }

  // Whether attention_one_query.h takes it.
  bool is_one_query(const Operands& operands) const {
    const int64_t head_bytes = geometry_request().head_dim * geometry_request().operand_bytes;
    return !request_.fixed_order && query_length_.is_constant(1) && operands.all_direct() && head_bytes % 16 == 0 &&
           std::has_single_bit(static_cast<uint64_t>(head_bytes / 16)) &&
           head_bytes / 16 <= target_.architecture().wave_width;
  }

  GeneratedKernel write_one_query(const Operands& operands) {
    one_query_ = true;
    const int64_t units = target_.architecture().parallel_units;
    // Heads that share keys share a block, as far as registers hold their queries and sums.
    constexpr int64_t kMostHeads = 4;
    int64_t of_block = kMostHeads;
    while (query_heads_.constant() / kv_heads_.constant() % of_block != 0) --of_block;
    const Dim heads = batch_ * query_heads_, blocks = batch_ * Dim(query_heads_.constant() / of_block);
    // Where blocks are few, each is as wide as a multiprocessor allows, and if the keys are enough, there is one for
    // every multiprocessor; many of less share one.
    const bool few = blocks.is_constant() && blocks.constant() <= units;
    const int block_threads = few ? 512 : 128, waves = block_threads / target_.architecture().wave_width;
    const int64_t most_parts = few ? units / blocks.constant() : 1;
    const bool parted = most_parts > 1;
    std::string rows;
    const std::string access = operand_access(operands, false, rows);
    if (parted) arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    const std::string workspace = parted ? buffer_pointer("float", arguments_.size() - 1) : "nullptr";
    const std::string constants =
        fmt::format("static constexpr int kWaves = {};\nstatic constexpr int kMostParts = {};\n", waves, most_parts);
    std::string source =
        "#include \"causeway/kernels/attention_block_map.h\"\n#include "
        "\"causeway/kernels/gpu/attention_one_query.h\"\nnamespace {\n" +
        problem(constants + access, rows, "float* workspace;\n", fmt::format("workspace = {};\n", workspace)) + "}\n";
    const auto parts = [keys = key_length_, most_parts](const SymbolBindings& bindings) {
      return one_query_parts(keys.evaluate(bindings), most_parts);
    };
    const int64_t head_dim = geometry_request().head_dim;
    std::vector<KernelPhase> phases;
    const auto add = [&](const std::string& name, int64_t heads_of_block, SizeFunction tasks) {
      source += entry(name, block_threads, 1, 0,
                      fmt::format("gpu_attention_one_query<{}>(problem, task);", heads_of_block), true);
      const int64_t bytes = heads_of_block * waves * (2 + head_dim) * static_cast<int64_t>(sizeof(float));
      phases.push_back(gpu_phase(name, block_threads, static_cast<int>(bytes), std::move(tasks)));
    };
    // A multiprocessor for each head, where keys are too few for parts.
    const bool spreads = parted && of_block > 1 && heads.constant() <= units;
    if (spreads)
      add("kernel_few_keys", 1,
          [=](const SymbolBindings& bindings) { return parts(bindings) == 1 ? heads.evaluate(bindings) : 0; });
    add("kernel", of_block, [=](const SymbolBindings& bindings) {
      return spreads && parts(bindings) == 1 ? 0 : blocks.evaluate(bindings) * parts(bindings);
    });
    if (parted) {
      source += entry("kernel_combine", block_threads, 1, 0, "gpu_attention_combine_parts(problem, task);");
      phases.push_back(gpu_phase("kernel_combine", block_threads, 0, [=](const SymbolBindings& bindings) {
        return parts(bindings) > 1 ? heads.evaluate(bindings) : 0;
      }));
    }
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases = std::move(phases);
    if (parted)
      kernel.workspace_bytes = [=](const SymbolBindings& bindings) {
        const int64_t floats = parts(bindings) > 1 ? one_query_part_floats(head_dim) : 0;
        return heads.evaluate(bindings) * parts(bindings) * floats * static_cast<int64_t>(sizeof(float));
      };
    return kernel;
  }

  // Of the functions that are called by each block. When everything else that the kernel takes is known.
  std::string call_arguments(bool tma) {
    return tma ? fmt::format("(problem, maps, {});", task_counter()) : "(problem, task);";
  }

  GeneratedKernel write_forward(const Operands& operands, bool tma, const std::string& header,
                                const std::string& function, const std::string& more_constants,
                                const GpuAttentionTiles& tiles, int threads) {
    std::string rows;
    const std::string access = operand_access(operands, tma, rows);
    const std::string text =
        problem(more_constants +
                    fmt::format("static constexpr int kQueryTile = {};\nstatic constexpr int kKeyTile = {};\n",
                                tiles.query_tile, tiles.key_tile) +
                    access,
                rows);
    const std::string call = function + call_arguments(tma);
    std::string source = "#include \"causeway/kernels/attention_block_map.h\"\n#include \"causeway/kernels/gpu/" +
                         header + "\"\nnamespace {\n" + text + "}\n" +
                         entry("kernel", threads, tiles.blocks_per_unit, tma ? operands.direct() : 0, call);
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases = {phase("kernel", threads, tiles.shared_bytes, query_heads_, query_length_, tiles.query_tile, tma)};
    if (tma) kernel.tensor_maps = tensor_maps(operands);
    return kernel;
  }

  // How a direction of the gradient is written: by which functions, in which pieces.
  struct GradientPlan {
    std::string header, functions;  // functions + "query_gradient", "key_gradient"
    std::string constants;
    int threads = 0, shared_bytes = 0;
    int lines = 0, key_lines = 0;  // of a block
    int blocks_per_unit = 1, key_blocks_per_unit = 1;
    bool gradients_together = true;
    bool tma = false;  // in persistent blocks
  };

  GradientPlan gradient_plan(const Operands& operands) const {
    if (const auto tiles = hopper_gradient_tiles(operands)) {
      return {
          .header = "attention_hopper_gradient.h",
          .functions = "hopper_attention_",
          .constants = fmt::format("static constexpr int kGroups = {};\nstatic constexpr int kGradientStages = {};\n"
                                   "static constexpr int kGradientTile = {};\n",
                                   tiles->groups, tiles->stages, tiles->tile),
          .threads = 128 * (tiles->groups + 1),
          .shared_bytes = tiles->shared_bytes,
          .lines = 64 * tiles->groups,
          .key_lines = 64 * tiles->groups,
          .tma = true};
    }
    const GpuAttentionTiles tiles = gpu_attention_backward_tiles(geometry_request(operands), target_.architecture());
    return {
        .header = tiles.ping_pong ? "attention_cdna_gradient.h" : "attention_gradient.h",
        .functions = tiles.ping_pong ? "cdna_attention_" : "gpu_attention_",
        .constants = tile_constants(tiles) + fmt::format("static constexpr int kGradientTile = {};\n", tiles.key_tile),
        .threads = threads(tiles),
        .shared_bytes = tiles.shared_bytes,
        .lines = tiles.query_tile,
        .key_lines = tiles.key_lines,
        .blocks_per_unit = tiles.blocks_per_unit,
        .key_blocks_per_unit = tiles.key_blocks_per_unit,
        .gradients_together = tiles.gradients_together};
  }

  // All three gradients in one pass.
  GeneratedKernel write_joint_backward(const Operands& operands, const HopperAttentionJointTiles& tiles) {
    std::string rows;
    const std::string constants =
        fmt::format(
            "static constexpr int kGroups = 2;\nstatic constexpr int kGradientTile = 64;\n"
            "static constexpr int kOwnStages = {};\nstatic constexpr int kGradientStages = {};\n",
            tiles.own_stages, tiles.stages) +
        operand_access(operands, true, rows);
    const size_t workspace = arguments_.size();
    arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    const int64_t head_dim = geometry_request().head_dim;
    const auto query_tiles = [batch = batch_, heads = query_heads_, length = query_length_](const SymbolBindings& b) {
      return batch.evaluate(b) * heads.evaluate(b) * divide_up(length.evaluate(b), 64);
    };
    const std::string text = problem(constants, rows, "float* workspace;\n",
                                     fmt::format("workspace = {};\n", buffer_pointer("float", workspace)));
    const std::string call = "hopper_attention_joint_gradient" + call_arguments(true);
    const int maps = operands.direct();
    std::string source =
        "#include \"causeway/kernels/attention_block_map.h\"\n"
        "#include \"causeway/kernels/gpu/attention_hopper_joint_gradient.h\"\nnamespace {\n" +
        text + "}\n" + entry("kernel_begin", 128, 1, maps, "hopper_attention_begin_turns(problem, task);") +
        entry("kernel", 384, 1, maps, call) +
        entry("kernel_queries", 128, 1, maps, "hopper_attention_finish_queries(problem, task);");
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases = {gpu_phase("kernel_begin", 128, 0,
                               [query_tiles](const SymbolBindings& b) { return divide_up(query_tiles(b), 128); }),
                     phase("kernel", 384, tiles.shared_bytes, kv_heads_, key_length_, 128, true),
                     gpu_phase("kernel_queries", 128, static_cast<int>(64 * head_dim * 2), query_tiles)};
    kernel.workspace_bytes = [query_tiles, head_dim](const SymbolBindings& b) {
      return query_tiles(b) * (64 * head_dim + 1) * static_cast<int64_t>(sizeof(float));
    };
    kernel.tensor_maps = tensor_maps(operands);
    return kernel;
  }

  GeneratedKernel write_backward() {
    read_inputs();
    const Operands operands = read_operands();
    const int32_t attention = request_.members.front().node;
    const bool all =
        request_.computes({attention, 0}) && request_.computes({attention, 1}) && request_.computes({attention, 2});
    if (all && !request_.fixed_order)
      if (const auto tiles =
              hopper_attention_joint_tiles(geometry_request(!operands.all_direct()), target_.architecture()))
        return write_joint_backward(operands, *tiles);
    const GradientPlan plan = gradient_plan(operands);
    std::string rows;
    const std::string access = operand_access(operands, plan.tma, rows);
    const std::string text = problem(plan.constants + access, rows);
    const int maps = plan.tma ? operands.direct() : 0;
    const std::string arguments = call_arguments(plan.tma);
    const int32_t node = request_.members.front().node;
    const bool for_queries = request_.computes({node, 0});
    const bool for_keys = request_.computes({node, 1}), for_values = request_.computes({node, 2});
    std::string source =
        "#include \"causeway/kernels/attention_block_map.h\"\n"
        "#include \"causeway/kernels/gpu/" +
        plan.header + "\"\nnamespace {\n" + text + "}\n";
    std::vector<KernelPhase> phases;
    const auto add_keys = [&](const std::string& name, bool keys, bool values) {
      source += entry(name, plan.threads, plan.key_blocks_per_unit, maps,
                      fmt::format("{}key_gradient<{}, {}>{}", plan.functions, keys, values, arguments));
      phases.push_back(phase(name, plan.threads, plan.shared_bytes, kv_heads_, key_length_, plan.key_lines, plan.tma));
    };
    if (for_queries) {
      source += entry("kernel_queries", plan.threads, plan.blocks_per_unit, maps,
                      plan.functions + "query_gradient" + arguments);
      phases.push_back(
          phase("kernel_queries", plan.threads, plan.shared_bytes, query_heads_, query_length_, plan.lines, plan.tma));
    }
    if (for_keys && for_values && plan.gradients_together) {
      add_keys("kernel_keys_values", true, true);
    } else {
      if (for_keys) add_keys("kernel_keys", true, false);
      if (for_values) add_keys("kernel_values", false, true);
    }
    GeneratedKernel kernel = finish(std::move(source));
    kernel.phases = std::move(phases);
    if (plan.tma) kernel.tensor_maps = tensor_maps(operands);
    return kernel;
  }

  std::string entry(const std::string& name, int threads, int blocks_per_unit, int maps, const std::string& call,
                    bool begins_early = false) {
    return gpu_kernel(name, threads, blocks_per_unit, maps, begins_early) + "const Problem problem(buffers, sizes);\n" +
           call + "\n}\n";
  }

  Operands read_operands() {
    Operands operands;
    const auto add = [&](const char* name, const char* row, const char* position, size_t input) {
      operands.list.push_back({name, row, position, rows_of(position, node_.inputs[input])});
    };
    add("Q", "q_row", "t", 0);
    add("K", "k_row", "s", 1);
    add("V", "v_row", "s", 2);
    if (backward_) add("Gradient", "out_gradient_row", "t", 3);
    return operands;
  }

  // The constants that tell kernels how to reach operands, and in `rows` the functions for those that do it by address.
  std::string operand_access(const Operands& operands, bool tma, std::string& rows) {
    std::string text;
    if (tma) text += fmt::format("static constexpr bool kComputesOperands = {};\n", !operands.all_direct());
    int map = 0;
    for (const Operand& operand : operands.list) {
      const bool direct = operand.rows.has_value();
      if (tma) {
        text += fmt::format("static constexpr int kMap{} = {};\n", operand.name, direct ? map++ : -1);
        if (direct) pointer(operand.rows->source);
        continue;
      }
      text += fmt::format("static constexpr bool kDirect{} = {};\n", operand.name, direct);
      if (direct) rows += row_function(operand);
    }
    return text;
  }

  std::optional<Rows> rows_of(const std::string& position, Value operand_value) {
    Rows rows;
    rows.source = operand_value;
    while (!materialized_.contains(rows.source)) {
      const Node& node = graph_.node(rows.source);
      if (node.op != Op::kReshape && node.op != Op::kPermute && node.op != Op::kSlice) return std::nullopt;
      rows.source = node.inputs[0];
    }
    rows.shape = graph_.shape(operand_value);
    const Shape& shape = rows.shape;
    const int first = static_cast<int>(variables_.size());
    for (const auto& [variable, axis] :
         {std::pair{std::string("b"), 0}, {std::string("h"), 2}, {position, 1}, {std::string("d"), 3}})
      parameter(variable, shape[static_cast<size_t>(axis)]);
    const std::vector<Index> at = {Index::of(first), Index::of(first + 2), Index::of(first + 1), Index::of(first + 3)};
    const size_t known = variables_.size();
    pointer(rows.source);
    ElementWalk walk(graph_, *this, variables_);
    loads_.clear();
    walk.compute(operand_value, {{}, at});
    if (loads_.size() != 1 || variables_.size() != known) return std::nullopt;
    const Index& linear = loads_.front();
    rows.element_bytes = static_cast<int64_t>(size_bytes(graph_.dtype(operand_value)));
    const int64_t piece = 16 / rows.element_bytes;
    const auto in_pieces = [&](const Dim& dim) { return dim.is_constant(0) || dim.divide_exactly(piece).has_value(); };
    bool contiguous = false;
    rows.strides.fill(Dim(0));
    for (const Index::Term& term : linear.terms) {
      if (term.variable == first + 3) {
        contiguous = term.coefficient.is_constant(1);
      } else if (term.variable >= first && in_pieces(term.coefficient)) {
        rows.strides[static_cast<size_t>(term.variable - first)] = term.coefficient;
      } else {
        return std::nullopt;
      }
    }
    rows.offset = linear.offset;
    // TMA repeats nothing.
    constexpr std::array<size_t, 3> kAxes = {0, 2, 1};
    for (size_t i = 0; i < kAxes.size(); ++i)
      if (target_.architecture().has_warpgroup_matrix && rows.strides[i].is_constant(0) &&
          !shape[kAxes[i]].is_constant(1))
        return std::nullopt;
    if (!contiguous || !in_pieces(rows.offset) || shape[3].constant() % piece != 0) return std::nullopt;
    return rows;
  }

  // The address of a row of a head.
  std::string row_function(const Operand& operand) {
    const Rows& rows = *operand.rows;
    const int first = static_cast<int>(variables_.size());
    Index linear = Index::constant(rows.offset);
    for (const auto& [variable, axis] : {std::pair{std::string("b"), 0}, {std::string("h"), 2}, {operand.position, 1}})
      parameter(variable, rows.shape[static_cast<size_t>(axis)]);
    for (int i = 0; i < 3; ++i)
      if (!rows.strides[static_cast<size_t>(i)].is_constant(0))
        linear = add(linear, scale(Index::of(first + i), rows.strides[static_cast<size_t>(i)]));
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    return fmt::format(
        "CAUSEWAY_INLINE const Operand* {}(int64_t b, int64_t h, int64_t {}) const {{ return {} + {}; }}\n",
        operand.row, operand.position,
        rounds_to_tf32() ? fmt::format("reinterpret_cast<const Operand*>({})", pointer(rows.source))
                         : pointer(rows.source),
        emitter.index_text(linear));
  }

  // Of the operands whose rows lie in memory, in their order: [D][T][H][B] in boxes of 64 x 64.
  TensorMapFunction tensor_maps(const Operands& operands) const {
    std::vector<std::pair<Rows, int>> direct;
    for (const Operand& operand : operands.list) {
      if (!operand.rows) continue;
      const auto found = std::find_if(arguments_.begin(), arguments_.end(), [&](const KernelArgument& candidate) {
        return candidate.kind == KernelArgument::Kind::kValue && candidate.value == operand.rows->source;
      });
      CAUSEWAY_CHECK(found != arguments_.end(), "an operand of attention is no argument of its kernel");
      direct.emplace_back(*operand.rows, static_cast<int>(found - arguments_.begin()));
    }
    if (direct.empty()) return nullptr;
    return [direct](const SymbolBindings& bindings) {
      std::vector<TensorMap> maps;
      for (const auto& [rows, buffer] : direct) {
        TensorMap& map = maps.emplace_back();
        map.buffer = buffer;
        map.offset = rows.offset.evaluate(bindings) * rows.element_bytes;
        map.element_bytes = static_cast<int>(rows.element_bytes);
        map.rank = 4;
        map.sizes[0] = rows.shape[3].evaluate(bindings);
        map.stride_bytes[0] = rows.element_bytes;
        map.box[0] = map.box[1] = 64;
        map.box[2] = map.box[3] = 1;
        constexpr std::array<size_t, 3> kAxes = {1, 2, 0};
        for (size_t i = 0; i < kAxes.size(); ++i) {
          // The device refuses empty dimensions; nothing of them is loaded. Of one element the stride does not count,
          // but has to be a valid one.
          map.sizes[i + 1] = std::max<int64_t>(1, rows.shape[kAxes[i]].evaluate(bindings));
          map.stride_bytes[i + 1] = std::max<int64_t>(16, rows.strides[2 - i].evaluate(bindings) * rows.element_bytes);
        }
        map.swizzle_bytes = 128;
      }
      return maps;
    };
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
                         gpu_kernel("kernel", kBlockMapThreads) +
                         "const Problem problem(buffers, sizes);\ngpu_attention_block_map(problem, task);\n}\n";
    GeneratedKernel kernel = finish(std::move(source));
    KernelPhase phase;
    phase.function = "kernel";
    phase.tasks = [map](const SymbolBindings& bindings) {
      return map[0].evaluate(bindings) * map[1].evaluate(bindings) * map[2].evaluate(bindings) *
             attention_block_map_parts(map[3].evaluate(bindings));
    };
    phase.scratch_bytes = no_scratch();
    phase.threads = kBlockMapThreads;
    kernel.phases = {std::move(phase)};
    return kernel;
  }

  std::vector<Index> loads_;
  bool one_query_ = false;  // the kernel multiplies without matrix instructions
};

}  // namespace

GeneratedKernel write_gpu_attention_kernel(const KernelInputs& inputs) { return GpuAttentionWriter(inputs).write(); }

std::optional<Obstacle> find_gpu_attention_obstacle(const KernelInputs& inputs) {
  return GpuAttentionWriter(inputs).find_scattered_operand();
}

}  // namespace causeway::codegen
