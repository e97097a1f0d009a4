// Graphs with collectives, and inputs for every rank.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "causeway/graph/graph.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {

inline Mesh one_axis(int64_t ranks) { return {{{"dp", ranks, 1, true}}}; }

inline std::vector<std::vector<HostTensor>> random_inputs(const Graph& graph, int64_t ranks) {
  std::vector<std::vector<HostTensor>> inputs(static_cast<size_t>(ranks));
  for (size_t rank = 0; rank < inputs.size(); ++rank)
    for (const Value input : graph.inputs())
      inputs[rank].push_back(random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}),
                                                100 * rank + inputs[rank].size() + 1, -1, 1));
  return inputs;
}

// Each collective between kernels, of N ranks, in f32 and in bf16.
inline std::string every_collective(int64_t ranks) {
  return fmt::format(R"(%0 = input "x" : f32[{0}, 3, 35]
%1 = input "w" : f32[35, 35]
%2 = mul(%0, %0) : f32[{0}, 3, 35]
%3 = all_reduce(%2) {{count={0}, group="dp"}} : f32[{0}, 3, 35]
%4 = reduce_scatter(%2) {{count={0}, group="dp"}} : f32[3, 35]
%5 = dot(%4, %1) : f32[3, 35]
%6 = all_gather(%5) {{count={0}, group="dp"}} : f32[{0}, 3, 35]
%7 = add(%3, %6) : f32[{0}, 3, 35]
%8 = cast(%7) {{dtype=bf16}} : bf16[{0}, 3, 35]
%9 = all_to_all(%8) {{count={0}, group="dp"}} : bf16[{0}, 3, 35]
%10 = all_gather(%9) {{count={0}, group="dp"}} : bf16[{0}, {0}, 3, 35]
%11 = reduce_scatter(%10) {{count={0}, group="dp"}} : bf16[{0}, 3, 35]
%12 = cast(%11) {{dtype=f32}} : f32[{0}, 3, 35]
return %7, %12, %5
)",
                     ranks);
}

}  // namespace causeway::program
