#include "causeway/program/hidden_epilogue.h"

namespace causeway::program {

bool may_hide_epilogue(const Graph& graph, const KernelRequest& gemm, Value value) {
  constexpr size_t kMostTensors = 2;
  constexpr int64_t kBoxGranule = 8;  // elements of 16 bits: a row of a TMA box is a multiple of 16 bytes
  const Value result = gemm.members.front();
  const DType dtype = graph.dtype(result);
  return gemm.members.size() < kMostTensors && size_bytes(dtype) == 2 && graph.dtype(value) == dtype &&
         size_bytes(graph.dtype(graph.node(result).inputs[0])) == 2 &&
         graph.shape(result).back().divide_exactly(kBoxGranule).has_value();
}

}  // namespace causeway::program
