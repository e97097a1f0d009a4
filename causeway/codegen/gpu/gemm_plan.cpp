#include "causeway/codegen/gpu/gemm_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace causeway::codegen {
namespace {

int64_t known_size(const Dim& size) { return size.is_constant() ? size.constant() : kUnknownSize; }

// How many neighbouring elements of a row are stored together: the narrowest stored member fills 16 bytes.
int store_lanes(const GpuGemmProblem& problem) {
  int64_t lanes = 4;
  for (const DType member : problem.epilogue.members)
    lanes = std::max<int64_t>(lanes, std::min<int64_t>(8, 16 / static_cast<int64_t>(size_bytes(member))));
  while (lanes > 1 && !problem.n.divide_exactly(lanes)) lanes /= 2;
  return static_cast<int>(lanes);
}

// Whether TMA can store what is computed: one tensor over what is read at its place, or two; of rows of whole pieces of
// 16 bytes.
bool stores_by_tma(const GpuGemmEpilogue& epilogue, const Dim& n) {
  const auto& [members, stored, fetched] = epilogue;
  constexpr size_t kMostTensors = 2;
  if (stored.empty() || stored.size() + fetched.size() > kMostTensors) return false;
  const DType dtype = stored.front();
  if (!fetched.empty() && size_bytes(fetched.front()) != size_bytes(dtype)) return false;
  return std::all_of(stored.begin(), stored.end(), [&](DType other) { return other == dtype; }) &&
         (dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32) &&
         n.divide_exactly(16 / static_cast<int64_t>(size_bytes(dtype)));
}

// Whether skinny GEMMs have tiles for so few rows or columns. None of them scales blocks.
bool has_skinny_tiles(const GpuGemmProblem& problem) {
  return problem.scales == GpuGemmScales::kNone && (is_skinny_gemm_side(problem.m) || is_skinny_gemm_side(problem.n));
}

// Whether there are matrix instructions for 8-bit operands that take these as they lie.
bool multiplies_pairs(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  const GpuGemmOperand &a = problem.a, &b = problem.b;
  if (problem.fixed_order || size_bytes(a.dtype) != 1 || size_bytes(b.dtype) != 1 || !a.contiguous_in_k ||
      !b.contiguous_in_k)
    return false;
  if (architecture.has_warpgroup_matrix)
    return a.is_multiple(16) && b.is_multiple(16) && a.batch.size() + 2 <= TensorMap::kMaxRank &&
           b.batch.size() + 2 <= TensorMap::kMaxRank && a.k.is_constant() && a.k.constant() > 0 &&
           !has_skinny_tiles(problem);
  return architecture.has_f8_matrix && a.is_multiple(2) && b.is_multiple(2);
}

// The operand in elements of two neighbours along k.
GpuGemmOperand paired(GpuGemmOperand operand) {
  const auto half = [](const Dim& dim) { return *dim.divide_exactly(2); };
  operand.element_bytes = 2;
  operand.offset = half(operand.offset);
  operand.stride = half(operand.stride);
  operand.k = half(operand.k);
  for (auto& dimension : operand.batch) dimension.stride = half(dimension.stride);
  operand.aligned = operand.is_multiple(8);
  return operand;
}

// What is multiplied, as it will be.
GpuGemmMainloop multiplied(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  GpuGemmMainloop mainloop = {problem.type, problem.a, problem.b, problem.k, {}};
  if (multiplies_pairs(problem, architecture)) {
    mainloop.type = GpuGemmType::kF8Pair;
    mainloop.a = paired(problem.a);
    mainloop.b = paired(problem.b);
    mainloop.k = mainloop.a.k;
  }
  if (problem.type == GpuGemmType::kF32 && problem.rounds_to_tf32 && architecture.has_tf32_matrix)
    mainloop.type = GpuGemmType::kTf32;
  return mainloop;
}

// Whether TMA and wgmma are there and take the operand as it lies.
bool serves_tma(const GpuGemmMainloop& mainloop, const GpuGemmOperand& operand) {
  return (operand.element_bytes == 2 || mainloop.type == GpuGemmType::kTf32) && operand.fits_tma();
}

bool serves_hopper(const GpuGemmProblem& problem, const GpuGemmMainloop& mainloop,
                   const GpuArchitecture& architecture) {
  return architecture.has_warpgroup_matrix && architecture.has_tma && serves_tma(mainloop, mainloop.a) &&
         serves_tma(mainloop, mainloop.b) && !has_skinny_tiles(problem) &&
         (mainloop.type != GpuGemmType::kTf32 || mainloop.b.contiguous_in_k);
}

// Whether 32 bits number the elements of a matrix.
bool lies_within_reach(const GpuGemmOperand& operand, const Dim& lines) {
  return lines.is_constant() && operand.stride.is_constant() &&
         lines.constant() <= std::numeric_limits<uint32_t>::max() / std::max<int64_t>(1, operand.stride.constant());
}

void plan_skinny(const GpuGemmProblem& problem, const GpuArchitecture& architecture, GpuGemmPlan& plan) {
  const int64_t m = problem.m.constant(), k = problem.k.constant();
  SkinnyGemmTile tile = choose_skinny_gemm(architecture, known_size(problem.batch), m, known_size(problem.n), k);
  if (problem.threads_of_rows > 0) {
    tile.waves = problem.threads_of_rows / architecture.wave_width;
    tile.row_bytes = static_cast<int>(skinny_gemm_row_bytes(static_cast<int>(m), k));
  }
  plan.mainloop.tile = tile;
  plan.scheduler.cluster = tile.parts;
}

void plan_portable(const GpuGemmProblem& problem, const GpuArchitecture& architecture, GpuGemmPlan& plan) {
  const GemmOperand kind = portable_operand(plan.mainloop.type);
  const int64_t k = known_size(plan.mainloop.k);
  const GpuGemmChoice chosen = problem.fixed_order
                                   ? choose_gpu_gemm(architecture, kind, kUnknownSize, kUnknownSize, kUnknownSize, k)
                                   : choose_gpu_gemm(architecture, kind, known_size(problem.batch),
                                                     known_size(problem.m), known_size(problem.n), k);
  plan.mainloop.tile = chosen.tile;
  plan.scheduler.splits = chosen.splits;
}

HopperGemmAccumulators hopper_accumulators(const GpuGemmProblem& problem, GpuGemmType type) {
  switch (problem.scales) {
    case GpuGemmScales::kOfColumns:
      return HopperGemmAccumulators::kBlockScaledByColumn;
    case GpuGemmScales::kOfBlocks:
      return HopperGemmAccumulators::kBlockScaled;
    case GpuGemmScales::kNone:
      break;
  }
  return type == GpuGemmType::kF8Pair ? HopperGemmAccumulators::kPromoted : HopperGemmAccumulators::kOne;
}

void plan_hopper(const GpuGemmProblem& problem, const GpuArchitecture& architecture, GpuGemmPlan& plan) {
  const auto& [members, stored, fetched] = problem.epilogue;
  GpuGemmMainloop& mainloop = plan.mainloop;
  const GpuGemmOperand &a = mainloop.a, &b = mainloop.b;
  const HopperGemmAccumulators sums = hopper_accumulators(problem, mainloop.type);
  plan.epilogue.stores_by_tma = stores_by_tma(problem.epilogue, problem.n);
  const auto stores = !plan.epilogue.stores_by_tma ? HopperGemmStores::kOther
                      : fetched.empty()            ? HopperGemmStores::kByTma
                                                   : HopperGemmStores::kByTmaAdded;
  // Slices count, of so many bytes and MMAs of instructions whatever they hold.
  const int64_t halves_of_k = mainloop.k.constant() * a.element_bytes / 2;
  const GemmOrder order = {.a_along_k = a.contiguous_in_k,
                           .b_along_k = b.contiguous_in_k,
                           .a_in_registers = a.element_bytes == 4 && !a.contiguous_in_k,
                           .few_batch_dimensions = a.batch.size() <= 1 && b.batch.size() <= 1,
                           .may_swap = stores == HopperGemmStores::kByTma && sums == HopperGemmAccumulators::kOne &&
                                       a.element_bytes == 2 && size_bytes(stored.front()) == 2,
                           .one_result = stored.size() == 1};
  const HopperGemmPlan chosen = choose_hopper_gemm(architecture, sums, stores, known_size(problem.batch),
                                                   known_size(problem.m), known_size(problem.n), halves_of_k, order);
  const HopperGemmTile& tile = chosen.tile;
  mainloop.tile = tile;
  if (tile.swapped) std::swap(mainloop.a, mainloop.b);
  plan.scheduler = {.persistent = true,
                    .cluster = hopper_gemm_cluster(tile),
                    .splits = chosen.splits,
                    .whole_tiles = chosen.whole_tiles};
  if (chosen.splits > 1)
    plan.scheduler.split_tiles = problem.batch.constant() *
                                     gemm_ceil_div(mainloop.a.lines.constant(), hopper_gemm_cluster_rows(tile)) *
                                     gemm_ceil_div(mainloop.b.lines.constant(), hopper_gemm_cluster_columns(tile)) -
                                 chosen.whole_tiles;
}

}  // namespace

