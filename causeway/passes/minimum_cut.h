// The cheapest cut of a directed graph between a source and a sink, by a maximum flow (Boost.Graph's, of Boykov and
// Kolmogorov, IEEE PAMI 26(9), 2004).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace causeway::passes {

class MinimumCut {
 public:
  // Of edges that no cut may take. Finite capacities must add up to less.
  static constexpr int64_t kUncuttable = std::numeric_limits<int64_t>::max() / 4;

  // Vertices are 0 to vertices - 1.
  explicit MinimumCut(int32_t vertices) : vertices_(vertices) {}

  void add_edge(int32_t from, int32_t to, int64_t capacity) { edges_.push_back({from, to, capacity}); }

  // Which vertices are on the sink's side. Of several cheapest cuts, the one nearest to the sink, whichever maximum
  // flow was found. An internal error when every cut takes an edge that none may.
  std::vector<bool> sink_side(int32_t source, int32_t sink) const;

 private:
  struct Edge {
    int32_t from, to;
    int64_t capacity;
  };

  int32_t vertices_;
  std::vector<Edge> edges_;
};

}  // namespace causeway::passes
