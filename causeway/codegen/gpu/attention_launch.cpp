#include "causeway/codegen/gpu/attention_launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/loops.h"

namespace causeway::codegen {
namespace {

constexpr int kWarpgroup = 128;  // threads

// A block for so many positions of a head.
SizeFunction blocks_of(const Dim& batch, const Dim& heads, const Dim& length, int lines) {
  return [=](const SymbolBindings& bindings) {
    return batch.evaluate(bindings) * heads.evaluate(bindings) * divide_up(length.evaluate(bindings), lines);
  };
}

GpuAttentionLaunch launch_tile(const GpuAttentionProblem& problem, const GpuAttentionPlan&,
                               const GpuAttentionTile& tile, const GpuArchitecture& architecture) {
  GpuAttentionLaunch launch;
  launch.include = tile.ping_pong ? "causeway/kernels/gpu/attention_cdna.h" : "causeway/kernels/gpu/attention.h";
  launch.kernels.push_back(
      {.function = tile.ping_pong ? "cdna_attention_forward" : "gpu_attention_forward",
       .run = gpu_phase("kernel", tile.waves * architecture.wave_width,
                        gpu_attention_shared_bytes(problem.head_dim, problem.value_dim,
                                                   static_cast<int>(problem.element_bytes()), tile),
                        blocks_of(problem.batch, problem.query_heads, problem.query_length, tile.queries)),
       .blocks_per_unit = tile.blocks_per_unit});
  return launch;
}

GpuAttentionLaunch launch_tile(const GpuAttentionProblem& problem, const GpuAttentionPlan&,
                               const HopperAttentionTile& tile, const GpuArchitecture&) {
  GpuAttentionLaunch launch;
  launch.include = "causeway/kernels/gpu/attention_hopper.h";
  launch.kernels.push_back({.function = "hopper_attention_forward",
                            .run = gpu_phase("kernel", kWarpgroup * (tile.groups + 1),
                                             hopper_attention_shared_bytes(problem.head_dim, problem.value_dim, tile),
                                             blocks_of(problem.batch, problem.query_heads, problem.query_length,
                                                       hopper_attention_lines(tile.groups)))});
  launch.kernels.front().run.persistent = true;
  return launch;
}

GpuAttentionLaunch launch_tile(const GpuAttentionProblem& problem, const GpuAttentionPlan& plan,
                               const OneQueryAttentionTile& tile, const GpuArchitecture& architecture) {
  const bool spreads = plan.spreads_heads;
  const int threads = tile.waves * architecture.wave_width;
  const bool parted = tile.most_parts > 1;
  const Dim heads = problem.batch * problem.query_heads;
  const Dim blocks = problem.batch * Dim(problem.query_heads.constant() / tile.heads);
  const auto parts = [keys = problem.key_length, most = tile.most_parts](const SymbolBindings& bindings) {
    return one_query_parts(keys.evaluate(bindings), most);
  };
  GpuAttentionLaunch launch;
  launch.include = "causeway/kernels/gpu/attention_one_query.h";
  launch.takes_workspace = true;
  const auto add = [&](const std::string& name, int heads_of_block, SizeFunction tasks) {
    const auto shared = static_cast<int>(one_query_shared_bytes(problem.head_dim, tile.waves, heads_of_block));
    // Queries and sums of several heads take registers that keep other blocks out.
    launch.kernels.push_back({.function = fmt::format("gpu_attention_one_query<{}>", heads_of_block),
                              .run = gpu_phase(name, threads, shared, std::move(tasks)),
                              .blocks_per_unit = heads_of_block > 1 ? kOneQueryThreads / threads : 1,
                              .begins_early = true});
  };
  if (spreads)
    add("kernel_few_keys", 1,
        [=](const SymbolBindings& bindings) { return parts(bindings) == 1 ? heads.evaluate(bindings) : 0; });
  add("kernel", tile.heads, [=](const SymbolBindings& bindings) {
    return spreads && parts(bindings) == 1 ? 0 : blocks.evaluate(bindings) * parts(bindings);
  });
  if (!parted) return launch;
  launch.kernels.push_back({.function = "gpu_attention_combine_parts",
                            .run = gpu_phase("kernel_combine", threads, 0, [=](const SymbolBindings& bindings) {
                              return parts(bindings) > 1 ? heads.evaluate(bindings) : 0;
                            })});
  launch.workspace_bytes = [=, head_dim = problem.head_dim](const SymbolBindings& bindings) {
    const int64_t floats = parts(bindings) > 1 ? one_query_part_floats(head_dim) : 0;
    return heads.evaluate(bindings) * parts(bindings) * floats * static_cast<int64_t>(sizeof(float));
  };
  return launch;
}

// The launch of queries and that of keys and values, which are two where registers do not hold the sums of both.
struct TwoPasses {
  std::string_view functions;  // functions + "query_gradient", "key_gradient"
  int threads = 0, shared_bytes = 0;
  int queries = 0, keys = 0;  // of a block
  int blocks_per_unit = 1, key_blocks_per_unit = 1;
  bool gradients_together = true;
  bool persistent = false;
};

void add_two_passes(const GpuAttentionProblem& problem, const TwoPasses& passes, GpuAttentionLaunch& launch) {
  const auto& [queries, keys, values] = *problem.gradients;
  const auto add = [&](const std::string& name, const std::string& function, SizeFunction blocks, int blocks_per_unit) {
    launch.kernels.push_back({.function = std::string(passes.functions) + function,
                              .run = gpu_phase(name, passes.threads, passes.shared_bytes, std::move(blocks)),
                              .blocks_per_unit = blocks_per_unit});
    launch.kernels.back().run.persistent = passes.persistent;
  };
  const auto add_keys = [&](const std::string& name, bool of_keys, bool of_values) {
    add(name, fmt::format("key_gradient<{}, {}>", of_keys, of_values),
        blocks_of(problem.batch, problem.kv_heads, problem.key_length, passes.keys), passes.key_blocks_per_unit);
  };
  if (queries)
    add("kernel_queries", "query_gradient",
        blocks_of(problem.batch, problem.query_heads, problem.query_length, passes.queries), passes.blocks_per_unit);
  if (keys && values && passes.gradients_together) {
    add_keys("kernel_keys_values", true, true);
  } else {
    if (keys) add_keys("kernel_keys", true, false);
    if (values) add_keys("kernel_values", false, true);
  }
}

GpuAttentionLaunch launch_tile(const GpuAttentionProblem& problem, const GpuAttentionPlan&,
                               const GpuAttentionGradientTile& tile, const GpuArchitecture& architecture) {
  GpuAttentionLaunch launch;
  launch.include =
      tile.ping_pong ? "causeway/kernels/gpu/attention_cdna_gradient.h" : "causeway/kernels/gpu/attention_gradient.h";
  add_two_passes(problem,
                 {.functions = tile.ping_pong ? "cdna_attention_" : "gpu_attention_",
                  .threads = tile.waves * architecture.wave_width,
                  .shared_bytes = gpu_attention_gradient_shared_bytes(problem.head_dim, problem.value_dim,
                                                                      static_cast<int>(problem.element_bytes()), tile),
                  .queries = tile.queries,
                  .keys = tile.keys,
                  .blocks_per_unit = tile.blocks_per_unit,
                  .key_blocks_per_unit = tile.key_blocks_per_unit,
                  .gradients_together = tile.gradients_together},
                 launch);
  return launch;
}

// Turns are set, then taken; the sums of queries are scaled and stored in the end.
void add_one_pass(const GpuAttentionProblem& problem, const HopperAttentionGradientTile& tile,
                  GpuAttentionLaunch& launch) {
  const int64_t sums = tile.others * problem.head_dim, turn = 1;  // of a tile of queries
  const SizeFunction query_tiles = blocks_of(problem.batch, problem.query_heads, problem.query_length, tile.others);
  launch.include = "causeway/kernels/gpu/attention_hopper_joint_gradient.h";
  launch.takes_workspace = true;
  launch.kernels.push_back({.function = "hopper_attention_begin_turns",
                            .run = gpu_phase("kernel_begin", kWarpgroup, 0, [=](const SymbolBindings& bindings) {
                              return divide_up(query_tiles(bindings), kWarpgroup);
                            })});
  launch.kernels.push_back(
      {.function = "hopper_attention_joint_gradient",
       .run = gpu_phase(
           "kernel", kWarpgroup * (tile.groups + 1),
           hopper_attention_gradient_shared_bytes(problem.head_dim, problem.value_dim, tile),
           blocks_of(problem.batch, problem.kv_heads, problem.key_length, hopper_attention_lines(tile.parts())))});
  launch.kernels.back().run.persistent = true;
  launch.kernels.push_back(
      {.function = "hopper_attention_finish_queries",
       .run = gpu_phase("kernel_queries", kWarpgroup, tile.others * hopper_attention_columns(problem.head_dim) * 2,
                        query_tiles)});
  launch.workspace_bytes = [=](const SymbolBindings& bindings) {
    return query_tiles(bindings) * (sums + turn) * static_cast<int64_t>(sizeof(float));
  };
}

// The launch of queries, and the one of keys and values whose tile is given.
void add_wide_passes(const GpuAttentionProblem& problem, const HopperAttentionGradientTile& tile,
                     GpuAttentionLaunch& launch) {
  const HopperAttentionGradientTile queries = hopper_attention_wide_queries(tile);
  launch.include = "causeway/kernels/gpu/attention_hopper_wide_gradient.h";
  const auto add = [&](const std::string& name, const std::string& function, int shared_bytes, SizeFunction blocks) {
    launch.kernels.push_back({.function = function,
                              .run = gpu_phase(name, kWarpgroup * (tile.groups + 1), shared_bytes, std::move(blocks))});
    launch.kernels.back().run.persistent = true;
  };
  add("kernel_queries", "hopper_attention_wide_query_gradient",
      hopper_attention_wide_queries_shared_bytes(problem.head_dim, problem.value_dim, queries),
      blocks_of(problem.batch, problem.query_heads, problem.query_length, hopper_attention_lines(queries.parts())));
  add("kernel_keys_values", "hopper_attention_wide_key_gradient",
      hopper_attention_gradient_shared_bytes(problem.head_dim, problem.value_dim, tile),
      blocks_of(problem.batch, problem.kv_heads, problem.key_length, hopper_attention_lines(tile.parts())));
}

GpuAttentionLaunch launch_tile(const GpuAttentionProblem& problem, const GpuAttentionPlan&,
                               const HopperAttentionGradientTile& tile, const GpuArchitecture&) {
  GpuAttentionLaunch launch;
  if (tile.joint()) {
    add_one_pass(problem, tile, launch);
    return launch;
  }
  if (tile.wide()) {
    add_wide_passes(problem, tile, launch);
    return launch;
  }
  launch.include = "causeway/kernels/gpu/attention_hopper_gradient.h";
  add_two_passes(problem,
                 {.functions = "hopper_attention_",
                  .threads = kWarpgroup * (tile.groups + 1),
                  .shared_bytes = hopper_attention_gradient_shared_bytes(problem.head_dim, problem.value_dim, tile),
                  .queries = hopper_attention_lines(tile.groups),
                  .keys = hopper_attention_lines(tile.groups),
                  .persistent = true},
                 launch);
  return launch;
}

}  // namespace

GpuAttentionLaunch launch_attention(const GpuAttentionProblem& problem, const GpuAttentionPlan& plan,
                                    const GpuArchitecture& architecture) {
  GpuAttentionLaunch launch =
      std::visit([&](const auto& tile) { return launch_tile(problem, plan, tile, architecture); }, plan.tile);
  if (plan.loads_by_tma)
    launch.tensor_maps = static_cast<int>(std::count(plan.in_memory.begin(), plan.in_memory.end(), true));
  return launch;
}

}  // namespace causeway::codegen