GemmOperand portable_operand(GpuGemmType type) {
  return type == GpuGemmType::kF32    ? GemmOperand::kFloat
         : type == GpuGemmType::kTf32 ? GemmOperand::kTf32
                                      : GemmOperand::kHalf;
}

bool serves_skinny_gemm(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  const GpuGemmOperand &a = problem.a, &b = problem.b;
  const DType dtype = a.dtype;
  return architecture.wave_matrix == GpuArchitecture::WaveMatrix::kMmaSync && is_skinny_gemm_side(problem.m) &&
         problem.m.constant() > 0 && (dtype == DType::kBF16 || dtype == DType::kF16) && b.dtype == dtype && a.aligned &&
         b.aligned && a.contiguous_in_k && b.contiguous_in_k && problem.k.is_constant() && problem.k.constant() > 0 &&
         problem.k.constant() % kSkinnyGemmSlice == 0 && lies_within_reach(a, problem.m) &&
         lies_within_reach(b, problem.n) && problem.b_never_changes;
}

bool hides_epilogue(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  return !problem.fixed_order && architecture.has_warpgroup_matrix && architecture.has_tma &&
         size_bytes(problem.a.dtype) == 2 && stores_by_tma(problem.epilogue, problem.n) &&
         size_bytes(problem.epilogue.stored.front()) == 2;
}

std::optional<GpuGemmPlan> plan_gemm(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  GpuGemmPlan plan;
  plan.mainloop = multiplied(problem, architecture);
  plan.epilogue.store_lanes = store_lanes(problem);
  // Which mainloop serves a GEMM depends on sizes that its sums do not run over: in a fixed order, one does.
  const bool hopper = !problem.fixed_order && serves_hopper(problem, plan.mainloop, architecture);
  if (problem.scales != GpuGemmScales::kNone) {
    // Scales of columns are read in pairs.
    const bool in_pairs = problem.scales == GpuGemmScales::kOfBlocks || problem.n.divide_exactly(2).has_value();
    if (!hopper || plan.mainloop.type != GpuGemmType::kF8Pair || !in_pairs) return std::nullopt;
  }
  if (hopper) {
    plan_hopper(problem, architecture, plan);
  } else if (!problem.fixed_order && serves_skinny_gemm(problem, architecture)) {
    plan_skinny(problem, architecture, plan);
  } else {
    plan_portable(problem, architecture, plan);
  }
  return plan;
}

}  // namespace causeway::codegen
