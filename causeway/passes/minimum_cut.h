// The cheapest cut of a directed graph between a source and a sink (maximum flow by Dinic's algorithm, Soviet Math.
// Doklady 11, 1970).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace causeway::passes {

class MinimumCut {
 public:
  // Of edges that no cut may take. Finite capacities must add up to less.
  static constexpr int64_t kUncuttable = std::numeric_limits<int64_t>::max() / 4;

  // Vertices are 0 to vertices - 1.
  explicit MinimumCut(int32_t vertices);

  void add_edge(int32_t from, int32_t to, int64_t capacity);

  // Which vertices are on the sink's side. Of several cheapest cuts, the one nearest to the sink. An internal error
  // when every cut takes an edge that none may. Once.
  std::vector<bool> sink_side(int32_t source, int32_t sink);

 private:
  struct Edge {
    int32_t to;
    int64_t residual;
  };

  bool find_levels(int32_t source, int32_t sink);
  int64_t push_along_one_path(int32_t source, int32_t sink);

  std::vector<Edge> edges_;  // an edge at 2 n, its reverse at 2 n + 1
  std::vector<std::vector<int32_t>> leaving_;
  std::vector<int32_t> level_;
  std::vector<size_t> next_;  // of each vertex, the edge to try next in this phase
};

}  // namespace causeway::passes
