#include "causeway/codegen/gpu/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <span>

#include "causeway/base/error.h"
#include "causeway/codegen/gpu/schedules.h"

namespace causeway::codegen {
namespace {

// Whether one is a multiple of the other.
bool nests(int64_t a, int64_t b) { return a % b == 0 || b % a == 0; }

bool has_halves(const GpuAttentionProblem& problem) { return problem.element_bytes() == 2; }

bool all_in_memory(const GpuAttentionProblem& problem) {
  return std::all_of(problem.rows.begin(), problem.rows.end(), [](const auto& rows) { return rows.has_value(); });
}

std::vector<bool> what_lies_in_memory(const GpuAttentionProblem& problem) {
  std::vector<bool> result;
  for (const std::optional<GpuAttentionRows>& rows : problem.rows) result.push_back(rows.has_value());
  return result;
}

// The first row of a table for the problem; rows are by growing heads.
template <class Schedule>
const Schedule& portable_schedule(std::span<const Schedule> schedules, const GpuAttentionProblem& problem,
                                  const GpuArchitecture& architecture) {
  const auto found = std::find_if(schedules.begin(), schedules.end(), [&](const Schedule& schedule) {
    return (schedule.operand_bytes == 2) == has_halves(problem) &&
           gpu_attention_padded_dim(std::max(problem.head_dim, problem.value_dim)) <= schedule.most_head_dim &&
           schedule.instructions == architecture.wave_matrix;
  });
  CAUSEWAY_CHECK(found != schedules.end(), "no schedule of attention for {} on {}", dtype_name(problem.dtype),
                 architecture.processor);
  return *found;
}

// Of the kernels of warpgroups and TMA, where they serve. In which order they add up depends on how many queries there
// are.
const HopperAttentionSchedule* hopper_schedule(const GpuAttentionProblem& problem,
                                               const GpuArchitecture& architecture) {
  if (problem.fixed_order || !architecture.has_tma || !architecture.has_warpgroup_matrix || !has_halves(problem) ||
      !hopper_attention_serves(problem.head_dim, problem.value_dim))
    return nullptr;
  const auto schedules = hopper_attention_schedules();
  return &*std::find_if(schedules.begin(), schedules.end(), [&](const HopperAttentionSchedule& schedule) {
    return problem.head_dim <= schedule.most_head_dim && problem.value_dim <= schedule.most_value_dim;
  });
}

// Of its gradients; nothing where there are none of that kind of such heads.
std::optional<HopperAttentionGradientTile> hopper_gradient_tile(const HopperAttentionSchedule& schedule,
                                                                const GpuAttentionProblem& problem,
                                                                bool computes_operands) {
  if (computes_operands) return schedule.gradient_computing;
  return schedule.all_gradients && problem.gradients->all() ? schedule.all_gradients : schedule.gradient;
}

// Whether attention_one_query.h takes it.
bool serves_one_query(const GpuAttentionProblem& problem, const GpuArchitecture& architecture) {
  const int64_t pieces = problem.head_dim * problem.element_bytes() / 16;
  return !problem.fixed_order && problem.query_length.is_constant(1) && all_in_memory(problem) &&
         has_whole_pieces(problem) && problem.value_dim == problem.head_dim &&
         std::has_single_bit(static_cast<uint64_t>(pieces)) && pieces <= architecture.wave_width;
}

// Whether ping-pong is for heads and lengths like these, whichever operands lie in memory. It adds up in another order
// than what is for few queries, and a fixed order is the same for any number.
bool serves_ping_pong(const GpuAttentionProblem& problem, const GpuArchitecture& architecture) {
  constexpr int64_t kFewQueries = 128;
  const bool few = problem.query_length.is_constant() && problem.query_length.constant() <= kFewQueries;
  return architecture.wave_matrix == GpuArchitecture::WaveMatrix::kMfma && has_halves(problem) &&
         (problem.head_dim == 64 || problem.head_dim == 128) && problem.value_dim == problem.head_dim &&
         !problem.fixed_order && !few && problem.block_q % 32 == 0;
}

OneQueryAttentionTile one_query_tile(const GpuAttentionProblem& problem, const GpuArchitecture& architecture) {
  // Heads that share keys share a block, as far as registers hold their queries and sums.
  constexpr int kMostHeads = 4;
  OneQueryAttentionTile tile;
  tile.heads = kMostHeads;
  while (problem.query_heads.constant() / problem.kv_heads.constant() % tile.heads != 0) --tile.heads;
  const Dim blocks = problem.batch * Dim(problem.query_heads.constant() / tile.heads);
  // Where blocks are few, each is as wide as a multiprocessor allows, and if the keys are enough, there is one for
  // every multiprocessor; two of half as many threads share one, and many of less.
  const int64_t units = architecture.parallel_units;
  const auto at_most = [&](int64_t count) { return blocks.is_constant() && blocks.constant() <= count; };
  const bool few = at_most(units);
  constexpr int kThreadsOfMany = 128;
  const int threads = few ? kOneQueryThreads : at_most(2 * units) ? kOneQueryThreads / 2 : kThreadsOfMany;
  tile.waves = threads / architecture.wave_width;
  tile.most_parts = few ? static_cast<int>(units / blocks.constant()) : 1;
  return tile;
}

// Of attention_cdna.h: a block has 256 queries.
std::optional<GpuAttentionTile> ping_pong_tile(const GpuAttentionProblem& problem,
                                               const GpuArchitecture& architecture) {
  if (!serves_ping_pong(problem, architecture) || !problem.rows[1] || !problem.rows[2]) return std::nullopt;
  GpuAttentionTile tile = {.waves = 8, .keys = 64, .stages = 2, .ping_pong = true};
  tile.queries = 32 * tile.waves;
  tile.map_is_usable = problem.block_k % tile.keys == 0 && nests(problem.block_q, tile.queries);
  if (gpu_attention_shared_bytes(problem.head_dim, problem.value_dim, 2, tile) > architecture.shared_bytes)
    return std::nullopt;
  return tile;
}

// Of attention_cdna_gradient.h: a block has 256 queries, or 256 keys, or 128.
std::optional<GpuAttentionGradientTile> ping_pong_gradient_tile(const GpuAttentionProblem& problem,
                                                                const GpuArchitecture& architecture) {
  if (!serves_ping_pong(problem, architecture) || !all_in_memory(problem)) return std::nullopt;
  GpuAttentionGradientTile tile = {.waves = 8, .others = 32, .stages = 2, .ping_pong = true};
  tile.queries = 32 * tile.waves;
  tile.keys = 16 * cdna_attention_key_blocks(problem.head_dim) * tile.waves;
  tile.map_is_usable = problem.block_k % tile.others == 0 && problem.block_q % tile.others == 0 &&
                       nests(problem.block_q, tile.queries) && nests(problem.block_k, tile.keys);
  if (gpu_attention_gradient_shared_bytes(problem.head_dim, problem.value_dim, 2, tile) > architecture.shared_bytes)
    return std::nullopt;
  return tile;
}

[[noreturn]] void refuse_attention(const GpuAttentionProblem& problem, const GpuArchitecture& architecture) {
  throw Error(
      ErrorKind::kResource,
      fmt::format("attention with heads of {} elements of {} bytes needs more than the {} bytes of shared memory "
                  "that a thread block of {} has",
                  std::max(problem.head_dim, problem.value_dim), problem.element_bytes(), architecture.shared_bytes,
                  architecture.processor),
      "attention", "Use smaller heads, or bf16.");
}

GpuAttentionTile portable_tile(const GpuAttentionProblem& problem, const GpuArchitecture& architecture) {
  if (const auto tile = ping_pong_tile(problem, architecture)) return *tile;
  const AttentionSchedule& schedule = portable_schedule(attention_schedules(), problem, architecture);
  const int blocks = problem.block_q % 32 == 0 ? schedule.query_blocks : 1;
  for (int keys = schedule.widest_key_tile; keys >= 16; keys /= 2)
    for (const int waves : {4, 2, 1}) {
      GpuAttentionTile tile = {.waves = waves, .queries = 16 * blocks * waves, .keys = keys, .stages = schedule.stages};
      const auto bytes = static_cast<int>(problem.element_bytes());
      if (gpu_attention_shared_bytes(problem.head_dim, problem.value_dim, bytes, tile) > architecture.shared_bytes)
        continue;
      tile.map_is_usable =
          problem.block_k % keys == 0 && problem.block_q % (16 * blocks) == 0 && nests(problem.block_q, tile.queries);
      tile.blocks_per_unit = problem.has_score ? schedule.blocks_per_unit_with_score : schedule.blocks_per_unit;
      return tile;
    }
  refuse_attention(problem, architecture);
}

GpuAttentionGradientTile portable_gradient_tile(const GpuAttentionProblem& problem,
                                                const GpuArchitecture& architecture) {
  if (const auto tile = ping_pong_gradient_tile(problem, architecture)) return *tile;
  const AttentionGradientSchedule& schedule = portable_schedule(attention_gradient_schedules(), problem, architecture);
  const auto& [block_q, block_k] = std::pair(problem.block_q, problem.block_k);
  for (int others = schedule.widest_tile; others >= 16; others /= 2)
    for (const int waves : {4, 2, 1}) {
      GpuAttentionGradientTile tile = {.waves = waves,
                                       .queries = 16 * waves,
                                       .keys = 16 * waves,
                                       .others = others,
                                       .stages = schedule.stages,
                                       .gradients_together = schedule.gradients_together};
      const int shared = gpu_attention_gradient_shared_bytes(problem.head_dim, problem.value_dim,
                                                             static_cast<int>(problem.element_bytes()), tile);
      if (shared > architecture.shared_bytes) continue;
      tile.map_is_usable = block_k % others == 0 && block_q % others == 0 && block_q % 16 == 0 && block_k % 16 == 0 &&
                           nests(block_q, tile.queries) && nests(block_k, tile.keys);
      if (waves == 4) {
        const int fitting = architecture.shared_bytes / shared, less = problem.has_score ? 1 : 0;
        tile.blocks_per_unit = std::clamp(schedule.blocks_per_unit - less, 1, fitting);
        tile.key_blocks_per_unit = std::clamp(schedule.key_blocks_per_unit - less, 1, fitting);
      }
      return tile;
    }
  refuse_attention(problem, architecture);
}

void plan_forward(const GpuAttentionProblem& problem, const GpuArchitecture& architecture, GpuAttentionPlan& plan) {
  if (serves_one_query(problem, architecture)) {
    const OneQueryAttentionTile tile = one_query_tile(problem, architecture);
    plan.tile = tile;
    plan.spreads_heads = tile.most_parts > 1 && tile.heads > 1 &&
                         (problem.batch * problem.query_heads).constant() <= architecture.parallel_units;
  } else if (const HopperAttentionSchedule* schedule = hopper_schedule(problem, architecture)) {
    plan.loads_by_tma = true;
    plan.tile = plan.computes_operands() ? schedule->forward_computing
                : problem.has_score      ? schedule->forward_with_score
                                         : schedule->forward;
  } else {
    plan.tile = portable_tile(problem, architecture);
  }
}

void plan_gradient(const GpuAttentionProblem& problem, const GpuArchitecture& architecture, GpuAttentionPlan& plan) {
  if (const HopperAttentionSchedule* schedule = hopper_schedule(problem, architecture)) {
    if (const auto tile = hopper_gradient_tile(*schedule, problem, plan.computes_operands())) {
      plan.loads_by_tma = true;
      plan.tile = *tile;
      return;
    }
  }
  plan.tile = portable_gradient_tile(problem, architecture);
}

std::string tile_text(const GpuAttentionTile& tile) {
  return fmt::format(
      "GpuAttentionTile kTile = {{.waves = {}, .queries = {}, .keys = {}, .stages = {}, .blocks_per_unit = {}, "
      ".map_is_usable = {}, .ping_pong = {}}};",
      tile.waves, tile.queries, tile.keys, tile.stages, tile.blocks_per_unit, tile.map_is_usable, tile.ping_pong);
}

std::string tile_text(const OneQueryAttentionTile& tile) {
  return fmt::format("OneQueryAttentionTile kTile = {{.waves = {}, .heads = {}, .most_parts = {}}};", tile.waves,
                     tile.heads, tile.most_parts);
}

std::string tile_text(const HopperAttentionTile& tile) {
  return fmt::format("HopperAttentionTile kTile = {{.groups = {}, .keys = {}, .stages = {}, .query_stages = {}}};",
                     tile.groups, tile.keys, tile.stages, tile.query_stages);
}

std::string tile_text(const GpuAttentionGradientTile& tile) {
  return fmt::format(
      "GpuAttentionGradientTile kTile = {{.waves = {}, .queries = {}, .keys = {}, .others = {}, .stages = {}, "
      ".blocks_per_unit = {}, .key_blocks_per_unit = {}, .gradients_together = {}, .map_is_usable = {}, "
      ".ping_pong = {}}};",
      tile.waves, tile.queries, tile.keys, tile.others, tile.stages, tile.blocks_per_unit, tile.key_blocks_per_unit,
      tile.gradients_together, tile.map_is_usable, tile.ping_pong);
}

std::string_view kind_name(HopperAttentionGradientKind kind) {
  switch (kind) {
    case HopperAttentionGradientKind::kApart:
      return "kApart";
    case HopperAttentionGradientKind::kJoint:
      return "kJoint";
    case HopperAttentionGradientKind::kWide:
      return "kWide";
  }
  CAUSEWAY_CHECK(false, "no such kind of gradient");
}

std::string tile_text(const HopperAttentionGradientTile& tile) {
  return fmt::format(
      "HopperAttentionGradientTile kTile = {{.groups = {}, .stages = {}, .others = {}, .own_stages = {}, .kind = "
      "HopperAttentionGradientKind::{}}};",
      tile.groups, tile.stages, tile.others, tile.own_stages, kind_name(tile.kind));
}

}  // namespace

bool GpuAttentionPlan::computes_operands() const {
  return std::find(in_memory.begin(), in_memory.end(), false) != in_memory.end();
}

int GpuAttentionPlan::box_lines(size_t operand) const {
  const bool of_keys = operand == 1 || operand == 2;
  return hopper_attention_box_lines(of_keys && hopper() != nullptr ? hopper()->keys : 64);
}

GpuAttentionPlan plan_attention(const GpuAttentionProblem& problem, const GpuArchitecture& architecture) {
  CAUSEWAY_CHECK(problem.rows.size() == (problem.gradients ? 4u : 3u), "attention has {} operands",
                 problem.rows.size());
  GpuAttentionPlan plan;
  plan.in_memory = what_lies_in_memory(problem);
  if (problem.gradients) {
    plan_gradient(problem, architecture, plan);
  } else {
    plan_forward(problem, architecture, plan);
  }
  // Fragments of tf32 are mma.sync's.
  plan.rounds_to_tf32 = problem.rounds_to_tf32 && plan.one_query() == nullptr && architecture.has_tf32_matrix &&
                        architecture.wave_matrix == GpuArchitecture::WaveMatrix::kMmaSync;
  return plan;
}

std::string attention_tile_text(const GpuAttentionPlan& plan) {
  return "static constexpr " + std::visit([](const auto& tile) { return tile_text(tile); }, plan.tile) + "\n";
}

}  // namespace causeway::codegen
