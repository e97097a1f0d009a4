// GEMMs on Hopper (kernels/gpu/gemm_hopper.h): TMA loads operands, warpgroups multiply them. Which tiles it takes,
// gemm_hopper_model.h and gemm_hopper_few_rows.h say.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/gemm_hopper_few_rows.h"
#include "causeway/codegen/gpu/gemm_hopper_model.h"
#include "causeway/codegen/gpu/gemm_mainloops.h"
#include "causeway/codegen/gpu/gemm_sizes.h"
#include "causeway/codegen/gpu/loops.h"

namespace causeway::codegen {
namespace {

// Whether what is read at the results' place has 16 bits where they have 32.
bool fetches_16_bits_beside_f32(const GpuGemmEpilogue& epilogue) {
  return !epilogue.fetched.empty() && !epilogue.stored.empty() && size_bytes(epilogue.fetched.front()) == 2 &&
         size_bytes(epilogue.stored.front()) == 4;
}

// Whether TMA can store what is computed: one tensor over what is read at its place, or two; of rows of whole pieces of
// 16 bytes. Beside f32 two of 16 bits may be read.
bool can_store_by_tma(const GpuGemmEpilogue& epilogue, const Dim& n) {
  const auto& [members, stored, fetched] = epilogue;
  constexpr size_t kMostTensors = 2;
  if (stored.empty() || fetched.size() > kMostTensors) return false;
  const DType dtype = stored.front(), read = fetched.empty() ? dtype : fetched.front();
  const bool beside = fetches_16_bits_beside_f32(epilogue);
  if (stored.size() + (beside ? 1 : fetched.size()) > kMostTensors) return false;
  if (!beside && size_bytes(read) != size_bytes(dtype)) return false;
  if (beside && !(std::all_of(fetched.begin(), fetched.end(), [&](DType other) { return other == read; }) &&
                  n.divide_exactly(16 / static_cast<int64_t>(size_bytes(read)))))
    return false;
  return std::all_of(stored.begin(), stored.end(), [&](DType other) { return other == dtype; }) &&
         (dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32) &&
         n.divide_exactly(16 / static_cast<int64_t>(size_bytes(dtype)));
}

// Few rows or columns have other kernels. None of them scales blocks.
bool is_left_to_others(const GpuGemmProblem& problem) {
  return problem.fixed_order || (problem.is_skinny() && problem.scales == GpuGemmScales::kNone);
}

// Whether warpgroups multiply 8-bit operands as they lie.
bool multiplies_pairs(const GpuGemmProblem& problem) {
  const GpuGemmOperand &a = problem.a, &b = problem.b;
  return problem.may_multiply_pairs() && a.is_multiple(16) && b.is_multiple(16) &&
         a.batch.size() + 2 <= TensorMap::kMaxRank && b.batch.size() + 2 <= TensorMap::kMaxRank && a.k.is_constant() &&
         a.k.constant() > 0;
}

// Whether lines of the operand begin within sectors.
bool splits_sectors(const GpuGemmOperand& operand) {
  const int64_t elements = kSectorBytes / operand.element_bytes;
  const auto splits = [&](const Dim& distance) { return !distance.divide_exactly(elements).has_value(); };
  return splits(operand.stride) || splits(operand.offset) ||
         std::any_of(operand.batch.begin(), operand.batch.end(), [&](const auto& one) { return splits(one.stride); });
}

GpuGemmMainloopPlan multiplied_by_warpgroups(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  const bool tf32 = problem.type == GpuGemmType::kF32 && problem.rounds_to_tf32 && architecture.has_tf32_matrix;
  return multiplied_as(multiplies_pairs(problem) ? GpuGemmType::kF8Pair
                       : tf32                    ? GpuGemmType::kTf32
                                                 : problem.type,
                       problem);
}

// Whether TMA and wgmma take the operand as it lies.
bool serves_tma(const GpuGemmMainloopPlan& mainloop, const GpuGemmOperand& operand) {
  return (operand.element_bytes == 2 || mainloop.type == GpuGemmType::kTf32) && operand.fits_tma();
}

bool serves_scales(const GpuGemmProblem& problem, const GpuGemmMainloopPlan& mainloop) {
  if (problem.scales == GpuGemmScales::kNone) return true;
  // Scales of columns are read in pairs.
  return mainloop.type == GpuGemmType::kF8Pair &&
         (problem.scales == GpuGemmScales::kOfBlocks || problem.n.divide_exactly(2).has_value());
}

bool serves_hopper(const GpuGemmProblem& problem, const GpuGemmMainloopPlan& mainloop,
                   const GpuArchitecture& architecture) {
  return architecture.has_warpgroup_matrix && architecture.has_tma && !is_left_to_others(problem) &&
         serves_tma(mainloop, mainloop.a) && serves_tma(mainloop, mainloop.b) && serves_scales(problem, mainloop) &&
         (mainloop.type != GpuGemmType::kTf32 || mainloop.b.contiguous_in_k);
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

// Where so few rows are multiplied by weights that reading those takes all the time.
std::optional<HopperGemmPlan> plan_few_rows(const GpuGemmProblem& problem, HopperGemmAccumulators sums,
                                            const GemmOrder& order, const GpuArchitecture& architecture) {
  const bool is_one =
      problem.batch.is_constant(1) && problem.m.is_constant() && problem.n.is_constant() && problem.n.constant() > 0;
  if (!is_one || !problem.b_never_changes || problem.m.constant() > kHopperGemmMostFewRows ||
      sums != HopperGemmAccumulators::kOne || problem.a.element_bytes != 2 || problem.b.element_bytes != 2 ||
      !order.a_along_k || !order.b_along_k || order.a_splits_sectors || order.b_splits_sectors)
    return std::nullopt;
  return choose_hopper_gemm_of_few_rows(architecture, problem.m.constant(), problem.n.constant(), problem.k.constant());
}

std::optional<GpuGemmPlan> plan_hopper(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  GpuGemmPlan plan;
  plan.mainloop = multiplied_by_warpgroups(problem, architecture);
  if (!serves_hopper(problem, plan.mainloop, architecture)) return std::nullopt;
  const auto& [members, stored, fetched] = problem.epilogue;
  GpuGemmMainloopPlan& mainloop = plan.mainloop;
  const GpuGemmOperand &a = mainloop.a, &b = mainloop.b;
  const HopperGemmAccumulators sums = hopper_accumulators(problem, mainloop.type);
  plan.epilogue.stores_by_tma = can_store_by_tma(problem.epilogue, problem.n);
  const auto stores = !plan.epilogue.stores_by_tma ? HopperGemmStores::kOther
                      : fetched.empty()            ? HopperGemmStores::kByTma
                                                   : HopperGemmStores::kByTmaAdded;
  // Slices count, of so many bytes and MMAs of instructions whatever they hold.
  const int64_t halves_of_k = mainloop.k.constant() * a.element_bytes / 2;
  const GemmOrder order = {
      .a_along_k = a.contiguous_in_k,
      .b_along_k = b.contiguous_in_k,
      .a_splits_sectors = splits_sectors(a),
      .b_splits_sectors = splits_sectors(b),
      .results_split_sectors =
          plan.epilogue.stores_by_tma &&
          !problem.n.divide_exactly(kSectorBytes / static_cast<int64_t>(size_bytes(stored.front()))),
      .a_in_registers = a.element_bytes == 4 && !a.contiguous_in_k,
      .few_batch_dimensions = a.batch.size() <= 1 && b.batch.size() <= 1,
      .may_swap = stores == HopperGemmStores::kByTma && sums == HopperGemmAccumulators::kOne && a.element_bytes == 2 &&
                  size_bytes(stored.front()) == 2,
      .one_result = stored.size() == 1,
      .least_boxes = plan.epilogue.stores_by_tma && fetches_16_bits_beside_f32(problem.epilogue)
                         ? hopper_gemm_boxes_beside(static_cast<int>(fetched.size()))
                         : kHopperGemmBoxesOfPiece};
  const std::optional<HopperGemmPlan> few_rows = plan_few_rows(problem, sums, order, architecture);
  const HopperGemmPlan chosen =
      few_rows ? *few_rows
               : choose_hopper_gemm(architecture, sums, stores, known_size(problem.batch), known_size(problem.m),
                                    known_size(problem.n), halves_of_k, order);
  const HopperGemmTile& tile = chosen.tile;
  mainloop.tile = tile;
  if (tile.swapped) std::swap(mainloop.a, mainloop.b);
  plan.scheduler = {.persistent = !few_rows,
                    .cluster = hopper_gemm_cluster(tile),
                    .splits = chosen.splits,
                    .whole_tiles = chosen.whole_tiles};
  if (chosen.splits > 1)
    plan.scheduler.split_tiles = problem.batch.constant() *
                                     divide_up(mainloop.a.lines.constant(), hopper_gemm_cluster_rows(tile)) *
                                     divide_up(mainloop.b.lines.constant(), hopper_gemm_cluster_columns(tile)) -
                                 chosen.whole_tiles;
  return plan;
}

std::string hopper_members(const GpuGemmPlan& plan) {
  return fmt::format("{}\nstatic constexpr int kWholeTiles = {};\n{}",
                     gemm_tile_text(*plan.mainloop.tile_of<HopperGemmTile>()), plan.scheduler.whole_tiles,
                     plan.scheduler.persistent ? "" : "static constexpr bool kBeginsEarly = true;\n");
}

// How wide the boxes are in which results leave: whole ones, and a tile's last ones where they have fewer columns.
std::vector<int> stored_columns(const HopperGemmTile& tile, DType stored) {
  const auto bytes = static_cast<int>(size_bytes(stored));
  std::vector<int> columns = {hopper_gemm_stored_columns(bytes)};
  if (const int last = hopper_gemm_last_stored_columns(tile, bytes); last > 0) columns.push_back(last);
  return columns;
}

GpuGemmLaunch launch_hopper(const GpuGemmProblem& problem, const GpuGemmPlan& plan, const GpuArchitecture&) {
  const auto tile = *plan.mainloop.tile_of<HopperGemmTile>();
  const auto& [persistent, cluster, splits, whole_tiles, split_tiles] = plan.scheduler;
  GpuGemmLaunch launch;
  launch.begins_early = !persistent;
  launch.tensor_maps = 2;
  if (plan.epilogue.stores_by_tma) {
    const auto& [members, stored, fetched] = problem.epilogue;
    launch.tensor_maps +=
        static_cast<int>((stored.size() + fetched.size()) * stored_columns(tile, stored.front()).size());
  }
  launch.run = gpu_phase(kGpuGemmRun, hopper_gemm_threads(tile), hopper_gemm_shared_bytes(tile),
                         [tile, batch = problem.batch, rows = plan.mainloop.a.lines, columns = plan.mainloop.b.lines,
                          more = split_tiles * (splits - 1)](const SymbolBindings& bindings) {
                           const int64_t tiles =
                               batch.evaluate(bindings) *
                               divide_up(rows.evaluate(bindings), hopper_gemm_cluster_rows(tile)) *
                               divide_up(columns.evaluate(bindings), hopper_gemm_cluster_columns(tile));
                           return (tiles + more) * hopper_gemm_cluster(tile);
                         });
  launch.run.persistent = persistent;
  launch.run.cluster = cluster;
  if (splits == 1) return launch;
  launch.combine =
      gpu_phase(kGpuGemmCombine, kHopperGemmCombineThreads, kHopperGemmCombineShared,
                [blocks = split_tiles * hopper_gemm_combine_blocks(tile)](const SymbolBindings&) { return blocks; });
  launch.workspace_bytes = [bytes = split_tiles * splits * cluster * tile.m * tile.n *
                                    static_cast<int64_t>(sizeof(float))](const SymbolBindings&) { return bytes; };
  return launch;
}

// The device refuses empty dimensions; nothing is launched then.
int64_t mapped_size(const Dim& dim, const SymbolBindings& bindings) {
  return std::max<int64_t>(1, dim.evaluate(bindings));
}

TensorMap operand_map(const GpuGemmOperand& operand, bool rounds_to_tf32, int buffer, int box_lines,
                      const SymbolBindings& bindings) {
  const int64_t element_bytes = operand.element_bytes;
  const auto size = [&](const Dim& dim) { return mapped_size(dim, bindings); };
  TensorMap result;
  result.buffer = buffer;
  result.offset = operand.offset.evaluate(bindings) * element_bytes;
  result.element_bytes = static_cast<int>(element_bytes);
  result.rank = 2;
  result.sizes[0] = size(operand.contiguous_in_k ? operand.k : operand.lines);
  result.sizes[1] = size(operand.contiguous_in_k ? operand.lines : operand.k);
  result.stride_bytes[0] = element_bytes;
  // Of a dimension of one element the stride does not count, but it has to be a valid one.
  result.stride_bytes[1] = std::max<int64_t>(16, operand.stride.evaluate(bindings) * element_bytes);
  result.box[0] = hopper_gemm_slice_k(result.element_bytes);
  result.box[1] = operand.contiguous_in_k ? box_lines : hopper_gemm_slice_k(result.element_bytes);
  for (size_t i = operand.batch.size(); i-- > 0;) {
    const auto rank = static_cast<size_t>(result.rank++);
    result.sizes[rank] = size(operand.batch[i].extent);
    result.stride_bytes[rank] = operand.batch[i].stride.evaluate(bindings) * element_bytes;
    result.box[rank] = 1;
  }
  result.swizzle_bytes = 128;
  result.rounds_to_tf32 = rounds_to_tf32;
  return result;
}

// Of a tensor of results, or of what is read at their place.
TensorMap result_map(const GpuGemmProblem& problem, DType dtype, int buffer, int columns,
                     const SymbolBindings& bindings) {
  const auto size = [&](const Dim& dim) { return mapped_size(dim, bindings); };
  const auto bytes = static_cast<int>(size_bytes(dtype)),
             stored_bytes = static_cast<int>(size_bytes(problem.epilogue.stored.front()));
  TensorMap result;
  result.buffer = buffer;
  result.element_bytes = bytes;
  result.rank = 3;
  result.sizes = {size(problem.n), size(problem.m), size(problem.batch)};
  const int64_t row = std::max<int64_t>(16, result.sizes[0] * bytes);
  result.stride_bytes = {bytes, row, row * result.sizes[1]};
  result.box = {columns, kHopperGemmStoredRows, 1};
  result.swizzle_bytes = kHopperGemmBoxLine * bytes / stored_bytes;
  return result;
}

TensorMapFunction hopper_tensor_maps(const GpuGemmProblem& problem, const GpuGemmPlan& plan, int a, int b,
                                     const std::vector<int>& at_result) {
  const auto tile = *plan.mainloop.tile_of<HopperGemmTile>();
  const auto& [members, stored, fetched] = problem.epilogue;
  std::vector<int> boxes;
  if (plan.epilogue.stores_by_tma) boxes = stored_columns(tile, stored.front());
  std::vector<DType> dtypes = stored;
  dtypes.insert(dtypes.end(), fetched.begin(), fetched.end());
  return [=, mainloop = plan.mainloop](const SymbolBindings& bindings) {
    const bool rounds = mainloop.type == GpuGemmType::kTf32;
    std::vector<TensorMap> maps = {operand_map(mainloop.a, rounds, a, hopper_gemm_loaded_lines(tile, false), bindings),
                                   operand_map(mainloop.b, rounds, b, hopper_gemm_loaded_lines(tile, true), bindings)};
    for (const int columns : boxes)
      for (size_t i = 0; i < at_result.size(); ++i)
        maps.push_back(result_map(problem, dtypes[i], at_result[i], columns, bindings));
    return maps;
  };
}

bool hides_hopper_epilogue(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  return !problem.fixed_order && architecture.has_warpgroup_matrix && architecture.has_tma &&
         size_bytes(problem.a.dtype) == 2 && can_store_by_tma(problem.epilogue, problem.n) &&
         size_bytes(problem.epilogue.stored.front()) == 2;
}

// Where operands are rounded to tf32, warpgroups take A as it lies, in registers, and B along k.
bool takes_floats(const GpuGemmProblem& problem, const GpuGemmOperand& operand) {
  return (operand.contiguous_in_k || &operand == &problem.a) && operand.fits_tma();
}

// Whether warpgroups multiply operands once those that they do not take lie along k, so much faster than waves do (five
// times) that copies are worth their time: of two million elements one takes 5 microseconds, of few as long as a
// launch.
bool gains_from_copies(const GpuGemmProblem& problem, const GpuGemmOperand& operand,
                       const GpuArchitecture& architecture) {
  constexpr int64_t kLeastOtherLines = 256, kLeastMultiplyAdds = int64_t{1} << 28;
  if (takes_floats(problem, operand) || !problem.rounds_to_tf32 || !architecture.has_warpgroup_matrix ||
      problem.fixed_order)
    return false;
  const auto is_less = [](const Dim& size, int64_t least) { return size.is_constant() && size.constant() < least; };
  const auto may_be_multiplied = [&](const GpuGemmOperand& one, const Dim& other_lines) {
    return takes_floats(problem, one) ||
           (!one.contiguous_in_k && one.is_view && !is_less(other_lines, kLeastOtherLines));
  };
  return problem.k.is_constant() && problem.k.divide_exactly(4).has_value() &&
         may_be_multiplied(problem.a, problem.n) && may_be_multiplied(problem.b, problem.m) &&
         !is_less(problem.batch * problem.m * problem.n * problem.k, kLeastMultiplyAdds);
}

}  // namespace

const GpuGemmMainloop& hopper_gemm_mainloop() {
  static constexpr GpuGemmMainloop kMainloop = {.header = "causeway/kernels/gpu/gemm_hopper.h",
                                                .run = "hopper_gemm_run",
                                                .combine = "hopper_gemm_combine",
                                                .plan = plan_hopper,
                                                .members = hopper_members,
                                                .launch = launch_hopper,
                                                .tensor_maps = hopper_tensor_maps,
                                                .hides_epilogue = hides_hopper_epilogue,
                                                .gains_from_copy = gains_from_copies};
  return kMainloop;
}

}  // namespace causeway::codegen
