#include "causeway/codegen/gpu/gemm_tensor_maps.h"

#include <algorithm>

namespace causeway::codegen {
namespace {

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

TensorMap result_map(const GpuGemmProblem& problem, int buffer, int columns, const SymbolBindings& bindings) {
  const auto size = [&](const Dim& dim) { return mapped_size(dim, bindings); };
  const auto bytes = static_cast<int>(size_bytes(problem.epilogue.stored.front()));
  TensorMap result;
  result.buffer = buffer;
  result.element_bytes = bytes;
  result.rank = 3;
  result.sizes = {size(problem.n), size(problem.m), size(problem.batch)};
  const int64_t row = std::max<int64_t>(16, result.sizes[0] * bytes);
  result.stride_bytes = {bytes, row, row * result.sizes[1]};
  result.box = {columns, kHopperGemmStoredRows, 1};
  result.swizzle_bytes = kHopperGemmBoxLine;
  return result;
}

}  // namespace

std::vector<int> gemm_stored_columns(const HopperGemmTile& tile, DType stored) {
  const auto bytes = static_cast<int>(size_bytes(stored));
  std::vector<int> columns = {hopper_gemm_stored_columns(bytes)};
  if (const int last = hopper_gemm_last_stored_columns(tile, bytes); last > 0) columns.push_back(last);
  return columns;
}

TensorMapFunction gemm_tensor_maps(const GpuGemmProblem& problem, const GpuGemmPlan& plan, int a, int b,
                                   const std::vector<int>& at_result) {
  const HopperGemmTile tile = *plan.mainloop.hopper();
  std::vector<int> boxes;
  if (plan.epilogue.stores_by_tma) boxes = gemm_stored_columns(tile, problem.epilogue.stored.front());
  return [=, mainloop = plan.mainloop](const SymbolBindings& bindings) {
    const bool rounds = mainloop.type == GpuGemmType::kTf32;
    std::vector<TensorMap> maps = {operand_map(mainloop.a, rounds, a, hopper_gemm_loaded_lines(tile, false), bindings),
                                   operand_map(mainloop.b, rounds, b, hopper_gemm_loaded_lines(tile, true), bindings)};
    for (const int columns : boxes)
      for (const int buffer : at_result) maps.push_back(result_map(problem, buffer, columns, bindings));
    return maps;
  };
}

}  // namespace causeway::codegen
